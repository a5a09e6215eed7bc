/* SPDX-License-Identifier: MIT */
/* Slots of registered files change while requests use them. */
#undef NDEBUG
#include <fcntl.h>
#include <stdlib.h>

#include "test-uring-files.h"

/*
 * Workers, a submitting thread and a registering thread change slots while requests use
 * them
 */

static uint32_t is_over; /* atomic */

static bool is_one_of(int32_t res, const int32_t *these, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		if (res == these[i])
			return true;
	return false;
}

enum { OPENS, CLOSES, READS, UPDATES, NR_WHATS };

static void assert_expected(const struct io_uring_cqe *cqe)
{
	static const int32_t gone[] = { -ENXIO, -EINVAL, -EBADF, -ENFILE };
	int32_t res = cqe->res;

	switch (cqe->user_data) {
	case OPENS:
		assert_true((res >= 0 && res < NR_PLACES) ||
			    is_one_of(res, gone, NR_ELEMENTS(gone)));
		break;
	case CLOSES:
		assert_true(!res || is_one_of(res, gone, NR_ELEMENTS(gone)));
		break;
	case READS: assert_true(res == 1 || res == -EBADF); break;
	case UPDATES:
		assert_true(res == 1 ||
			    is_one_of(res, gone, NR_ELEMENTS(gone)));
		break;
	default:
		assert_int_equal(cqe->user_data,
				 99); /* the completion of a tag */
	}
}

static long register_all_the_time(void *arg)
{
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	struct io_uring_rsrc_register sparse = {
		.nr = NR_PLACES, .flags = IORING_RSRC_REGISTER_SPARSE
	};
	uint64_t tag = 99;
	struct io_uring_rsrc_update2 update = { .data = (uintptr_t)&zero,
						.tags = (uintptr_t)&tag,
						.nr = 1 };
	unsigned seed = 3;

	(void)arg;
	while (!load_relaxed(&is_over)) {
		update.offset = (uint32_t)rand_r(&seed) % NR_PLACES;
		(void)reg(IORING_REGISTER_FILES_UPDATE2, &update,
			  sizeof(update));
		if (rand_r(&seed) % 16)
			continue;
		(void)reg(IORING_UNREGISTER_FILES, NULL, 0);
		(void)reg(IORING_REGISTER_FILES2, &sparse, sizeof(sparse));
	}
	unit_close(zero);
	return 0;
}

/*
 * Prepare some requests.
 * Return: how many completions they will have.
 */
static unsigned put_some(unsigned *seed, int *zero, char *byte)
{
	int place = rand_r(seed) % NR_PLACES;
	uint8_t flags = rand_r(seed) % 2 ? IOSQE_ASYNC : 0;

	put_open("/dev/zero", O_RDONLY, rand_r(seed) % 3 ? place : ANY, OPENS)
		->flags = flags;
	put_read(place, byte, READS)->flags |= flags;
	put_close(rand_r(seed) % NR_PLACES, CLOSES)->flags = flags;
	put_rw(&client, IORING_OP_FILES_UPDATE, -1, zero, 1, place, UPDATES)
		->flags = flags;
	put_read(rand_r(seed) % NR_PLACES, byte, READS);
	if (rand_r(seed) % 4)
		return 5;
	put_open("/dev/zero", O_RDONLY, place, OPENS)->flags =
		flags | IOSQE_IO_HARDLINK;
	put_read(place, byte, READS)->flags |= IOSQE_IO_HARDLINK;
	put_close(place, CLOSES);
	return 8;
}

/*
 * Consume all completions, at least one.
 * Return: how many belong to requests, and not to tags.
 */
static unsigned take_some(void)
{
	unsigned nr = 0;

	do {
		struct io_uring_cqe cqe = get(&client);

		assert_expected(&cqe);
		nr += cqe.user_data < NR_WHATS;
	} while (unread(&client));
	return nr;
}

static void places_change_while_they_are_used(void **state)
{
	unsigned nr_rounds = unit_rounds(3000), nr_owed = 0, seed = 1;
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	struct unit_thread thread;
	static char byte;

	(void)state;
	store_relaxed(&is_over, 0);
	make_table(NR_PLACES);
	unit_thread_start(&thread, register_all_the_time, NULL);
	for (unsigned i = 0; i < nr_rounds; i++) {
		nr_owed += put_some(&seed, &zero, &byte);
		submit(&client, 4);
		nr_owed -= take_some();
	}
	while (nr_owed)
		nr_owed -= take_some();
	store_relaxed(&is_over, 1);
	(void)unit_thread_join(&thread);
	unit_close(zero);
}

/*
 * A thread sends files (IORING_MSG_SEND_FD) into slots of another ring, which reads
 * from the replaced files meanwhile
 */

static struct uring sender;
static int target; /* atomic: a descriptor that is sometimes a ring's */

static long send_all_the_time(void *arg)
{
	unsigned seed = 5;

	(void)arg;
	while (!load_relaxed(&is_over)) {
		struct io_uring_sqe *sqe = put(&sender, IORING_OP_MSG_RING,
					       load_relaxed(&target), 1);
		struct io_uring_cqe cqe;

		sqe->addr = IORING_MSG_SEND_FD;
		sqe->msg_ring_flags = IORING_MSG_RING_CQE_SKIP;
		sqe->file_index = (uint32_t)rand_r(&seed) % NR_PLACES + 1;
		submit(&sender, 1);
		cqe = get(&sender);
		assert_true(!cqe.res || cqe.res == -ENXIO ||
			    cqe.res == -EBADF || cqe.res == -EBADFD);
	}
	return 0;
}

/*
 * Read from each slot. The ring has no request that changes slots, so without messages
 * it would read its table without a lock (rsrc.h, I4).
 */
static void read_all(void)
{
	char byte;

	for (int place = 0; place < NR_PLACES; place++)
		put_read(place, &byte, READS);
	submit(&client, NR_PLACES);
	for (int place = 0; place < NR_PLACES; place++) {
		struct io_uring_cqe cqe = get(&client);

		assert_expected(&cqe);
	}
}

static void files_are_sent_to_places_that_are_used(void **state)
{
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC), fds[NR_PLACES];
	struct unit_thread thread;

	(void)state;
	for (int i = 0; i < NR_PLACES; i++)
		fds[i] = zero;
	client_open(&sender, 4, (struct io_uring_params){ 0 });
	assert_int_equal(uaio_uring_register((uint32_t)sender.fd,
					     IORING_REGISTER_FILES, &zero, 1),
			 0);
	store_relaxed(&is_over, 0);
	store_relaxed(&target, client.fd);
	unit_thread_start(&thread, send_all_the_time, NULL);
	/*
	 * Use a new ring in each round. Once a file was sent to a ring, the thread that
	 * holds the ring takes references to entries (rsrc.h, I4 and I5). So the first
	 * such file changes how a ring is read, and this test is about that moment.
	 */
	for (unsigned i = unit_rounds(1000); i; i--) {
		assert_int_equal(reg(IORING_REGISTER_FILES, fds, NR_PLACES), 0);
		for (unsigned k = 0; k < 8; k++)
			read_all();
		client_close(&client);
		client_open(&client, RING_ENTRIES,
			    (struct io_uring_params){ 0 });
		store_relaxed(&target, client.fd);
	}
	store_relaxed(&is_over, 1);
	(void)unit_thread_join(&thread);
	client_close(&sender);
	unit_close(zero);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		RING_TEST(places_change_while_they_are_used),
		RING_TEST(files_are_sent_to_places_that_are_used),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
