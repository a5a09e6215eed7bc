/* SPDX-License-Identifier: MIT */
/*
 * Waits for futexes: each wait ends once, whatever happens at the same time. A wait
 * ends by a wake-up, which the waker counts, or by a cancellation.
 */
#undef NDEBUG
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "base/newer.h"
#include "op/args.h"

#define RING_ENTRIES 64
#include "test-uring.h"
#include "threads.h"

enum { FLAGS = 2 | 128, CANCELLED = -ECANCELED, NR_WAITS = 8 };

static uint32_t words[NR_WAITS];

static struct io_uring_sqe *put_futex(uint8_t opcode, uint32_t *word,
				      uint64_t value, uint64_t user_data)
{
	struct io_uring_sqe *sqe = put(&client, opcode, FLAGS, user_data);

	sqe->addr = (uintptr_t)word;
	sqe->off = value;
	sqe->addr3 = UINT32_MAX;
	return sqe;
}

static struct io_uring_sqe *put_wait(uint32_t *word, uint64_t user_data)
{
	return put_futex(IORING_OP_FUTEX_WAIT, word, 0, user_data);
}

static void put_cancel(uint64_t target, uint64_t user_data)
{
	put(&client, IORING_OP_ASYNC_CANCEL, -1, user_data)->addr = target;
}

static long wake(uint32_t *word, int nr)
{
	return syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, nr, NULL, NULL, 0);
}

static void a_wait_is_there_when_its_submission_returns(void **state)
{
	(void)state;
	for (unsigned i = 0; i < unit_rounds(300); i++) {
		put_wait(&words[0], 1);
		put_wait(&words[1], 2);
		submit(&client, 0);
		assert_int_equal(wake(&words[1], 9), 1);
		assert_got(&client, 2, 0);
		assert_int_equal(wake(&words[0], 9), 1);
		assert_got(&client, 1, 0);
		assert_none(&client);
	}
}

/* Wake-ups and cancellations at the same time */

static uint32_t nr_woken; /* atomic */
static uint32_t is_over;

static long keep_waking(void *arg)
{
	(void)arg;
	while (!load_relaxed(&is_over))
		for (unsigned i = 0; i < NR_WAITS; i++)
			add_relaxed(&nr_woken, (uint32_t)wake(&words[i], 1));
	return 0;
}

/* Return: whether the completed wait was woken. */
static bool check(const struct io_uring_cqe *cqe, uint32_t *ret_cancels)
{
	/*
	 * A completion of a cancelling request, which has found the wait (result 0 or
	 * 1), has not found it, or came too late (EALREADY).
	 */
	if (cqe->user_data >= NR_WAITS) {
		assert_true(cqe->res == 1 || cqe->res == 0 ||
			    cqe->res == -ENOENT || cqe->res == -EALREADY);
		*ret_cancels += cqe->res >= 0;
		return false;
	}
	assert_true(cqe->res == 0 || cqe->res == CANCELLED);
	*ret_cancels -= cqe->res == CANCELLED;
	return cqe->res == 0;
}

/*
 * Wake and cancel the same waits at the same time. The number of waits that report a
 * wake-up is the number that the wakers count. For each cancelling request that
 * succeeds, one wait reports a cancellation.
 */
static void what_is_woken_is_never_cancelled(void **state)
{
	uint32_t nr = 0, cancels = 0;
	struct unit_thread thread;

	(void)state;
	store_relaxed(&nr_woken, 0);
	store_relaxed(&is_over, 0);
	unit_thread_start(&thread, keep_waking, NULL);
	for (unsigned i = 0; i < unit_rounds(300); i++) {
		for (unsigned k = 0; k < NR_WAITS; k++) {
			put_wait(&words[k], k)->flags =
				k % 3 == 1 ? IOSQE_ASYNC : 0;
			if (k % 3 == 2)
				put_cancel(k, NR_WAITS);
		}
		submit(&client, 0);
		for (unsigned k = 0; k < NR_WAITS; k += 2)
			put_cancel(k, NR_WAITS);
		submit(&client, 0);
		for (unsigned k = 0; k < NR_WAITS + NR_WAITS / 2 + 2; k++) {
			struct io_uring_cqe cqe = get(&client);

			nr += check(&cqe, &cancels);
		}
		assert_none(&client);
	}
	store_relaxed(&is_over, 1);
	(void)unit_thread_join(&thread);
	assert_int_equal(nr, load_relaxed(&nr_woken));
	/*
	 * A wait that is not asleep yet can be cancelled although the cancelling
	 * request reports EALREADY. So there may be more cancelled waits than
	 * successful cancelling requests, but not fewer.
	 */
	assert_true((int32_t)cancels <= 0);
}

static void timeouts_end_waits(void **state)
{
	const struct __kernel_timespec soon = { .tv_nsec = 1 };

	(void)state;
	for (unsigned i = 0; i < unit_rounds(200); i++) {
		struct io_uring_sqe *sqe;

		put_wait(&words[0], 1)->flags =
			(uint8_t)(IOSQE_IO_LINK | (i % 2 ? IOSQE_ASYNC : 0));
		sqe = put(&client, IORING_OP_LINK_TIMEOUT, -1, 2);
		sqe->addr = (uintptr_t)&soon;
		sqe->len = 1;
		submit(&client, 2);
		for (unsigned k = 0; k < 2; k++) {
			struct io_uring_cqe cqe = get(&client);

			if (cqe.user_data == 1)
				assert_int_equal(cqe.res, CANCELLED);
			else
				assert_true(cqe.res == 1 || cqe.res == -ETIME);
		}
		assert_int_equal(wake(&words[0], 9), 0);
	}
}

/*
 * Close a ring that has waiting futex requests; some have no worker yet. All of them
 * end.
 */
static void rings_end_beside_waits(void **state)
{
	(void)state;
	for (unsigned i = 0; i < unit_rounds(100); i++) {
		for (unsigned k = 0; k < NR_WAITS; k++)
			put_wait(&words[k], k)->flags =
				(i + k) % 2 ? IOSQE_ASYNC : 0;
		submit(&client, 0);
		client_close(&client);
		client_open(&client, RING_ENTRIES,
			    (struct io_uring_params){ 0 });
	}
}

/*
 * Wait for as many futexes as one request may have. The library's system call also
 * waits for a futex of the library's own, and the kernel must accept this additional
 * futex.
 */
static void one_of_many(void **state)
{
	static struct uaio_futex_waitv all[UAIO_FUTEXES_MAX];

	(void)state;
	for (uint32_t i = 0; i < UAIO_FUTEXES_MAX; i++)
		all[i] = (struct uaio_futex_waitv){
			.uaddr = (uintptr_t)&words[i == UAIO_FUTEXES_MAX - 1],
			.flags = FLAGS,
		};
	for (unsigned i = 0; i < unit_rounds(100); i++) {
		put_rw(&client, IORING_OP_FUTEX_WAITV, 0, all, UAIO_FUTEXES_MAX,
		       0, 1);
		submit(&client, 0);
		assert_int_equal(wake(&words[1], 9), 1);
		assert_got(&client, 1, UAIO_FUTEXES_MAX - 1);
	}
}

/*
 * If there are fewer workers than waits, submission does not wait for a free worker.
 * When a wait ends, its worker executes the next wait.
 */
static void few_workers(void **state)
{
	uint32_t limits[2] = { 0, 2 };

	(void)state;
	assert_int_equal(
		uaio_uring_register((uint32_t)client.fd,
				    19 /* IORING_REGISTER_IOWQ_MAX_WORKERS */,
				    limits, 2),
		0);
	for (unsigned k = 0; k < 4; k++)
		put_wait(&words[k], k);
	submit(&client, 0);
	assert_int_equal(wake(&words[0], 1), 1);
	assert_got(&client, 0, 0);
	put_cancel(1, 9);
	submit(&client, 0);
	assert_got_both(&client, 1, CANCELLED, 9, 1);
	for (unsigned k = 2; k < 4; k++) {
		while (!wake(&words[k], 1))
			;
		assert_got(&client, k, 0);
	}
	limits[1] = 32768;
	assert_int_equal(
		uaio_uring_register((uint32_t)client.fd, 19, limits, 2), 0);
}

/*
 * If no thread can be created for a wait, its submission is delayed only briefly. If
 * each submission waited for a thread, the test would take a minute.
 */
static int wait_without_threads(void)
{
	enum { NR = 30 };
	const int64_t start = uaio_now_ns();

	client_open(&client, RING_ENTRIES, (struct io_uring_params){ 0 });
	unit_allow_threads(2);
	for (unsigned k = 0; k < NR; k++) {
		put_wait(&words[k % NR_WAITS], k);
		submit(&client, 0);
	}
	assert_true(uaio_now_ns() - start < 30 * SECONDS);
	assert_true(unit_nr_refused_threads() > 0);
	assert_int_equal(wake(&words[0], 9), 1);
	assert_got(&client, 0, 0);
	/*
	 * The thread that becomes free executes the next request, so repeat the wake-up
	 * until that request sleeps.
	 */
	while (!wake(&words[1], 1))
		;
	assert_got(&client, 1, 0);
	/*
	 * Threads are available for all waits again, so each wait sleeps when its
	 * submission returns.
	 */
	unit_allow_threads(UINT32_MAX);
	for (unsigned k = 2; k < NR; k++) {
		while (!wake(&words[k % NR_WAITS], 1))
			;
		(void)get(&client);
	}
	for (unsigned i = 0; i < unit_rounds(50); i++) {
		put_wait(&words[0], 1);
		submit(&client, 0);
		assert_int_equal(wake(&words[0], 9), 1);
		assert_got(&client, 1, 0);
	}
	return 0;
}

static void threads_are_refused(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(wait_without_threads), 0);
}

/*
 * A wake-up and a cancellation find the waits that were submitted before them in the
 * same call.
 */
static void what_is_submitted_together(void **state)
{
	(void)state;
	for (unsigned i = 0; i < unit_rounds(100); i++) {
		static const int32_t results[] = { 0, CANCELLED, 1, 1 };
		uint64_t seen = 0;

		put_wait(&words[0], 0);
		put_wait(&words[0], 1);
		put_futex(IORING_OP_FUTEX_WAKE, &words[0], 1, 2);
		put_cancel(1, 3);
		submit(&client, 0);
		for (unsigned k = 0; k < 4; k++) {
			struct io_uring_cqe cqe = get(&client);

			assert_int_equal(cqe.res, results[cqe.user_data & 3]);
			seen |= 1u << cqe.user_data;
		}
		assert_int_equal(seen, 15);
		assert_none(&client);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RING_TEST(a_wait_is_there_when_its_submission_returns),
		RING_TEST(what_is_woken_is_never_cancelled),
		RING_TEST(timeouts_end_waits),
		RING_TEST(rings_end_beside_waits),
		RING_TEST(one_of_many),
		RING_TEST(few_workers),
		RING_TEST(what_is_submitted_together),
		UNIT_TEST(threads_are_refused),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
