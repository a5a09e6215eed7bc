/* SPDX-License-Identifier: MIT */
/*
 * Timers expire, whichever thread completes them. This thread may sleep in the queue's
 * epoll, may have slept before the first timer was set, or may be the fallback thread.
 * In tests of a sleeping thread the fallback thread is stopped.
 */
#undef NDEBUG
#include "ready/timer.h"
#include "base/newer.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "proc/entry.h"
#include "ready/attend.h"
#include "ready/ready.h"
#include "aio/ctx.h"
#include "aio/handle.h"
#include "ready/test-ready.h"

static const int64_t MS = 1000000, LONG_NS = 600000 * 1000000ll;

static struct uaio_sqe timer(int64_t time_ns, uint32_t flags)
{
	return (struct uaio_sqe){
		.op = UAIO_OP_TIMER,
		.timer_flags = flags,
		.time_ns = time_ns,
		.fd = -1,
	};
}

static void set(int64_t ns, uint64_t tag)
{
	struct uaio_sqe sqe = timer(ns, 0);

	sqe.data = sqe.key = tag;
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
}

static long cancel(uint64_t tag)
{
	long ret;

	assert_true(uaio_enter());
	ret = uaio_ctx_cancel(handle, tag);
	uaio_leave();
	return ret;
}

/* Wait for the next event, which must come from the timer with this user_data. */
static void reap(uint64_t tag)
{
	struct io_event event;

	assert_int_equal(unit_reap(handle, 1, &event), 1);
	assert_int_equal(event.data, tag);
	assert_int_equal((int64_t)event.res, -ETIME);
}

static struct uaio_ready *ready_of(uint64_t of)
{
	return &uaio_ctx_find(of)->queue.group.ready;
}

/* Close the queue, which must have no timers and no parked requests left. */
static void close_queue(void)
{
	assert_true(load_relaxed(&ready_of(handle)->next_ns) == UAIO_FOREVER);
	assert_int_equal(load_relaxed(&ready_of(handle)->nr_parked), 0);
	unit_destroy(handle);
}

/* tests */

static void what_can_never_be_is_refused(void **state)
{
	static const struct {
		int64_t time_ns;
		uint32_t flags;
	} rows[] = {
		{ -1, 0 },
		{ 1, UAIO_TIMER_REALTIME | UAIO_TIMER_BOOTTIME },
		{ 1, 16 },
	};

	(void)state;
	handle = unit_context(1);
	for (unsigned i = 0; i < NR_ELEMENTS(rows); i++) {
		struct uaio_sqe sqe = timer(rows[i].time_ns, rows[i].flags);

		assert_int_equal(unit_submit_sqe(handle, &sqe), -EINVAL);
	}
	close_queue();
}

static void what_is_due_completes_when_submitted(void **state)
{
	struct uaio_sqe sqe = timer(1, UAIO_TIMER_ABSOLUTE);
	uint64_t nr = unit_nr_inline();

	(void)state;
	handle = unit_context(2);
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	set(0, 1);
	assert_int_equal(unit_nr_inline() - nr, 2);
	reap(0);
	reap(1);
	close_queue();
}

static void each_clock_is_gone_by(void **state)
{
	static const struct {
		int clock;
		uint32_t flags;
	} rows[] = {
		{ CLOCK_MONOTONIC, 0 },
		{ CLOCK_REALTIME, UAIO_TIMER_REALTIME },
		{ CLOCK_BOOTTIME, UAIO_TIMER_BOOTTIME },
	};

	(void)state;
	handle = unit_context(1);
	for (unsigned i = 0; i < 2 * NR_ELEMENTS(rows); i++) {
		bool is_absolute = i % 2;
		int64_t since = uaio_now_ns();
		struct uaio_sqe sqe =
			timer(10 * MS,
			      rows[i / 2].flags |
				      (is_absolute ? UAIO_TIMER_ABSOLUTE : 0));

		if (is_absolute)
			sqe.time_ns += uaio_now_of(rows[i / 2].clock);
		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
		reap(0);
		/*
		 * The test and the timer read two different clocks at different times,
		 * so allow an error.
		 */
		assert_true(uaio_now_ns() - since >= 10 * MS - MS / 10);
	}
	close_queue();
}

static void a_time_that_never_comes_is_waited_for(void **state)
{
	(void)state;
	handle = unit_context(1);
	set(INT64_MAX, 1);
	assert_int_equal(cancel(1), -EINPROGRESS);
	assert_int_equal(unit_reap_one(handle), -ECANCELED);
	close_queue();
}

static void a_thread_that_waits_needs_no_other(void **state)
{
	(void)state;
	handle = unit_context(4);
	hold_fallback_thread(handle);
	for (unsigned i = 0; i < 10; i++) {
		int64_t since = uaio_now_ns();

		set(LONG_NS, 3);
		set(2 * MS, 1);
		set(3 * MS, 2);
		reap(1);
		reap(2);
		assert_true(uaio_now_ns() - since >= 3 * MS);
		assert_int_equal(cancel(3), -EINPROGRESS);
		assert_int_equal(unit_reap_one(handle), -ECANCELED);
	}
	let_fallback_thread_go();
	close_queue();
}

static void timers_end_though_nobody_waits(void **state)
{
	struct times late = { 0 };

	(void)state;
	handle = unit_context(4);
	for (unsigned i = 0; i < 20; i++) {
		int64_t since;

		set(LONG_NS, 2);
		since = uaio_now_ns() + 5 * MS;
		set(5 * MS, 1);
		assert_int_equal(take_from_ring(handle), -ETIME);
		assert_true(uaio_now_ns() >= since);
		add_time(&late, since);
		assert_int_equal(cancel(2), -EINPROGRESS);
		assert_int_equal(unit_reap_one(handle), -ECANCELED);
		/* In most rounds, give the fallback thread time to become idle. */
		stay_away_us(i % 4 * 1000);
	}
	assert_median_below_ms(&late, 200);
	close_queue();
}

enum { NR_ORDERED = 200 };

/*
 * Set timers in random order of their times, and cancel some.
 * Return: whether all of this was done before the first timer was due.
 */
static bool set_unordered(int64_t after_ns, unsigned *ret_nr_cancelled)
{
	int64_t base = uaio_now_ns() + after_ns;

	*ret_nr_cancelled = 0;
	for (unsigned i = 0; i < NR_ORDERED; i++) {
		unsigned place = i * 77 % NR_ORDERED;
		struct uaio_sqe sqe =
			timer(base + place * 1000, UAIO_TIMER_ABSOLUTE);

		sqe.data = sqe.key = place;
		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	}
	for (unsigned i = 0; i < NR_ORDERED; i += 3)
		if (cancel(i) == -EINPROGRESS)
			++*ret_nr_cancelled;
	return uaio_now_ns() < base;
}

static void timers_end_in_the_order_of_their_times(void **state)
{
	struct io_event events[NR_ORDERED];
	int64_t after_ns = 100 * MS;
	unsigned nr, next = 0;

	(void)state;
	handle = unit_context(NR_ORDERED);
	/*
	 * If the thread was preempted until the first timer was due, repeat with longer
	 * times.
	 */
	for (; !set_unordered(after_ns, &nr); after_ns *= 2)
		assert_int_equal(unit_reap(handle, NR_ORDERED, events),
				 NR_ORDERED);
	assert_int_equal(unit_reap(handle, NR_ORDERED, events), NR_ORDERED);
	for (unsigned i = 0; i < NR_ORDERED; i++) {
		if ((int64_t)events[i].res == -ECANCELED) {
			nr--;
			continue;
		}
		assert_int_equal((int64_t)events[i].res, -ETIME);
		if (events[i].data < next)
			fail_msg("%u: %u after %u", i, (unsigned)events[i].data,
				 next);
		next = (unsigned)events[i].data;
	}
	assert_int_equal(nr, 0);
	close_queue();
}

static long reap_timer(void *arg)
{
	struct io_event event;

	(void)arg;
	store_relaxed(&others_tids[1], (uint32_t)syscall(SYS_gettid));
	assert_int_equal(unit_reap(handle, 1, &event), 1);
	assert_int_equal((int64_t)event.res, -ETIME);
	return (long)event.data;
}

/*
 * A thread sleeps, and then a timer is set that expires in 1 ms. `first`: user_data of
 * a timer that was set before the sleep and expires much later. If `first` is 0, there
 * is no such timer, so the thread does not sleep as the leader.
 */
static void end_while_asleep(uint64_t first)
{
	struct unit_thread thread;

	handle = unit_context(4);
	hold_fallback_thread(handle);
	for (unsigned i = 0; i < 5; i++) {
		if (first)
			set(LONG_NS, first);
		unit_thread_start(&thread, reap_timer, NULL);
		unit_await_sleep(&thread);
		set(MS, 1);
		assert_int_equal(unit_thread_join(&thread), 1);
		if (first) {
			assert_int_equal(cancel(first), -EINPROGRESS);
			assert_int_equal(unit_reap_one(handle), -ECANCELED);
		}
	}
	let_fallback_thread_go();
	close_queue();
}

static void a_sleeping_leader_takes_note_of_an_earlier_one(void **state)
{
	(void)state;
	end_while_asleep(2);
}

static void a_sleeping_waiter_takes_note_of_the_first(void **state)
{
	(void)state;
	end_while_asleep(0);
}

static void what_a_leader_leaves_ends_at_its_time(void **state)
{
	struct io_event event;
	struct timespec soon = { 0, 1000000 };
	struct times late = { 0 };

	(void)state;
	handle = unit_context(4);
	for (unsigned i = 0; i < 20; i++) {
		int64_t since = uaio_now_ns() + 40 * MS;

		set(40 * MS, 1);
		/*
		 * The thread is the leader for a moment, and stops waiting before the
		 * timer expires.
		 */
		if (uaio_aio_getevents(handle, 1, 1, (void *)&event, &soon))
			continue;
		assert_int_equal(take_from_ring(handle), -ETIME);
		assert_true(uaio_now_ns() >= since);
		add_time(&late, since);
	}
	if (late.nr)
		assert_median_below_ms(&late, 200);
	close_queue();
}

static void a_queue_that_goes_takes_its_timers_along(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		handle = unit_context(8);
		set(LONG_NS, 1);
		set(i % 5 * MS / 4, 2);
		set(MS, 3);
		unit_destroy(handle);
	}
}

/*
 * Several threads set, cancel and reap timers at the same time. Each timer must have
 * exactly one event, whichever thread ends it.
 */
static long set_and_cancel(void *arg)
{
	unsigned nr = unit_rounds(2000);

	for (unsigned i = 0; i < nr; i++) {
		set(i % 7 * 20000, (uintptr_t)arg * nr + i);
		if (i % 3 == 0)
			(void)cancel((uintptr_t)arg * nr + i);
	}
	return 0;
}

static void each_timer_ends_once_whichever_threads_meet(void **state)
{
	enum { NR = 64 };
	unsigned nr = 2 * unit_rounds(2000), nr_reaped = 0;
	struct unit_thread threads[2];
	static bool seen[2 * 2000];
	struct io_event events[NR];

	(void)state;
	memset(seen, 0, sizeof(seen));
	handle = unit_context(nr);
	for (unsigned i = 0; i < 2; i++)
		unit_thread_start(&threads[i], set_and_cancel,
				  (void *)(uintptr_t)i);
	while (nr_reaped < nr) {
		struct timespec none = { 0 };
		long got = uaio_aio_getevents(handle, nr_reaped % 2, NR,
					      (void *)events,
					      nr_reaped % 3 ? NULL : &none);

		assert_true(got >= 0);
		for (long i = 0; i < got; i++) {
			assert_true((int64_t)events[i].res == -ETIME ||
				    (int64_t)events[i].res == -ECANCELED);
			assert_false(seen[events[i].data]);
			seen[events[i].data] = true;
		}
		nr_reaped += (unsigned)got;
	}
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(unit_thread_join(&threads[i]), 0);
	close_queue();
}

static void a_limit_and_a_timer_are_of_one_time(void **state)
{
	const struct timeval limit = { 0, 10000 };
	struct io_event events[2];
	struct iocb iocb;
	int pair[2];
	char byte;

	(void)state;
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit,
				    sizeof(limit)),
			 0);
	handle = unit_context(4);
	hold_fallback_thread(handle);
	set(2 * MS, 1);
	iocb = unit_iocb(IOCB_CMD_PREAD, pair[0], &byte, 1, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	set(LONG_NS, 2);
	assert_int_equal(unit_reap(handle, 2, events), 2);
	assert_int_equal((int64_t)events[0].res, -ETIME);
	assert_int_equal((int64_t)events[1].res, -EAGAIN);
	assert_int_equal(cancel(2), -EINPROGRESS);
	assert_int_equal(unit_reap_one(handle), -ECANCELED);
	let_fallback_thread_go();
	close_queue();
	unit_close(pair[0]);
	unit_close(pair[1]);
}

static void
who_sleeps_in_a_call_of_its_own_leaves_timers_to_others(void **state)
{
	struct uaio_attend attend;
	struct pollfd pfd = { .events = POLLIN };

	(void)state;
	open_pipe(4);
	uaio_attend_note(&uaio_ctx_find(handle)->queue);
	set(LONG_NS, 1);
	assert_false(uaio_attend_begin(&attend));
	assert_int_equal(cancel(1), -EINPROGRESS);
	assert_int_equal(unit_reap_one(handle), -ECANCELED);
	/*
	 * A thread that sleeps in its own poll() leads the queue, but serves no timers
	 * (attend.h). So setting a timer must end its poll(). Then the fallback thread
	 * serves the queue.
	 */
	submit_read_of_byte((char[1]){ 0 });
	assert_true(uaio_attend_begin(&attend));
	set(LONG_NS, 2);
	pfd.fd = attend.fds[0];
	assert_int_equal(poll(&pfd, 1, -1), 1);
	uaio_attend_end(&attend, 1);
	assert_false(uaio_attend_begin(&attend));
	set(MS, 3);
	assert_int_equal(take_from_ring(handle), -ETIME);
	assert_int_equal(cancel(2), -EINPROGRESS);
	assert_int_equal(unit_reap_one(handle), -ECANCELED);
	close_pipe();
}

/* Timers of queues without an epoll of their own */
static int wait_in_the_commons(void)
{
	enum { NR = 40 };
	struct rlimit limit = { 64, 64 };
	uint64_t handles[NR];
	struct io_event event;

	if (setrlimit(RLIMIT_NOFILE, &limit) < 0 || unit_engine(NULL) < 0)
		return 1;
	for (unsigned i = 0; i < NR; i++) {
		handle = handles[i] = unit_context(4);
		set(LONG_NS, 1);
		set((NR - i) * MS / 4, 2);
	}
	if (uaio_ready_home(ready_of(handle)) ==
	    &uaio_ctx_find(handle)->queue.group)
		return 2;
	for (unsigned i = 0; i < NR; i++) {
		if (unit_reap(handles[i], 1, &event) != 1 || event.data != 2)
			return 3;
		unit_destroy(handles[i]);
	}
	return 0;
}

static void queues_without_an_epoll_have_timers_too(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(wait_in_the_commons), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(what_can_never_be_is_refused),
		UNIT_TEST(what_is_due_completes_when_submitted),
		UNIT_TEST(each_clock_is_gone_by),
		UNIT_TEST(a_time_that_never_comes_is_waited_for),
		UNIT_TEST(a_thread_that_waits_needs_no_other),
		UNIT_TEST(timers_end_though_nobody_waits),
		UNIT_TEST(timers_end_in_the_order_of_their_times),
		UNIT_TEST(a_sleeping_leader_takes_note_of_an_earlier_one),
		UNIT_TEST(a_sleeping_waiter_takes_note_of_the_first),
		UNIT_TEST(what_a_leader_leaves_ends_at_its_time),
		UNIT_TEST(a_queue_that_goes_takes_its_timers_along),
		UNIT_TEST(each_timer_ends_once_whichever_threads_meet),
		UNIT_TEST(a_limit_and_a_timer_are_of_one_time),
		UNIT_TEST(
			who_sleeps_in_a_call_of_its_own_leaves_timers_to_others),
		UNIT_TEST(queues_without_an_epoll_have_timers_too),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
