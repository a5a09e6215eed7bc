/* SPDX-License-Identifier: MIT */
/*
 * Threads use one ring at the same time: they submit, wait, close the ring, and look it
 * up
 *
 * Each submission completes once, and each closed ring is freed.
 */
#undef NDEBUG
#include <fcntl.h>
#include <stdlib.h>

#include "base/lock.h"
#include "test-uring.h"

enum { NR_THREADS = 4 };

/* Many threads submit to one ring, under the client's own lock, while others wait. */

static struct uring shared;
static struct uaio_lock client_lock;
static uint32_t nr_got; /* atomic */
static uint32_t nr_rounds;
static int ends[2];

static void put_some(unsigned i)
{
	static char byte;

	uaio_lock(&client_lock, UAIO_RANK_TABLE);
	put(&shared, IORING_OP_NOP, -1, 1)->flags = i % 3 ? 0 : IOSQE_ASYNC;
	put_rw(&shared, IORING_OP_READ, ends[0], &byte, 1, -1, 1);
	(void)tell(&shared);
	uaio_unlock(&client_lock, UAIO_RANK_TABLE);
}

/* Consume all completions. */
static void take_all(void)
{
	uaio_lock(&client_lock, UAIO_RANK_TABLE);
	while (unread(&shared)) {
		(void)get(&shared);
		add_relaxed(&nr_got, 1);
	}
	uaio_unlock(&client_lock, UAIO_RANK_TABLE);
}

static long submit_and_take(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < nr_rounds; i++) {
		uint32_t nr = 2;

		put_some(i);
		assert_int_equal(write(ends[1], "x", 1), 1);
		/*
		 * Another thread may consume the completions of this thread, so do not
		 * wait for them.
		 */
		while (nr) {
			long ret = enter(&shared, nr, 0);

			assert_true(ret >= 0);
			nr = ret ? nr - (uint32_t)ret : 0;
		}
		take_all();
	}
	return 0;
}

static void what_threads_submit_side_by_side_completes(void **state)
{
	struct unit_thread threads[NR_THREADS];
	uint32_t nr;

	(void)state;
	nr_rounds = unit_rounds(2000);
	nr = nr_rounds * NR_THREADS * 2;
	store_relaxed(&nr_got, 0);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	client_open(&shared, 4096, (struct io_uring_params){ 0 });
	for (int i = 0; i < NR_THREADS; i++)
		unit_thread_start(&threads[i], submit_and_take, NULL);
	for (int i = 0; i < NR_THREADS; i++)
		(void)unit_thread_join(&threads[i]);
	while (load_relaxed(&nr_got) < nr) {
		long ret = enter(&shared, 4096, 1);

		assert_true(ret >= 0);
		take_all();
	}
	assert_int_equal(load_relaxed(&nr_got), nr);
	assert_none(&shared);
	client_close(&shared);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/* Rings are made and closed while other threads use their descriptors */

static int named; /* atomic: a descriptor that is sometimes a ring's */
static uint32_t is_over;

static long name_it(void *arg)
{
	(void)arg;
	while (!load_relaxed(&is_over)) {
		uint32_t fd = (uint32_t)load_relaxed(&named);
		long ret = uaio_uring_enter(fd, 1, 0, IORING_ENTER_GETEVENTS,
					    NULL, 0);

		assert_true(ret == 0 || ret == 1 || ret == -EBADF ||
			    ret == -EOPNOTSUPP);
		(void)uaio_uring_owns(fd, false);
		ret = uaio_uring_register(fd, IORING_UNREGISTER_FILES, NULL, 0);
		assert_true(ret == -ENXIO || ret == -EBADF ||
			    ret == -EOPNOTSUPP);
	}
	return 0;
}

static void a_ring_may_go_while_it_is_named(void **state)
{
	struct unit_thread threads[NR_THREADS];
	unsigned rounds = unit_rounds(500);
	static char byte;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	store_relaxed(&is_over, 0);
	store_relaxed(&named, ends[0]);
	for (int i = 0; i < NR_THREADS; i++)
		unit_thread_start(&threads[i], name_it, NULL);
	for (unsigned i = 0; i < rounds; i++) {
		struct uring client;

		client_open(&client, 8, (struct io_uring_params){ 0 });
		store_relaxed(&named, client.fd);
		put(&client, IORING_OP_NOP, -1, 1);
		put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, -1, 2);
		(void)tell(&client);
		while (!unread(&client))
			(void)enter(&client, 2, 0);
		client_close(&client);
		unit_restart_alarm();
	}
	store_relaxed(&is_over, 1);
	for (int i = 0; i < NR_THREADS; i++)
		(void)unit_thread_join(&threads[i]);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/*
 * A ring has three descriptors, one of them unknown to the library. Two threads close
 * the two known ones: the ring must stay alive
 */

static struct {
	struct uring client;
	int known, unseen;
} three;

static void open_three(void)
{
	client_open(&three.client, 8, (struct io_uring_params){ 0 });
	/*
	 * The library searches for other descriptors from the lowest on. The unknown
	 * descriptor must be below the known one, so that the search reaches it first.
	 */
	three.unseen = dup(three.client.fd);
	three.known = dup(three.client.fd);
	assert_true(three.unseen >= 0 && three.known >= 0);
	assert_int_equal(
		uaio_uring_enter((uint32_t)three.known, 0, 0, 0, NULL, 0), 0);
}

static long close_first(void *arg)
{
	(void)arg;
	unit_close(three.client.fd);
	return 0;
}

static long close_known(void *arg)
{
	(void)arg;
	unit_close(three.known);
	return 0;
}

static void use_unseen(long victims, long intruders)
{
	(void)victims;
	(void)intruders;
	three.client.fd = three.unseen;
	put(&three.client, IORING_OP_NOP, -1, 1);
	submit(&three.client, 1);
	assert_got(&three.client, 1, 0);
	client_close(&three.client);
}

static void a_ring_lives_on_by_a_descriptor_that_was_not_seen(void **state)
{
	const struct unit_stepping stepping = {
		.victim = close_first,
		.intruder = close_known,
		.prepare = open_three,
		.check = use_unseen,
		.nr_min = 100,
	};
	(void)state;
	unit_step_through(&stepping);
}

/*
 * By dup2(), unnoticed by the library, the descriptor of one ring becomes a duplicate
 * of another ring's descriptor. Then the first descriptor of that other ring is closed.
 * The other ring continues to work by the duplicate.
 */
static void a_ring_lives_on_by_a_number_that_was_anothers(void **state)
{
	struct uring other, client;
	int number;

	(void)state;
	client_open(&client, 8, (struct io_uring_params){ 0 });
	client_open(&other, 8, (struct io_uring_params){ 0 });
	number = other.fd;
	uring_unmap(&other);
	assert_int_equal(dup2(client.fd, number), number);
	unit_close(client.fd);
	client.fd = number;
	put(&client, IORING_OP_NOP, -1, 1);
	submit(&client, 1);
	assert_got(&client, 1, 0);
	client_close(&client);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		UNIT_TEST(what_threads_submit_side_by_side_completes),
		UNIT_TEST(a_ring_may_go_while_it_is_named),
		UNIT_TEST(a_ring_lives_on_by_a_descriptor_that_was_not_seen),
		UNIT_TEST(a_ring_lives_on_by_a_number_that_was_anothers),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
