/* SPDX-License-Identifier: MIT */
/* What ends a wait for completions: the number of completions, or a timeout. */
#undef NDEBUG
#include <fcntl.h>
#include <stdlib.h>

#define RING_ENTRIES 16
#include "test-uring.h"

static const struct __kernel_timespec late = { .tv_sec = 1000 };
static const struct __kernel_timespec past = { .tv_nsec = 1 };

/* Setup flags that let one thread wait while another submits. */
static const struct {
	const char *name;
	uint32_t flags;
} kinds[] = {
	{ "plain", 0 },
	{ "SQPOLL", IORING_SETUP_SQPOLL },
	{ "COOP_TASKRUN", IORING_SETUP_COOP_TASKRUN },
};

/* A thread that waits for completions. */
struct waiting {
	struct unit_thread thread;
	uint32_t nr; /* how many completions to wait for */
	enum { PLAINLY, WITH_A_MASK, FIRST_FOR_A_TIME } how;
};

/* Return: the number of unread completions at the end of the wait; or -errno. */
static long wait_for_some(void *arg)
{
	const struct waiting *waiting = arg;
	struct __kernel_timespec ts = late;
	uint64_t mask = 0;
	struct uaio_uring_wait_arg how = {
		.sigmask = (uintptr_t)&mask,
		.sigmask_bytes = waiting->how == WITH_A_MASK ? sizeof(mask) : 0,
	};
	long ret;

	if (waiting->how != WITH_A_MASK)
		how.sigmask = 0;
	if (waiting->how == FIRST_FOR_A_TIME) {
		how.min_wait_us = 1000;
		how.timeout = (uintptr_t)&ts;
	}
	ret = uaio_uring_enter((uint32_t)client.fd, 0, waiting->nr,
			       IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
			       &how, sizeof(how));
	return ret < 0 ? ret : unread(&client);
}

static void start_waiting(struct waiting *waiting)
{
	unit_thread_start(&waiting->thread, wait_for_some, waiting);
	unit_await_sleep(&waiting->thread);
}

/* Join the waiting thread, whose wait must end now with nr unread completions. */
static void assert_ends(struct waiting *waiting, long nr)
{
	assert_int_equal(unit_thread_join(&waiting->thread), nr);
}

static struct io_uring_sqe *put_timeout(uint64_t count, uint32_t flags,
					uint64_t user_data)
{
	struct io_uring_sqe *sqe = put_rw(&client, IORING_OP_TIMEOUT, -1, &late,
					  1, (int64_t)count, user_data);

	sqe->timeout_flags = flags;
	return sqe;
}

/*
 * Let the timeout `target` expire now, by an update whose own completion is skipped.
 */
static void end_timeout(uint64_t target, uint32_t flags)
{
	struct io_uring_sqe *sqe =
		put(&client, IORING_OP_TIMEOUT_REMOVE, -1, 0);

	sqe->addr = target;
	sqe->addr2 = (uintptr_t)&past;
	sqe->timeout_flags = IORING_TIMEOUT_UPDATE | IORING_TIMEOUT_ABS | flags;
	sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
	submit(&client, 0);
}

static void take_all(void)
{
	while (unread(&client))
		(void)get(&client);
}

static void a_timeout_ends_every_wait(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(kinds); i++) {
		/*
		 * The first waiting thread becomes the queue's leader: it alone sleeps
		 * in the queue's epoll.
		 */
		struct waiting all[] = { { .nr = 9 },
					 { .nr = 20 },
					 { .nr = 9, .how = WITH_A_MASK } };

		client_close(&client);
		client_open(
			&client, 16,
			(struct io_uring_params){ .flags = kinds[i].flags });
		put_timeout(0, 0, 1);
		submit(&client, 0);
		for (unsigned k = 0; k < NR_ELEMENTS(all); k++)
			start_waiting(&all[k]);
		end_timeout(1, 0);
		for (unsigned k = 0; k < NR_ELEMENTS(all); k++)
			assert_ends(&all[k], 1);
		assert_got(&client, 1, -ETIME);
		/* A timeout that completed earlier does not end a later wait. */
		all[0].nr = 2;
		start_waiting(&all[0]);
		put(&client, IORING_OP_NOP, -1, 3);
		submit(&client, 0);
		unit_await_sleep(&all[0].thread);
		put(&client, IORING_OP_NOP, -1, 4);
		submit(&client, 0);
		assert_ends(&all[0], 2);
	}
}

static void a_timeout_that_is_reached_ends_a_wait(void **state)
{
	struct waiting waiting = { .nr = 9 };

	(void)state;
	put_timeout(2, 0, 1);
	submit(&client, 0);
	start_waiting(&waiting);
	put(&client, IORING_OP_NOP, -1, 2);
	submit(&client, 0);
	unit_await_sleep(&waiting.thread);
	put(&client, IORING_OP_NOP, -1, 3);
	submit(&client, 0);
	assert_ends(&waiting, 3);
	assert_got(&client, 2, 0);
	assert_got(&client, 3, 0);
	assert_got(&client, 1, 0);
}

static void a_timeout_that_says_nothing_ends_a_wait(void **state)
{
	struct waiting waiting = { .nr = 9 };

	(void)state;
	for (int how = PLAINLY; how <= FIRST_FOR_A_TIME; how++) {
		put_timeout(0, IORING_TIMEOUT_ETIME_SUCCESS, 1)->flags =
			IOSQE_CQE_SKIP_SUCCESS;
		submit(&client, 0);
		waiting.how = how;
		start_waiting(&waiting);
		end_timeout(1, 0);
		assert_ends(&waiting, 0);
	}
}

static void each_time_of_a_timeout_ends_a_wait(void **state)
{
	static const struct __kernel_timespec soon = { .tv_nsec = 2000000 };
	struct io_uring_sqe *sqe;

	(void)state;
	client_close(&client);
	/*
	 * Many completions are posted while this thread does not run, so the ring is
	 * large.
	 */
	client_open(&client, 16,
		    (struct io_uring_params){ .flags = IORING_SETUP_CQSIZE,
					      .cq_entries = 32768 });
	sqe = put_timeout(0, IORING_TIMEOUT_MULTISHOT, 1);
	sqe->addr = (uintptr_t)&soon;
	submit(&client, 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(enter(&client, 0, 32768), 0);
		assert_in_range(unread(&client), 1, 32767);
		take_all();
	}
}

static void a_timeout_that_is_cancelled_ends_no_wait(void **state)
{
	static const uint8_t ways[] = { IORING_OP_TIMEOUT_REMOVE,
					IORING_OP_ASYNC_CANCEL };
	struct waiting waiting = { .nr = 3 };

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(ways); i++) {
		put_timeout(0, 0, 1);
		submit(&client, 0);
		start_waiting(&waiting);
		put(&client, ways[i], -1, 2)->addr = 1;
		submit(&client, 0);
		unit_await_sleep(&waiting.thread);
		put(&client, IORING_OP_NOP, -1, 3);
		submit(&client, 0);
		assert_ends(&waiting, 3);
		assert_got_both(&client, 1, -ECANCELED, 2, 0);
		assert_got(&client, 3, 0);
	}
}

static void a_linked_timeout_ends_no_wait(void **state)
{
	struct waiting waiting = { .nr = 3 };
	int ends[2];
	char byte;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, -1, 1)->flags =
		IOSQE_IO_LINK;
	put_rw(&client, IORING_OP_LINK_TIMEOUT, -1, &late, 1, 0, 2);
	submit(&client, 0);
	start_waiting(&waiting);
	end_timeout(2, IORING_LINK_TIMEOUT_UPDATE);
	unit_await_sleep(&waiting.thread);
	put(&client, IORING_OP_NOP, -1, 3);
	submit(&client, 0);
	assert_ends(&waiting, 3);
	take_all();
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void cancelled_and_linked_timeouts_are_counted(void **state)
{
	struct waiting waiting = { .nr = 9 };
	int ends[2];
	char byte;

	(void)state;
	put_timeout(2, 0, 1);
	put_timeout(0, 0, 2);
	submit(&client, 0);
	start_waiting(&waiting);
	put(&client, IORING_OP_TIMEOUT_REMOVE, -1, 3)->addr = 2;
	submit(&client, 0);
	assert_ends(&waiting, 3);
	take_all();
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put_timeout(2, 0, 1);
	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, -1, 2)->flags =
		IOSQE_IO_LINK;
	put_rw(&client, IORING_OP_LINK_TIMEOUT, -1, &late, 1, 0, 3);
	submit(&client, 0);
	start_waiting(&waiting);
	end_timeout(3, IORING_LINK_TIMEOUT_UPDATE);
	assert_ends(&waiting, 3);
	take_all();
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void what_another_thread_takes_counts_for_a_wait(void **state)
{
	struct waiting waiting = { .nr = 3 };

	(void)state;
	put(&client, IORING_OP_NOP, -1, 1);
	submit(&client, 0);
	start_waiting(&waiting);
	assert_got(&client, 1, 0);
	put(&client, IORING_OP_NOP, -1, 2);
	submit(&client, 0);
	unit_await_sleep(&waiting.thread);
	assert_got(&client, 2, 0);
	put(&client, IORING_OP_NOP, -1, 3);
	submit(&client, 0);
	assert_ends(&waiting, 1);
	assert_got(&client, 3, 0);
}

static void a_wait_for_a_time_only_ends_at_that_time(void **state)
{
	const struct uaio_uring_wait_arg how = { .min_wait_us = 1000 };

	(void)state;
	assert_int_equal(
		uaio_uring_enter((uint32_t)client.fd, 0, 2,
				 IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
				 &how, sizeof(how)),
		-ETIME);
}

/* A waiting thread is stopped at each of its instructions while another thread posts */

static long post_one(void *arg)
{
	(void)arg;
	return enter(&client, 1, 0);
}

static long wait_for_one(void *arg)
{
	long ret = enter(&client, 0, 1);

	(void)arg;
	return ret < 0 ? ret : unread(&client);
}

static void prepare_one(void)
{
	take_all();
	put(&client, IORING_OP_NOP, -1, 1);
	assert_int_equal(tell(&client), 1);
}

static void check_one(long victims, long intruders)
{
	assert_int_equal(victims, 1);
	assert_int_equal(intruders, 1);
}

static void a_wait_ends_when_the_client_is_shown_what_has_come(void **state)
{
	static const struct unit_stepping stepping = {
		.victim = post_one,
		.intruder = wait_for_one,
		.prepare = prepare_one,
		.check = check_one,
		.nr_min = 100,
	};

	(void)state;
	unit_step_through(&stepping);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		RING_TEST(a_timeout_ends_every_wait),
		RING_TEST(a_timeout_that_is_reached_ends_a_wait),
		RING_TEST(a_timeout_that_says_nothing_ends_a_wait),
		RING_TEST(each_time_of_a_timeout_ends_a_wait),
		RING_TEST(a_timeout_that_is_cancelled_ends_no_wait),
		RING_TEST(a_linked_timeout_ends_no_wait),
		RING_TEST(cancelled_and_linked_timeouts_are_counted),
		RING_TEST(what_another_thread_takes_counts_for_a_wait),
		RING_TEST(a_wait_for_a_time_only_ends_at_that_time),
		RING_TEST(a_wait_ends_when_the_client_is_shown_what_has_come),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
