/* SPDX-License-Identifier: MIT */
/*
 * Tests what happens if a request is cancelled while a thread tries it: the canceller
 * learns the outcome, and no other thread has to wait for the try.
 */
#undef NDEBUG
#include <errno.h>
#include <string.h>

#include "req/waits.h"
#include "aio/handle.h"
#include "ready/test-ready.h"
#include "cold.h"

static void each_state_that_waits_has_a_row_and_no_other_has(void **state)
{
	(void)state;
	for (unsigned i = 0; i < UAIO_REQ_NR_STATES; i++)
		if (i == UAIO_REQ_FREE || i == UAIO_REQ_PREPPED ||
		    i == UAIO_REQ_RUNNING)
			assert_null(uaio_waits[i]);
		else
			assert_non_null(uaio_waits[i]->cancel);
}

/*
 * A thread that tries a request reads the pipe. The hook stops one of these read calls
 * before the kernel executes it.
 */
static struct {
	/* what the delayed read returns; 0: the kernel's result */
	int64_t answer;
	uint32_t is_armed; /* atomic */
	uint32_t is_held;  /* atomic */
	uint32_t goes_on;  /* atomic */
} trial;

static bool hold_trial(long nr, const long args[6], long *ret_res)
{
	uint32_t armed = 1;

	if ((nr != SYS_preadv2 && nr != SYS_read) || !is_end(0, args[0]) ||
	    !cas_acquire(&trial.is_armed, &armed, 0))
		return false;
	store_release(&trial.is_held, 1);
	while (!load_acquire(&trial.goes_on))
		(void)uaio_sys_raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	*ret_res = trial.answer;
	return trial.answer;
}

static bool is_held(void *arg)
{
	(void)arg;
	return load_acquire(&trial.is_held);
}

struct reaping {
	uint64_t handle;
	long nr;
	struct io_event events[8];
};

static struct reaping reaping;
static struct unit_thread waiter;

static long reap(void *arg)
{
	struct reaping *all = arg;

	return unit_reap(all->handle, all->nr, all->events);
}

/* Let a thread try the oldest read of the pipe; return once the try has begun. */
static void begin_trial(long nr_awaited, int64_t answer)
{
	reaping = (struct reaping){ .handle = handle, .nr = nr_awaited };
	unit_thread_start(&waiter, reap, &reaping);
	unit_await_sleep(&waiter);
	trial.answer = answer;
	store_relaxed(&trial.is_held, 0);
	store_relaxed(&trial.goes_on, 0);
	store_release(&trial.is_armed, 1);
	unit_hook(hold_trial);
	put_text("x");
	unit_await(is_held, NULL);
}

static void let_trial(void)
{
	store_release(&trial.goes_on, 1);
}

static void end_trial(void)
{
	assert_int_equal(unit_thread_join(&waiter), reaping.nr);
	unit_hook(NULL);
}

static int cancel_one(uint64_t ctx, const struct iocb *iocb)
{
	return uaio_ctx_cancel_one(ctx, (uintptr_t)iocb);
}

static long cancel_it(void *arg)
{
	return cancel_one(handle, arg);
}

static long cancel_it_by_call(void *arg)
{
	return uaio_aio_cancel(handle, arg);
}

static long cancel_all(void *arg)
{
	(void)arg;
	return uaio_ctx_cancel_all(handle);
}

static void assert_unread(void)
{
	char byte;

	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_int_equal(byte, 'x');
}

/*
 * Cancel other requests by each of the cancelling calls, in this context and in
 * another, and by io_destroy.
 */
static void a_try_delays_no_cancelling_of_other_requests(void **state)
{
	char tried, bytes[8];
	struct iocb iocb = { 0 }, others[8];
	uint64_t other;
	int pipes[2];

	(void)state;
	open_pipe(16);
	other = unit_context(8);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	iocb = read_of_byte(&tried);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	begin_trial(6, 0);

	for (unsigned i = 0; i < 8; i++) {
		others[i] =
			unit_iocb(IOCB_CMD_PREAD, pipes[0], &bytes[i], 1, 0);
		assert_int_equal(
			unit_submit(i % 2 ? handle : other, &others[i]), 1);
	}
	assert_int_equal(uaio_aio_cancel(other, &others[0]), -EINPROGRESS);
	assert_int_equal(uaio_aio_cancel(handle, &others[1]), -EINPROGRESS);
	assert_int_equal(cancel_one(other, &others[2]), 0);
	assert_int_equal(cancel_one(handle, &others[3]), 0);
	assert_int_equal(uaio_ctx_cancel_fd(handle, pipes[0]), 2);
	assert_int_equal(uaio_ctx_cancel_fd(other, pipes[0]), 2);
	assert_int_equal(unit_submit(other, &others[0]), 1);
	assert_int_equal(uaio_ctx_cancel_all(other), 1);
	assert_int_equal(unit_submit(other, &others[0]), 1);
	unit_destroy(other);

	/* The thread that waits for events needs one more event to return. */
	assert_int_equal(unit_submit(handle, &others[1]), 1);
	assert_int_equal(cancel_one(handle, &others[1]), 0);
	let_trial();
	end_trial();
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal((int64_t)reaping.events[i].res, -ECANCELED);
	assert_int_equal(tried, 'x');
	unit_assert_no_more(handle);
	unit_close(pipes[0]);
	unit_close(pipes[1]);
	close_pipe();
}

/*
 * Start a thread that cancels iocb: by uaio_aio_cancel() if `by_engine` is set,
 * otherwise by io_cancel. Return once that thread sleeps.
 */
static void start_canceller(struct unit_thread *canceller, bool by_engine,
			    struct iocb *iocb)
{
	unit_thread_start(canceller, by_engine ? cancel_it : cancel_it_by_call,
			  iocb);
	unit_await_sleep(canceller);
}

static void await_canceller(struct unit_thread *canceller, bool by_engine)
{
	assert_int_equal(unit_thread_join(canceller),
			 by_engine ? 0 : -EINPROGRESS);
}

static void only_the_first_of_two_cancellers_is_notified(void **state)
{
	struct unit_thread canceller;
	struct iocb iocb;
	char byte;

	(void)state;
	open_pipe(4);
	iocb = read_of_byte(&byte);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(unit_submit(handle, &iocb), 1);
		begin_trial(1, -EAGAIN);
		start_canceller(&canceller, i % 2, &iocb);
		assert_int_equal(cancel_one(handle, &iocb), -EALREADY);
		assert_int_equal(uaio_aio_cancel(handle, &iocb), -EINVAL);
		assert_int_equal(uaio_ctx_cancel_all(handle), -EALREADY);
		let_trial();
		await_canceller(&canceller, i % 2);
		end_trial();
		assert_int_equal((int64_t)reaping.events[0].res, -ECANCELED);
		unit_assert_no_more(handle);
		assert_unread();
	}
	close_pipe();
}

/*
 * The same iocb is submitted twice. The try executes the first request, so the second
 * is cancelled.
 */
static void a_request_executed_leaves_the_next_to_be_cancelled(void **state)
{
	struct unit_thread canceller;
	struct iocb iocb;
	char byte;

	(void)state;
	open_pipe(4);
	iocb = read_of_byte(&byte);
	for (unsigned i = 0; i < 4; i++) {
		for (unsigned k = 0; k < 2; k++) {
			iocb.aio_data = k;
			assert_int_equal(unit_submit(handle, &iocb), 1);
		}
		begin_trial(2, 0);
		start_canceller(&canceller, i % 2, &iocb);
		let_trial();
		await_canceller(&canceller, i % 2);
		end_trial();
		for (unsigned k = 0; k < 2; k++) {
			assert_int_equal(reaping.events[k].data, k);
			assert_int_equal((int64_t)reaping.events[k].res,
					 k ? -ECANCELED : 1);
		}
		unit_assert_no_more(handle);
	}
	close_pipe();
}

static void requests_behind_one_being_tried_are_cancelled_too(void **state)
{
	enum { NR = 3 };
	struct unit_thread canceller;
	struct iocb iocbs[NR];
	char bytes[NR];

	(void)state;
	open_pipe(4);
	for (unsigned i = 0; i < NR; i++) {
		iocbs[i] = read_of_byte(&bytes[i]);
		iocbs[i].aio_data = i;
		assert_int_equal(unit_submit(handle, &iocbs[i]), 1);
	}
	begin_trial(NR, -EAGAIN);
	unit_thread_start(&canceller, cancel_all, NULL);
	unit_await_sleep(&canceller);
	let_trial();
	assert_int_equal(unit_thread_join(&canceller), NR);
	end_trial();
	/* Cancelled requests complete in the order of submission. */
	for (unsigned i = 0; i < NR; i++) {
		assert_int_equal(reaping.events[i].data, i);
		assert_int_equal((int64_t)reaping.events[i].res, -ECANCELED);
	}
	unit_assert_no_more(handle);
	assert_unread();
	close_pipe();
}

/*
 * The delayed read returns EOPNOTSUPP, which means that only a worker could execute the
 * request.
 */
static void a_request_for_a_worker_is_cancelled_instead(void **state)
{
	struct unit_thread canceller;
	struct iocb iocb;
	char byte;

	(void)state;
	open_pipe(4);
	iocb = read_of_byte(&byte);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	begin_trial(1, -EOPNOTSUPP);
	unit_thread_start(&canceller, cancel_it, &iocb);
	unit_await_sleep(&canceller);
	let_trial();
	assert_int_equal(unit_thread_join(&canceller), 0);
	end_trial();
	assert_int_equal((int64_t)reaping.events[0].res, -ECANCELED);
	unit_assert_no_more(handle);
	assert_unread();
	close_pipe();
}

static uint32_t is_destroyed; /* atomic */

static long destroy(void *arg)
{
	unit_destroy(*(uint64_t *)arg);
	store_release(&is_destroyed, 1);
	return 0;
}

static void destroying_a_context_waits_for_its_canceller(void **state)
{
	struct unit_thread canceller, destroyer;
	uint64_t ctx;
	struct iocb iocb;
	char byte;

	(void)state;
	open_pipe(4);
	ctx = handle;
	iocb = read_of_byte(&byte);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	/*
	 * No thread waits for events here, because such a thread would return when the
	 * context is destroyed. So the fallback thread tries the request.
	 */
	trial.answer = -EAGAIN;
	store_relaxed(&trial.is_held, 0);
	store_relaxed(&trial.goes_on, 0);
	store_relaxed(&is_destroyed, 0);
	store_release(&trial.is_armed, 1);
	unit_hook(hold_trial);
	put_text("x");
	unit_await(is_held, NULL);
	unit_thread_start(&canceller, cancel_it, &iocb);
	unit_await_sleep(&canceller);
	unit_thread_start(&destroyer, destroy, &ctx);
	unit_await_sleep(&destroyer);
	assert_false(load_acquire(&is_destroyed));
	let_trial();
	assert_int_equal(unit_thread_join(&canceller), 0);
	assert_int_equal(unit_thread_join(&destroyer), 0);
	unit_hook(NULL);
	assert_unread();
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/*
 * Cancel a read while a thread tries it. The read's page was not in the page cache. If
 * `has_come` is set, the page arrives before the try goes on, so the try must complete
 * the read.
 */
static void cancel_cold(bool has_come)
{
	static char pages[2][PAGE];
	struct unit_thread canceller;
	struct iocb iocbs[2];
	struct io_event event;

	handle = unit_context(4);
	cold_hold(cold_bits(2));
	for (unsigned i = 0; i < 2; i++) {
		iocbs[i] = unit_iocb(IOCB_CMD_PREAD, cold.fd, pages[i], PAGE,
				     (int64_t)i * PAGE);
		iocbs[i].aio_data = i;
		assert_int_equal(unit_submit(handle, &iocbs[i]), 1);
		/*
		 * A worker reads the first page. So the second read waits until the
		 * first is done.
		 */
		cold_await_blocked(1);
	}
	cold_hold_try(1);
	reaping = (struct reaping){ .handle = handle, .nr = 1 };
	unit_thread_start(&waiter, reap, &reaping);
	cold_await_try();
	unit_thread_start(&canceller, cancel_it_by_call, &iocbs[1]);
	unit_await_sleep(&canceller);
	if (has_come)
		cold_come(cold_bit(1));
	cold_hold_try(-1);
	assert_int_equal(unit_thread_join(&canceller),
			 has_come ? -EINVAL : -EINPROGRESS);
	assert_int_equal(unit_thread_join(&waiter), 1);
	assert_int_equal(reaping.events[0].data, 1);
	assert_int_equal((int64_t)reaping.events[0].res,
			 has_come ? PAGE : -ECANCELED);
	cold_let(cold_bits(2));
	assert_int_equal(unit_reap(handle, 1, &event), 1);
	assert_int_equal(event.data, 0);
	assert_int_equal(event.res, PAGE);
	unit_assert_no_more(handle);
	unit_destroy(handle);
}

static void a_cold_read_whose_try_would_block_is_cancelled(void **state)
{
	(void)state;
	cancel_cold(false);
}

static void a_cold_read_that_the_try_executes_is_not_cancelled(void **state)
{
	(void)state;
	cancel_cold(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(each_state_that_waits_has_a_row_and_no_other_has),
		UNIT_TEST(a_try_delays_no_cancelling_of_other_requests),
		UNIT_TEST(only_the_first_of_two_cancellers_is_notified),
		UNIT_TEST(a_request_executed_leaves_the_next_to_be_cancelled),
		UNIT_TEST(requests_behind_one_being_tried_are_cancelled_too),
		UNIT_TEST(a_request_for_a_worker_is_cancelled_instead),
		UNIT_TEST(destroying_a_context_waits_for_its_canceller),
		cmocka_unit_test_setup_teardown(
			a_cold_read_whose_try_would_block_is_cancelled,
			cold_start, cold_stop),
		cmocka_unit_test_setup_teardown(
			a_cold_read_that_the_try_executes_is_not_cancelled,
			cold_start, cold_stop),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
