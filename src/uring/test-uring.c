/* SPDX-License-Identifier: MIT */
/* Submissions and completions through a ring's memory, and waits. */
#undef NDEBUG
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#define RING_ENTRIES 8
#include "test-uring.h"

static void what_is_put_comes_back_in_order(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 100; i += 8) {
		for (uint64_t j = 0; j < 8; j++)
			put(&client, IORING_OP_NOP, -1, i + j);
		submit(&client, 8);
		for (uint64_t j = 0; j < 8; j++)
			assert_got(&client, i + j, 0);
		assert_none(&client);
	}
}

static void no_more_is_taken_than_is_asked_for_or_is_there(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		put(&client, IORING_OP_NOP, -1, i);
	assert_int_equal(tell(&client), 3);
	assert_int_equal(enter(&client, 2, 0), 2);
	assert_int_equal(unread(&client), 2);
	assert_int_equal(enter(&client, 5, 0), 1);
	assert_int_equal(enter(&client, 5, 0), 0);
	for (uint64_t i = 0; i < 3; i++)
		assert_got(&client, i, 0);
}

static void a_mistake_ends_the_call_after_it(void **state)
{
	(void)state;
	put(&client, IORING_OP_NOP, -1, 1);
	put(&client, 200, -1, 2);
	put(&client, IORING_OP_NOP, -1, 3);
	assert_int_equal(tell(&client), 3);
	assert_int_equal(enter(&client, 3, 0), 2);
	assert_got(&client, 1, 0);
	assert_got(&client, 2, -EINVAL);
	assert_int_equal(enter(&client, 1, 0), 1);
	assert_got(&client, 3, 0);
}

static void a_ring_may_be_asked_to_go_on_after_a_mistake(void **state)
{
	struct uring other;

	(void)state;
	client_open(
		&other, 4,
		(struct io_uring_params){ .flags = IORING_SETUP_SUBMIT_ALL |
						   IORING_SETUP_NO_SQARRAY });
	put(&other, 200, -1, 1);
	put(&other, IORING_OP_NOP, -1, 2)->ioprio = 1;
	put(&other, IORING_OP_NOP, -1, 3)->flags = 0x80;
	put(&other, IORING_OP_NOP, -1, 4);
	submit(&other, 0);
	assert_got(&other, 1, -EINVAL);
	assert_got(&other, 2, -EINVAL);
	assert_got(&other, 3, -EINVAL);
	assert_got(&other, 4, 0);
	client_close(&other);
}

static void an_index_out_of_range_is_dropped(void **state)
{
	uint32_t *array = client.sq_array;

	(void)state;
	put(&client, IORING_OP_NOP, -1, 1);
	put(&client, IORING_OP_NOP, -1, 2);
	array[0] = 8;
	assert_int_equal(tell(&client), 2);
	assert_int_equal(enter(&client, 2, 0), 0);
	assert_int_equal(load_relaxed(client.sq_dropped), 1);
	assert_int_equal(enter(&client, 1, 0), 1);
	assert_got(&client, 2, 0);
}

/*
 * A client overwrites the words of the ring that only the library should write. The
 * library does not rely on them.
 */
static void what_is_not_the_clients_to_write_is_not_read(void **state)
{
	const struct io_sqring_offsets *sq = &client.params.sq_off;
	const struct io_cqring_offsets *cq = &client.params.cq_off;
	const uint32_t ours[] = { sq->head, sq->ring_mask, sq->ring_entries,
				  cq->ring_mask, cq->ring_entries };

	(void)state;
	for (uint64_t i = 0; i < 20; i++) {
		for (unsigned j = 0; j < NR_ELEMENTS(ours); j++)
			store_relaxed(sq_word(&client, ours[j]), 0xdeadbeef);
		/*
		 * When the library posts the next completion, it replaces this wrong
		 * tail by the right value.
		 */
		store_relaxed(sq_word(&client, cq->tail), 12345);
		put(&client, IORING_OP_NOP, -1, i);
		store_release(sq_word(&client, sq->tail), client.prepared);
		assert_int_equal(enter(&client, 5, 0), 1);
		assert_int_equal(load_relaxed(sq_word(&client, sq->head)),
				 i + 1);
		assert_int_equal(unread(&client), 1);
		assert_got(&client, i, 0);
	}
}

static void a_tail_that_is_too_far_says_that_all_places_are_full(void **state)
{
	uint32_t *tail = client.sq_tail;

	(void)state;
	for (uint64_t i = 0; i < 8; i++)
		put(&client, IORING_OP_NOP, -1, i);
	store_release(tail, 1000);
	assert_int_equal(enter(&client, 100, 0), 8);
	store_release(tail, client.prepared);
	for (uint64_t i = 0; i < 8; i++)
		assert_got(&client, i, 0);
	assert_none(&client);
}

static void what_overflows_is_kept_and_handed_on(void **state)
{
	const uint32_t *flags = client.sq_flags;
	uint64_t nr = 0;

	(void)state;
	assert_int_equal(client.params.cq_entries, 16);
	for (; nr < 24; nr++) {
		put(&client, IORING_OP_NOP, -1, nr);
		if (nr % 8 == 7)
			submit(&client, 0);
	}
	assert_int_equal(unread(&client), 16);
	assert_true(load_relaxed(flags) & IORING_SQ_CQ_OVERFLOW);
	assert_got(&client, 0, 0);
	/*
	 * While completions are in the overflow list, new ones are appended there.
	 */
	put(&client, IORING_OP_NOP, -1, nr++);
	submit(&client, 0);
	assert_int_equal(unread(&client), 15);
	for (uint64_t i = 1; i < nr; i++)
		assert_got(&client, i, 0);
	assert_none(&client);
	assert_false(load_relaxed(flags) & IORING_SQ_CQ_OVERFLOW);
	assert_int_equal(load_relaxed(client.cq_overflow), 0);
}

/* Waits */

static long wait_with(struct uaio_uring_wait_arg *arg, uint32_t nr)
{
	return uaio_uring_enter((uint32_t)client.fd, 0, nr,
				IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
				arg, sizeof(*arg));
}

static void a_wait_ends_at_its_time(void **state)
{
	struct __kernel_timespec ts = { .tv_nsec = 2000000 };
	struct uaio_uring_wait_arg arg = { .timeout = (uintptr_t)&ts };
	int64_t start = uaio_now_ns();

	(void)state;
	assert_int_equal(wait_with(&arg, 1), -ETIME);
	assert_true(uaio_now_ns() - start >= 2000000);
	/* A wait that times out returns 0 if some completion is unread. */
	put(&client, IORING_OP_NOP, -1, 1);
	submit(&client, 0);
	assert_int_equal(wait_with(&arg, 2), 0);
	assert_got(&client, 1, 0);
	ts = (struct __kernel_timespec){ .tv_sec = 1 };
	assert_int_equal(uaio_uring_enter((uint32_t)client.fd, 0, 1,
					  IORING_ENTER_GETEVENTS |
						  IORING_ENTER_EXT_ARG |
						  IORING_ENTER_ABS_TIMER,
					  &arg, sizeof(arg)),
			 -ETIME);
}

static void the_arguments_of_a_wait_are_checked(void **state)
{
	struct uaio_uring_wait_arg arg = { .timeout = 0x1000 };
	uint64_t mask = 0;

	(void)state;
	assert_int_equal(wait_with(&arg, 1), -EFAULT);
	assert_int_equal(wait_with(NULL, 1), -EFAULT);
	assert_int_equal(
		uaio_uring_enter((uint32_t)client.fd, 0, 1,
				 IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
				 &arg, 8),
		-EINVAL);
	arg = (struct uaio_uring_wait_arg){ .sigmask = (uintptr_t)&mask,
					    .sigmask_bytes = 4 };
	assert_int_equal(wait_with(&arg, 1), -EINVAL);
	arg.sigmask = 0x1000;
	arg.sigmask_bytes = 8;
	assert_int_equal(wait_with(&arg, 1), -EFAULT);
	/* Without GETEVENTS the arguments of the wait are not checked. */
	assert_int_equal(wait_with(&arg, 0), 0);
}

static void a_shorter_wait_takes_what_there_is(void **state)
{
	struct __kernel_timespec ts = { .tv_sec = 100 };
	struct uaio_uring_wait_arg arg = {
		.timeout = (uintptr_t)&ts,
		.min_wait_us = 1000,
	};

	(void)state;
	put(&client, IORING_OP_NOP, -1, 1);
	submit(&client, 0);
	assert_int_equal(wait_with(&arg, 2), 0);
	assert_got(&client, 1, 0);
}

static int64_t waiting_since; /* atomic */

static long wait_for_two_but_briefly(void *arg)
{
	struct __kernel_timespec ts = { .tv_sec = 1000 };
	struct uaio_uring_wait_arg wait = {
		.timeout = (uintptr_t)&ts,
		.min_wait_us = 1,
	};

	(void)arg;
	store_relaxed(&waiting_since, uaio_now_ns());
	return wait_with(&wait, 2);
}

/*
 * Return: whether the minimum wait (min_wait_usec) is over: 20 ms have passed since the
 * wait began, and the waiting thread sleeps again.
 */
static bool is_brief_wait_over(void *arg)
{
	int64_t since = load_relaxed(&waiting_since);

	return since && uaio_now_ns() > since + 20000000 &&
	       unit_is_asleep(load_relaxed((uint32_t *)arg));
}

static void after_a_brief_wait_for_many_one_is_enough(void **state)
{
	struct unit_thread thread;
	int ends[2];
	char byte;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, -1, 1);
	submit(&client, 0);
	store_relaxed(&waiting_since, 0);
	unit_thread_start(&thread, wait_for_two_but_briefly, NULL);
	unit_await(is_brief_wait_over, &thread.tid);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(unit_thread_join(&thread), 0);
	assert_got(&client, 1, 1);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void handle(int signal)
{
	(void)signal;
}

static long wait_for_one(void *arg)
{
	uint64_t none = 0;

	(void)arg;
	return uaio_uring_enter((uint32_t)client.fd, 0, 1,
				IORING_ENTER_GETEVENTS, &none, sizeof(none));
}

static void a_signal_ends_a_wait(void **state)
{
	struct sigaction action = { .sa_handler = handle }, old;
	struct unit_thread thread;
	sigset_t blocked;

	(void)state;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
	/* The signal is blocked; only the wait's mask admits it. */
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &blocked, NULL), 0);
	unit_thread_start(&thread, wait_for_one, NULL);
	unit_await_sleep(&thread);
	pthread_kill((pthread_t)thread.id, SIGUSR1);
	assert_int_equal(unit_thread_join(&thread), -EINTR);
	assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &blocked, NULL), 0);
	assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
}

static long get_one(void *arg)
{
	(void)arg;
	return enter(&client, 0, 1);
}

static void a_thread_that_waits_is_woken_by_what_completes(void **state)
{
	struct unit_thread thread;
	int ends[2];
	char byte = 0;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, 0, 7);
	submit(&client, 0);
	unit_thread_start(&thread, get_one, NULL);
	unit_await_sleep(&thread);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(unit_thread_join(&thread), 0);
	assert_got(&client, 7, 1);
	assert_int_equal(byte, 'x');
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void closing_ends_a_wait(void **state)
{
	struct unit_thread thread;
	struct uring other = client;

	(void)state;
	unit_thread_start(&thread, get_one, NULL);
	unit_await_sleep(&thread);
	client_close(&other);
	assert_int_equal(unit_thread_join(&thread), -EBADF);
	client_open(&client, 8, (struct io_uring_params){ 0 });
}

/* Random writes of the client */

static uint64_t seed = 1;

static uint32_t any(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33);
}

static uint32_t any_value(void)
{
	static const uint32_t odd[] = { 0,          1,         7,  8,
					15,         16,        17, 0x7fffffff,
					0x80000000, 0xffffffff };

	return any() % 2 ? any() : odd[any() % NR_ELEMENTS(odd)];
}

static void a_ring_that_is_overwritten_hurts_nobody(void **state)
{
	const uint32_t head_bytes = client.params.cq_off.cqes;
	uint32_t *words = sq_word(&client, 0);
	uint32_t nr_words = (uint32_t)(client.rings_bytes / sizeof(uint32_t));
	unsigned rounds = unit_rounds(20000);
	struct uring other;

	(void)state;
	client_own_array(&client);
	client_open(&other, 8, (struct io_uring_params){ 0 });
	for (unsigned i = 0; i < rounds; i++) {
		uint32_t at =
			any() % 2 ? any() % (head_bytes / 4) : any() % nr_words;
		struct io_uring_sqe *sqe;

		/*
		 * Submit no-ops and cancelling requests whose other members are random.
		 */
		sqe = put(&client,
			  any() % 8 ? IORING_OP_NOP : IORING_OP_ASYNC_CANCEL,
			  (int)any_value(), any());
		sqe->flags = (uint8_t)(any() % 4 ? 0 : any());
		sqe->len = any_value();
		sqe->rw_flags = any() % 2 ? 0 : (int)any_value();
		sqe->ioprio = any() % 8 ? 0 : (uint16_t)any();
		(void)tell(&client);
		store_relaxed(&words[at], any_value());
		(void)uaio_uring_enter((uint32_t)client.fd, any() % 16, 0,
				       IORING_ENTER_GETEVENTS, NULL, 0);
		if (i % 64)
			continue;
		/*
		 * Another ring of the process works, whatever the first ring contains.
		 */
		put(&other, IORING_OP_NOP, -1, i);
		submit(&other, 1);
		assert_got(&other, i, 0);
	}
	client_close(&other);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		RING_TEST(what_is_put_comes_back_in_order),
		RING_TEST(no_more_is_taken_than_is_asked_for_or_is_there),
		RING_TEST(a_mistake_ends_the_call_after_it),
		RING_TEST(a_ring_may_be_asked_to_go_on_after_a_mistake),
		RING_TEST(an_index_out_of_range_is_dropped),
		RING_TEST(what_is_not_the_clients_to_write_is_not_read),
		RING_TEST(a_tail_that_is_too_far_says_that_all_places_are_full),
		RING_TEST(what_overflows_is_kept_and_handed_on),
		RING_TEST(a_wait_ends_at_its_time),
		RING_TEST(the_arguments_of_a_wait_are_checked),
		RING_TEST(a_shorter_wait_takes_what_there_is),
		RING_TEST(after_a_brief_wait_for_many_one_is_enough),
		RING_TEST(a_signal_ends_a_wait),
		RING_TEST(a_thread_that_waits_is_woken_by_what_completes),
		RING_TEST(closing_ends_a_wait),
		RING_TEST(a_ring_that_is_overwritten_hurts_nobody),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
