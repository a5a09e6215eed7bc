/* SPDX-License-Identifier: MIT */
/*
 * Threads that end while they sleep in io_getevents, or leave the sleep by siglongjmp()
 * out of a signal handler. Other threads must not wait for them, and they must no
 * longer count as waiters or leaders.
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "aio/aio.h"
#include "aio/ctx.h"
#include "unit.h"

static struct {
	uint64_t handle;
	int ends[2];
	/* a request is parked, so the waiting thread becomes the leader */
	bool is_parked;
	bool has_mask;
	uint32_t has_left; /* atomic: by siglongjmp() */
	uint32_t may_end;  /* atomic */
} waiting;

static struct uaio_ctx *context(void)
{
	return uaio_ctx_find(waiting.handle);
}

static void park_read(uint64_t handle)
{
	static char byte;
	struct iocb iocb =
		unit_iocb(IOCB_CMD_PREAD, waiting.ends[0], &byte, 1, 0);

	assert_int_equal(unit_submit(handle, &iocb), 1);
}

static void prepare(bool is_parked, bool has_mask)
{
	waiting.is_parked = is_parked;
	waiting.has_mask = has_mask;
	store_relaxed(&waiting.has_left, 0);
	store_relaxed(&waiting.may_end, 0);
	waiting.handle = unit_context(4);
	assert_int_equal(pipe2(waiting.ends, O_CLOEXEC), 0);
	if (is_parked)
		park_read(waiting.handle);
}

/* Return: how often this thread has slept so far. */
static long nr_sleeps(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
	return usage.ru_nvcsw;
}

/*
 * Check that nothing is left of the thread that waited and never comes back. Otherwise
 * destroying its context, or opening another context, would wait for that thread, by
 * sleeping again and again. So count the calling thread's sleeps.
 */
static void finish(void)
{
	uint64_t other = unit_context(1);
	long before = nr_sleeps();

	unit_destroy(waiting.handle);
	park_read(other);
	assert_in_range(nr_sleeps() - before, 0, 100);
	unit_destroy(other);
	unit_close(waiting.ends[0]);
	unit_close(waiting.ends[1]);
}

static long wait_for_event(void *arg)
{
	static const uint64_t none;
	const struct uaio_aio_sigset sigset = { &none, sizeof(none) };
	struct uaio_event event;

	(void)arg;
	return uaio_aio_pgetevents(waiting.handle, 1, 1, &event, NULL,
				   waiting.has_mask ? &sigset : NULL);
}

static long wait_cancellably(void *arg)
{
	assert_int_equal(
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	return wait_for_event(arg);
}

static bool nobody_waits(void)
{
	struct uaio_ctx *ctx = context();
	bool is_so;

	uaio_lock(&ctx->queue.group.lock, UAIO_RANK_GROUP);
	is_so = list_is_empty(&ctx->queue.waiters) && !ctx->queue.leader &&
		!load_relaxed(&ctx->queue.group.ready.nr_waiters) &&
		!uaio_ready_has(&ctx->queue.group.ready, UAIO_LEADER);
	uaio_unlock(&ctx->queue.group.lock, UAIO_RANK_GROUP);
	return is_so;
}

/*
 * Skipped under sanitizers. ASan mistakes the stack of a cancelled thread for an
 * overflow. TSan delays signal handlers until the thread no longer sleeps.
 */
static void a_thread_that_is_cancelled_waits_no_more(void **state)
{
	(void)state;
	if (UNIT_IS_SANITIZED)
		skip();
	for (unsigned i = 0; i < 4; i++) {
		struct unit_thread thread;

		prepare(i & 1, i & 2);
		unit_thread_start(&thread, wait_cancellably, NULL);
		unit_await_sleep(&thread);
		assert_int_equal(pthread_cancel((pthread_t)thread.id), 0);
		(void)unit_thread_join(&thread);
		assert_true(nobody_waits());
		finish();
	}
}

static void end_thread(int signal)
{
	(void)signal;
	pthread_exit(NULL);
}

static void a_thread_that_a_handler_ends_waits_no_more(void **state)
{
	struct sigaction action = { .sa_handler = end_thread };

	(void)state;
	if (UNIT_IS_SANITIZED)
		skip();
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	for (unsigned i = 0; i < 4; i++) {
		struct unit_thread thread;

		prepare(i & 1, i & 2);
		unit_thread_start(&thread, wait_for_event, NULL);
		unit_await_sleep(&thread);
		assert_int_equal(pthread_kill((pthread_t)thread.id, SIGUSR1),
				 0);
		(void)unit_thread_join(&thread);
		assert_true(nobody_waits());
		finish();
	}
}

/* With deferred cancellation, io_getevents is not a cancellation point. */
static void a_wait_is_no_place_to_be_cancelled(void **state)
{
	struct unit_thread thread;

	(void)state;
	prepare(true, false);
	unit_thread_start(&thread, wait_for_event, NULL);
	unit_await_sleep(&thread);
	assert_int_equal(pthread_cancel((pthread_t)thread.id), 0);
	assert_int_equal(write(waiting.ends[1], "x", 1), 1);
	assert_int_equal(unit_thread_join(&thread), 1);
	finish();
}

/*
 * The next waiter becomes the leader at once; it need not first find out that the
 * leader is lost.
 */
static void a_waiter_beside_a_cancelled_leader_leads(void **state)
{
	struct unit_thread first, second;

	(void)state;
	if (UNIT_IS_SANITIZED)
		skip();
	prepare(true, false);
	unit_thread_start(&first, wait_cancellably, NULL);
	unit_await_sleep(&first);
	unit_thread_start(&second, wait_for_event, NULL);
	unit_await_sleep(&second);
	assert_int_equal(pthread_cancel((pthread_t)first.id), 0);
	(void)unit_thread_join(&first);
	assert_int_equal(write(waiting.ends[1], "x", 1), 1);
	assert_int_equal(unit_thread_join(&second), 1);
	assert_true(nobody_waits());
	finish();
}

static _Thread_local sigjmp_buf out;

static void jump_out(int signal)
{
	(void)signal;
	siglongjmp(out, 1);
}

static long wait_and_jump_out(void *arg)
{
	if (!sigsetjmp(out, 1))
		return wait_for_event(arg);
	store_release(&waiting.has_left, 1);
	uaio_wake(&waiting.has_left, 1);
	while (!load_acquire(&waiting.may_end))
		(void)uaio_sleep(&waiting.may_end, 0, UAIO_FOREVER);
	return 0;
}

/*
 * A thread leaves its sleep by siglongjmp(). What it leaves behind is cleaned up when
 * the thread ends, and no other thread waits for that.
 */
static void no_thread_waits_for_one_that_has_jumped_out(void **state)
{
	struct sigaction action = { .sa_handler = jump_out };

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	for (unsigned i = 0; i < 4; i++) {
		struct unit_thread thread;

		prepare(i & 1, i & 2);
		unit_thread_start(&thread, wait_and_jump_out, NULL);
		unit_await_sleep(&thread);
		assert_int_equal(pthread_kill((pthread_t)thread.id, SIGUSR1),
				 0);
		while (!load_acquire(&waiting.has_left))
			(void)uaio_sleep(&waiting.has_left, 0, UAIO_FOREVER);
		finish();
		store_release(&waiting.may_end, 1);
		uaio_wake(&waiting.may_end, 1);
		assert_int_equal(unit_thread_join(&thread), 0);
	}
}

/*
 * Either a waiter leads, or the fallback thread has adopted the queue. The latter
 * happens if the submitter is preempted between parking the request and waking a
 * waiter.
 */
static bool is_watched(void *arg)
{
	(void)arg;
	return uaio_ready_has(&context()->queue.group.ready,
			      UAIO_LEADER | UAIO_ADOPTER);
}

static long park_later(void *arg)
{
	(void)arg;
	park_read(waiting.handle);
	return 0;
}

/*
 * Two threads wait before anything is submitted. When a request is parked, one of them
 * becomes the leader, leaves its sleep by siglongjmp(), and never comes back. The
 * library must still serve the other thread.
 */
static void a_waiter_from_before_the_leader_is_not_forgotten(void **state)
{
	struct sigaction action = { .sa_handler = jump_out };
	struct unit_thread jumper, other, submitter;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	prepare(false, false);
	unit_thread_start(&jumper, wait_and_jump_out, NULL);
	unit_await_sleep(&jumper);
	unit_thread_start(&other, wait_for_event, NULL);
	unit_await_sleep(&other);
	unit_thread_start(&submitter, park_later, NULL);
	assert_int_equal(unit_thread_join(&submitter), 0);
	unit_await(is_watched, NULL);
	unit_await_sleep(&jumper);
	unit_await_sleep(&other);
	assert_int_equal(pthread_kill((pthread_t)jumper.id, SIGUSR1), 0);
	while (!load_acquire(&waiting.has_left))
		(void)uaio_sleep(&waiting.has_left, 0, UAIO_FOREVER);
	assert_int_equal(write(waiting.ends[1], "x", 1), 1);
	assert_int_equal(unit_thread_join(&other), 1);
	store_release(&waiting.may_end, 1);
	uaio_wake(&waiting.may_end, 1);
	assert_int_equal(unit_thread_join(&jumper), 0);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_thread_that_is_cancelled_waits_no_more),
		UNIT_TEST(a_thread_that_a_handler_ends_waits_no_more),
		UNIT_TEST(a_wait_is_no_place_to_be_cancelled),
		UNIT_TEST(a_waiter_beside_a_cancelled_leader_leads),
		UNIT_TEST(no_thread_waits_for_one_that_has_jumped_out),
		UNIT_TEST(a_waiter_from_before_the_leader_is_not_forgotten),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
