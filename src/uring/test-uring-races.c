/* SPDX-License-Identifier: MIT */
/*
 * Threads use one ring at the same time: they submit, wait, cancel, close the ring, and
 * look it up
 *
 * Each submission completes once, and each closed ring is freed.
 */
#undef NDEBUG
#include <fcntl.h>
#include <stdlib.h>

#include "base/lock.h"
#include "ready/ready.h"
#include "uring/cancel.h"
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

/*
 * Polls are updated while they fire, are cancelled, or reach their linked timeout. Each
 * poll ends once, and what is linked to it follows
 */

enum {
	LINKED = 1, /* user_data */
	TIMEOUT,
	FIRST_UPDATE,
	NR_UPDATES = 4,
	FIRST_POLL = FIRST_UPDATE + NR_UPDATES,
};

/* A chain: a poll, its linked timeout, and a no-op. */
static struct {
	uint64_t
		poll; /* the poll's user_data, as the seen completions tell it */
	int32_t poll_res;
	unsigned nr_ended; /* how many of the three have completed */
	bool is_polling;
} chain;

/* Cancel polls, and make the pipe readable, again and again. */
static long disturb(void *arg)
{
	struct uaio_uring_aim aim = { .user_data = FIRST_POLL };
	struct uaio_uring *ring = uaio_uring_find((uint32_t)shared.fd);
	char block[64];

	for (unsigned i = 0; !load_relaxed(&is_over); i++) {
		aim.user_data = FIRST_POLL + i % (NR_UPDATES + 1);
		if (arg)
			(void)uaio_uring_cancel(ring, &aim);
		else if (i % 8 == 0)
			assert_int_equal(write(ends[1], "x", 1), 1);
		else
			(void)!read(ends[0], block, sizeof(block));
		usleep(i % 5 * 20);
	}
	return 0;
}

static void put_chain(uint32_t i)
{
	static struct __kernel_timespec span;
	struct io_uring_sqe *sqe;

	span.tv_nsec = i % 3 ? i % 7 * 20000 : 999999999;
	sqe = put(&shared, IORING_OP_POLL_ADD, ends[0], FIRST_POLL);
	sqe->poll32_events = i % 4 ? POLLIN : POLLPRI;
	sqe->flags = IOSQE_IO_LINK;
	put_rw(&shared, IORING_OP_LINK_TIMEOUT, -1, &span, 1, 0, TIMEOUT)
		->flags = IOSQE_IO_LINK;
	put(&shared, IORING_OP_NOP, -1, LINKED);
}

/* Update number k turns the poll FIRST_POLL + k into FIRST_POLL + k + 1. */
static void put_update(uint64_t k)
{
	struct io_uring_sqe *sqe =
		put(&shared, IORING_OP_POLL_REMOVE, -1, FIRST_UPDATE + k);

	sqe->addr = FIRST_POLL + k;
	sqe->off = sqe->addr + 1;
	sqe->len = IORING_POLL_UPDATE_USER_DATA | IORING_POLL_UPDATE_EVENTS;
	sqe->poll32_events = POLLIN;
}

static void check_end_of_chain(const struct io_uring_cqe *cqe)
{
	chain.nr_ended++;
	if (cqe->user_data == TIMEOUT) {
		assert_true(cqe->res == -ETIME || cqe->res == -ECANCELED ||
			    cqe->res == -EALREADY);
	} else if (cqe->user_data == LINKED) {
		assert_false(chain.is_polling);
		assert_int_equal(cqe->res, chain.poll_res < 0 ? -ECANCELED : 0);
	} else {
		/* The poll ends after each update that succeeded, and only then. */
		assert_true(chain.is_polling);
		assert_int_equal(cqe->user_data, chain.poll);
		assert_true(cqe->res == -ECANCELED || cqe->res == POLLIN);
		chain.is_polling = false;
		chain.poll_res = cqe->res;
	}
}

static void take_some(void)
{
	while (unread(&shared)) {
		struct io_uring_cqe cqe = get(&shared);
		uint64_t k = cqe.user_data - FIRST_UPDATE;

		if (k >= NR_UPDATES) {
			check_end_of_chain(&cqe);
			continue;
		}
		assert_true(!cqe.res || cqe.res == -ENOENT ||
			    cqe.res == -EALREADY);
		if (cqe.res)
			continue;
		assert_true(chain.is_polling);
		assert_int_equal(chain.poll, FIRST_POLL + k);
		chain.poll++;
	}
}

static void update_one_chain(uint32_t i)
{
	chain.is_polling = true;
	chain.poll = FIRST_POLL;
	chain.nr_ended = 0;
	put_chain(i);
	submit(&shared, 0);
	for (uint64_t k = 0; k < NR_UPDATES; k++) {
		put_update(k);
		if ((i + k) % 3)
			continue;
		submit(&shared, 0);
		if (i % 2)
			take_some();
	}
	submit(&shared, 0);
	take_some();
	while (chain.nr_ended < 3) {
		(void)enter(&shared, 0, 1);
		take_some();
	}
	assert_none(&shared);
}

static void polls_are_updated_while_they_end(void **state)
{
	struct unit_thread threads[2];
	unsigned rounds = unit_rounds(2000);

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	client_open(&shared, 16, (struct io_uring_params){ 0 });
	store_relaxed(&is_over, 0);
	unit_thread_start(&threads[0], disturb, NULL);
	unit_thread_start(&threads[1], disturb, &shared);
	for (unsigned i = 0; i < rounds; i++) {
		update_one_chain(i);
		unit_restart_alarm();
	}
	store_relaxed(&is_over, 1);
	for (int i = 0; i < 2; i++)
		(void)unit_thread_join(&threads[i]);
	client_close(&shared);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/*
 * A waiting thread executes an update that is linked to a poll. It goes on serving the
 * ring, so the other polls are not tried again
 */

enum { NR_IDLE = 100, FEW = 10 };

static long await_both(void *arg)
{
	(void)arg;
	return enter(&shared, 0, 2);
}

static void a_thread_that_updates_a_poll_goes_on_serving(void **state)
{
	struct uaio_ready_counters before, after;
	struct io_uring_sqe *sqe;
	struct unit_thread thread;
	int idle[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(pipe2(idle, O_CLOEXEC), 0);
	client_open(&shared, 128, (struct io_uring_params){ 0 });
	for (unsigned i = 0; i < NR_IDLE; i++)
		put(&shared, IORING_OP_POLL_ADD, idle[0], TIMEOUT)
			->poll32_events = POLLIN;
	put(&shared, IORING_OP_POLL_ADD, idle[1], FIRST_POLL)->poll32_events =
		POLLPRI;
	sqe = put(&shared, IORING_OP_POLL_ADD, ends[0], LINKED);
	sqe->poll32_events = POLLIN;
	sqe->flags = IOSQE_IO_LINK;
	put_update(0);
	submit(&shared, 0);
	unit_thread_start(&thread, await_both, NULL);
	unit_await_sleep(&thread);
	uaio_ready_count(&before);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(unit_thread_join(&thread), 0);
	uaio_ready_count(&after);
	assert_in_range(after.nr_tries - before.nr_tries, 0, FEW);
	assert_got(&shared, LINKED, POLLIN);
	assert_got(&shared, FIRST_UPDATE, 0);
	client_close(&shared);
	for (unsigned i = 0; i < 2; i++) {
		unit_close(ends[i]);
		unit_close(idle[i]);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		UNIT_TEST(what_threads_submit_side_by_side_completes),
		UNIT_TEST(a_ring_may_go_while_it_is_named),
		UNIT_TEST(a_ring_lives_on_by_a_descriptor_that_was_not_seen),
		UNIT_TEST(a_ring_lives_on_by_a_number_that_was_anothers),
		UNIT_TEST(polls_are_updated_while_they_end),
		UNIT_TEST(a_thread_that_updates_a_poll_goes_on_serving),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
