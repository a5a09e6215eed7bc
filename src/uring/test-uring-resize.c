/* SPDX-License-Identifier: MIT */
/* Resizing rings loses nothing, while other threads post. */
#undef NDEBUG
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "test-uring.h"

enum { OWNED = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN };

static void open_owned(struct uring *owned, uint32_t entries, uint32_t flags)
{
	client_open(owned, entries,
		    (struct io_uring_params){ .flags = OWNED | flags });
}

static long ask_for(const struct uring *owned, uint32_t sq_entries,
		    uint32_t cq_entries, struct io_uring_params *ret_params)
{
	*ret_params = (struct io_uring_params){
		.flags = IORING_SETUP_CQSIZE,
		.sq_entries = sq_entries,
		.cq_entries = cq_entries,
	};
	return uaio_uring_register((uint32_t)owned->fd,
				   IORING_REGISTER_RESIZE_RINGS, ret_params, 1);
}

/*
 * Resize the ring and, on success, map it again. Return: the result of the system call.
 */
static long resize(struct uring *owned, uint32_t sq_entries,
		   uint32_t cq_entries)
{
	struct io_uring_params params;
	long ret = ask_for(owned, sq_entries, cq_entries, &params);
	uint32_t tail = owned->prepared;

	if (ret < 0)
		return ret;
	uring_unmap(owned);
	params.features = owned->params.features;
	params.flags |= owned->params.flags;
	assert_int_equal(uring_map(owned, owned->fd, &params), 0);
	uring_fill_array(owned);
	owned->prepared = tail;
	return ret;
}

static void what_is_in_the_rings_stays(void **state)
{
	static const uint32_t flags[] = {
		0,
		IORING_SETUP_NO_SQARRAY,
		IORING_SETUP_SQE128 | IORING_SETUP_CQE32,
		IORING_SETUP_CQE_MIXED,
	};
	static const uint32_t sizes[] = { 16, 8, 64, 32, 8, 1024, 8 };
	struct uring owned;

	(void)state;
	for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		uint64_t nr_put = 0, nr_got = 0;

		open_owned(&owned, 8, flags[i]);
		for (unsigned k = 0; k < sizeof(sizes) / sizeof(sizes[0]);
		     k++) {
			for (unsigned n = 0; n < 5; n++)
				put(&owned, IORING_OP_NOP, -1, nr_put++);
			submit(&owned, 0);
			/*
			 * Before each resize, leave two completions unread, and two
			 * entries published but not submitted.
			 */
			while (nr_got + 2 < nr_put)
				assert_got(&owned, nr_got++, 0);
			put(&owned, IORING_OP_NOP, -1, nr_put++);
			put(&owned, IORING_OP_NOP, -1, nr_put++);
			(void)tell(&owned);
			assert_int_equal(resize(&owned, sizes[k], 2 * sizes[k]),
					 0);
			assert_int_equal(unread(&owned), 2);
			assert_int_equal(enter(&owned, 2, 0), 2);
		}
		while (nr_got < nr_put)
			assert_got(&owned, nr_got++, 0);
		assert_none(&owned);
		client_close(&owned);
	}
}

static void rings_that_are_too_small_are_not_made(void **state)
{
	struct uring owned;

	(void)state;
	open_owned(&owned, 8, 0);
	for (uint64_t i = 0; i < 5; i++)
		put(&owned, IORING_OP_NOP, -1, i);
	submit(&owned, 0);
	assert_int_equal(resize(&owned, 2, 4), -EOVERFLOW);
	for (uint64_t i = 0; i < 5; i++)
		put(&owned, IORING_OP_NOP, -1, 5 + i);
	(void)tell(&owned);
	assert_int_equal(resize(&owned, 4, 64), -EOVERFLOW);
	assert_int_equal(enter(&owned, 5, 0), 5);
	for (uint64_t i = 0; i < 10; i++)
		assert_got(&owned, i, 0);
	assert_int_equal(resize(&owned, 4, 64), 0);
	client_close(&owned);
}

/*
 * A resize is refused if an unread 32-byte completion would wrap around the end of the
 * new ring: clients read its second half from the next slot.
 */
static void a_completion_of_two_places_is_not_torn(void **state)
{
	struct io_uring_sqe *sqe;
	struct uring owned;
	struct io_uring_cqe cqe;

	(void)state;
	open_owned(&owned, 8, IORING_SETUP_CQE_MIXED);
	for (uint64_t i = 0; i < 3; i++)
		put(&owned, IORING_OP_NOP, -1, i);
	sqe = put(&owned, IORING_OP_NOP, -1, 3);
	sqe->rw_flags = IORING_NOP_CQE32;
	sqe->off = 77;
	submit(&owned, 0);
	for (uint64_t i = 0; i < 3; i++)
		assert_got(&owned, i, 0);
	assert_int_equal(resize(&owned, 4, 4), -EOVERFLOW);
	assert_int_equal(resize(&owned, 16, 32), 0);
	assert_int_equal(unread(&owned), 2);
	assert_int_equal(owned.cqes[4].user_data, 77);
	cqe = get(&owned);
	assert_cqe(&cqe, 3, 0, IORING_CQE_F_32);
	client_close(&owned);
}

/*
 * With a low RLIMIT_FSIZE the ring's file and mappings have no room to grow, but the
 * ring can shrink.
 */
static void a_ring_that_has_no_room_does_not_grow(void **state)
{
	struct rlimit before, low;
	struct uring owned;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	low = before;
	low.rlim_cur = 1 << 20;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	open_owned(&owned, 8, 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(resize(&owned, 4096, 8192), -ENOMEM);
	assert_int_equal(resize(&owned, 4, 8), 0);
	put(&owned, IORING_OP_NOP, -1, 1);
	submit(&owned, 1);
	assert_got(&owned, 1, 0);
	assert_int_equal(resize(&owned, 8, 16), 0);
	client_close(&owned);
}

/* Threads send messages to a ring that is resized repeatedly */

enum { NR_SENDERS = 2, NR_MESSAGES = 2000 };

static struct sender {
	pthread_t thread;
	struct uring own;
	int to;
	uint32_t nr, nr_got;
} senders[NR_SENDERS];

static uint32_t has_failed;

static void *send_all(void *arg)
{
	struct sender *sender = arg;

	for (uint64_t i = 0; i < NR_MESSAGES; i++) {
		struct io_uring_sqe *sqe =
			put(&sender->own, IORING_OP_MSG_RING, sender->to, i);
		struct io_uring_cqe cqe;

		sqe->off = i;
		sqe->len = sender->nr;
		if (enter(&sender->own, tell(&sender->own), 1) != 1)
			store_relaxed(&has_failed, 1);
		cqe = get(&sender->own);
		if (cqe.user_data != i || cqe.res != 0)
			store_relaxed(&has_failed, 1);
	}
	return NULL;
}

static void messages_come_while_a_ring_is_resized(void **state)
{
	static const uint32_t sizes[] = { 4, 64, 1, 16, 2, 8 };
	struct uring owned;
	uint32_t nr_got = 0;

	(void)state;
	open_owned(&owned, 4, 0);
	store_relaxed(&has_failed, 0);
	for (uint32_t i = 0; i < NR_SENDERS; i++) {
		senders[i].nr = i;
		senders[i].nr_got = 0;
		senders[i].to = owned.fd;
		client_open(&senders[i].own, 4, (struct io_uring_params){ 0 });
	}
	for (uint32_t i = 0; i < NR_SENDERS; i++)
		assert_int_equal(pthread_create(&senders[i].thread, NULL,
						send_all, &senders[i]),
				 0);
	for (uint32_t i = 0; nr_got < NR_SENDERS * NR_MESSAGES; i++) {
		const uint32_t size = sizes[i % 6];
		long ret = resize(&owned, size, 2 * size);
		struct io_uring_cqe cqe;

		/* The resize may fail because too many completions are unread. */
		assert_true(ret == 0 || ret == -EOVERFLOW);
		do {
			cqe = get(&owned);
			assert_true(cqe.res >= 0 && cqe.res < NR_SENDERS);
			assert_int_equal(cqe.user_data,
					 senders[cqe.res].nr_got++);
			nr_got++;
		} while (unread(&owned));
	}
	for (uint32_t i = 0; i < NR_SENDERS; i++) {
		assert_int_equal(pthread_join(senders[i].thread, NULL), 0);
		client_close(&senders[i].own);
	}
	assert_int_equal(load_relaxed(&has_failed), 0);
	assert_none(&owned);
	client_close(&owned);
}

/*
 * A parent resizes its ring after fork(). Its child then sends messages to the ring,
 * and must find the new size.
 */
static void a_child_finds_the_size_of_its_parents_ring(void **state)
{
	enum { NR = 20 };
	struct uring owned;
	int ends[2], status;
	char byte;
	pid_t child;

	(void)state;
	open_owned(&owned, 4, 0);
	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		struct uring own;

		client_open(&own, 4, (struct io_uring_params){ 0 });
		if (read(ends[0], &byte, 1) != 1)
			_exit(1);
		for (uint64_t i = 0; i < NR; i++) {
			put(&own, IORING_OP_MSG_RING, owned.fd, i)->off = i;
			submit(&own, 1);
			if (get(&own).res != 0)
				_exit(2);
		}
		_exit(0);
	}
	assert_int_equal(resize(&owned, 16, 32), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	for (uint64_t i = 0; i < NR; i++)
		assert_got(&owned, i, 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	unit_close(ends[0]);
	unit_close(ends[1]);
	client_close(&owned);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		UNIT_TEST(what_is_in_the_rings_stays),
		UNIT_TEST(rings_that_are_too_small_are_not_made),
		UNIT_TEST(a_completion_of_two_places_is_not_torn),
		UNIT_TEST(a_ring_that_has_no_room_does_not_grow),
		UNIT_TEST(messages_come_while_a_ring_is_resized),
		UNIT_TEST(a_child_finds_the_size_of_its_parents_ring),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
