/* SPDX-License-Identifier: MIT */
/*
 * Tests a pipe that becomes ready again and again: while a read of it is being tried,
 * or all the time, or without ever having data. A hook sees all read calls, whichever
 * thread makes them.
 */
#undef NDEBUG
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "ready/ready.h"
#include "aio/ctx.h"
#include "ready/test-ready.h"

/* Return: whether the call reads from the pipe. */
static bool is_read(long nr, const long args[6])
{
	return (nr == SYS_preadv2 || nr == SYS_read || nr == SYS_readv ||
		nr == SYS_recvfrom || nr == SYS_recvmsg) &&
	       is_end(0, args[0]);
}

/*
 * The hook consumes the pipe's byte just before the library's first read that could
 * succeed. When that read has failed, the hook stops the reading thread until the pipe
 * is ready again.
 */
static struct {
	uint32_t is_armed; /* atomic */
	uint32_t is_held;  /* atomic */
	uint32_t goes_on;  /* atomic */
	/* atomic: how many reads have begun after the stopped read */
	uint32_t nr_after;
} loser;

static bool lose_and_hold(long nr, const long args[6], long *ret_res)
{
	uint32_t armed = 1;
	char byte;

	if (!is_read(nr, args))
		return false;
	if (load_acquire(&loser.is_held)) {
		add_relaxed(&loser.nr_after, 1);
		return false;
	}
	if (!cas_acquire(&loser.is_armed, &armed, 0))
		return false;
	(void)uaio_sys_raw(SYS_read, args[0], (long)&byte, 1, 0, 0, 0);
	*ret_res = unit_make_call(nr, args);
	store_release(&loser.is_held, 1);
	while (!load_acquire(&loser.goes_on))
		(void)uaio_sys_raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	return true;
}

static void arm_loser(void)
{
	store_relaxed(&loser.is_held, 0);
	store_relaxed(&loser.goes_on, 0);
	store_relaxed(&loser.nr_after, 0);
	store_release(&loser.is_armed, 1);
	unit_hook(lose_and_hold);
}

/*
 * How the client gets the event: it looks at its ring in memory; or a thread sleeps in
 * io_getevents meanwhile; or the client calls io_getevents only at the end.
 */
enum { LOOKS, SLEEPS, COMES, NR_WAYS };

static void
what_is_ready_again_while_it_is_tried_is_tried_once_more(void **state)
{
	(void)state;
	open_pipe(4);
	for (unsigned i = 0; i < 2 * NR_WAYS; i++) {
		unsigned way = i % NR_WAYS;
		struct unit_thread waiter;
		char byte = 0;

		submit_read_of_byte(&byte);
		if (way == SLEEPS) {
			unit_thread_start(&waiter, reap_one, NULL);
			unit_await_sleep(&waiter);
		}
		arm_loser();
		put_text("a");
		unit_await(unit_is_set, &loser.is_held);
		put_text("b");
		store_release(&loser.goes_on, 1);
		if (way == SLEEPS)
			assert_int_equal(unit_thread_join(&waiter), 1);
		else if (way == LOOKS)
			assert_int_equal(take_from_ring(handle), 1);
		else
			assert_int_equal(unit_reap_one(handle), 1);
		assert_int_equal(byte, 'b');
		assert_int_equal(load_relaxed(&loser.nr_after), 1);
		unit_hook(NULL);
	}
	close_pipe();
}

/* Each request reads into its own byte, so the buffer tells which request is tried. */
enum { NR_SLOTS = 64, NR_CALLERS = 4 };

static struct {
	char bytes[NR_SLOTS];
	struct iocb iocbs[NR_SLOTS];
	uint32_t is_tried[NR_SLOTS];  /* atomic */
	uint32_t nr_events[NR_SLOTS]; /* atomic: completions in this round */
	/* atomic: how often two threads tried one request at the same time */
	uint32_t nr_together;
	uint32_t nr_tried; /* atomic: requests being tried just now */
	/* atomic: how often two of the requests were tried at the same time */
	uint32_t nr_beside;
	uint32_t nr_done; /* atomic: events in this round */
} crowd;

static void *buffer_of(long nr, const long args[6])
{
	const struct iovec *iov = (const struct iovec *)args[1];
	const struct msghdr *message = (const struct msghdr *)args[1];

	switch (nr) {
	case SYS_recvmsg: return message->msg_iov->iov_base;
	case SYS_read:
	case SYS_recvfrom: return (void *)args[1];
	default: return iov->iov_base;
	}
}

static bool watch_tries(long nr, const long args[6], long *ret_res)
{
	size_t slot;

	if (!is_read(nr, args))
		return false;
	slot = (size_t)((char *)buffer_of(nr, args) - crowd.bytes);
	if (slot >= NR_SLOTS)
		return false;
	if (add_relaxed(&crowd.is_tried[slot], 1))
		add_relaxed(&crowd.nr_together, 1);
	if (add_relaxed(&crowd.nr_tried, 1))
		add_relaxed(&crowd.nr_beside, 1);
	/* Give another thread that is about to try a request the time to do so. */
	for (int64_t end = uaio_now_ns() + 20000; uaio_now_ns() < end;)
		(void)uaio_sys_raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	*ret_res = unit_make_call(nr, args);
	sub_relaxed(&crowd.nr_tried, 1);
	sub_relaxed(&crowd.is_tried[slot], 1);
	return true;
}

static long reap_crowd(void *arg)
{
	struct timespec moment = { 0, 1000000 };

	while (load_acquire(&crowd.nr_done) < NR_SLOTS) {
		struct uaio_event events[8];
		long ret = uaio_aio_getevents(*(uint64_t *)arg, 1, 8, events,
					      &moment);

		if (ret < 0)
			return ret;
		for (long i = 0; i < ret; i++)
			add_relaxed(&crowd.nr_events[events[i].data],
				    events[i].res == 1 ? 1 : 1000);
		add_acquire(&crowd.nr_done, (uint32_t)ret);
	}
	return 0;
}

/* Submit one thread's share of the requests, then wait like the other threads. */
static long submit_and_reap(void *arg)
{
	struct iocb *first = arg;

	for (unsigned i = 0; i < NR_SLOTS / NR_CALLERS; i++) {
		struct iocb *iocb = first + i;
		long ret = uaio_aio_submit(handle, 1, &iocb);

		if (ret != 1)
			return ret;
	}
	return reap_crowd(&handle);
}

static void start_crowd(void)
{
	store_relaxed(&crowd.nr_done, 0);
	for (unsigned i = 0; i < NR_SLOTS; i++) {
		store_relaxed(&crowd.nr_events[i], 0);
		crowd.iocbs[i] = read_of_byte(&crowd.bytes[i]);
		crowd.iocbs[i].aio_data = i;
	}
}

static void no_request_is_tried_twice_at_a_time(void **state)
{
	(void)state;
	open_pipe(NR_SLOTS);
	unit_hook(watch_tries);
	for (unsigned round = 0; round < unit_rounds(100); round++) {
		struct unit_thread threads[NR_CALLERS];

		start_crowd();
		for (unsigned i = 0; i < NR_CALLERS; i++)
			unit_thread_start(
				&threads[i], submit_and_reap,
				&crowd.iocbs[i * NR_SLOTS / NR_CALLERS]);
		for (unsigned i = 0; i < NR_SLOTS; i += 2)
			put_text("xx");
		for (unsigned i = 0; i < NR_CALLERS; i++)
			assert_int_equal(unit_thread_join(&threads[i]), 0);
		for (unsigned i = 0; i < NR_SLOTS; i++)
			assert_int_equal(crowd.nr_events[i], 1);
	}
	assert_int_equal(load_relaxed(&crowd.nr_together), 0);
	close_pipe();
}

/*
 * All requests are parked, half of them in each of two contexts. Threads wait for both
 * contexts, and any of them may execute any request.
 */
static void requests_on_one_stream_are_tried_one_by_one(void **state)
{
	uint64_t handles[2];

	(void)state;
	open_pipe(NR_SLOTS);
	handles[0] = handle;
	handles[1] = unit_context(NR_SLOTS);
	unit_hook(watch_tries);
	for (unsigned round = 0; round < unit_rounds(100); round++) {
		struct unit_thread threads[NR_CALLERS];

		start_crowd();
		for (unsigned i = 0; i < NR_SLOTS; i++)
			assert_int_equal(
				unit_submit(handles[i % 2], &crowd.iocbs[i]),
				1);
		store_relaxed(&crowd.nr_beside, 0);
		for (unsigned i = 0; i < NR_CALLERS; i++)
			unit_thread_start(&threads[i], reap_crowd,
					  &handles[i % 2]);
		for (char byte = 0; byte < NR_SLOTS; byte++)
			assert_int_equal(write(ends[1], &byte, 1), 1);
		for (unsigned i = 0; i < NR_CALLERS; i++)
			assert_int_equal(unit_thread_join(&threads[i]), 0);
		assert_int_equal(load_relaxed(&crowd.nr_beside), 0);
		for (unsigned i = 0; i < NR_SLOTS; i++) {
			assert_int_equal(crowd.nr_events[i], 1);
			assert_int_equal(crowd.bytes[i], i);
		}
	}
	unit_destroy(handles[1]);
	close_pipe();
}

/* However many requests are ready, one call executes only a limited number. */
static struct {
	/* atomic: the thread that makes the measured call */
	uint32_t tid;
	/* atomic: reads that this thread has tried */
	uint32_t nr_tries;
} caller;

static bool count_own_tries(long nr, const long args[6], long *ret_res)
{
	(void)ret_res;
	if (is_read(nr, args) &&
	    load_relaxed(&caller.tid) == (uint32_t)gettid())
		add_relaxed(&caller.nr_tries, 1);
	return false;
}

static void one_call_executes_no_more_than_a_share(void **state)
{
	enum { NR = 4000, SHARE = NR / 4 };
	static char bytes[NR];
	struct uaio_event event;
	struct timespec zero = { 0, 0 };
	static struct io_event events[NR];

	(void)state;
	store_relaxed(&caller.tid, (uint32_t)gettid());
	for (unsigned round = 0; round < 2 * unit_rounds(10); round++) {
		struct iocb iocb;
		long got = 0;

		open_pipe(NR + 1);
		for (unsigned i = 0; i < NR; i++) {
			iocb = read_of_byte(&bytes[i]);
			assert_int_equal(unit_submit(handle, &iocb), 1);
		}
		assert_int_equal(write(ends[1], bytes, NR), NR);
		store_relaxed(&caller.nr_tries, 0);
		unit_hook(count_own_tries);
		/*
		 * In odd rounds the measured call is io_submit, which submits one more
		 * request to the pipe. In even rounds it is io_getevents.
		 */
		if (round % 2)
			assert_int_equal(unit_submit(handle, &iocb), 1);
		else
			got = uaio_aio_getevents(handle, 0, 1, &event, &zero);
		assert_in_range(load_relaxed(&caller.nr_tries), 0, SHARE);
		unit_hook(NULL);
		assert_in_range(got, 0, 1);
		assert_int_equal(unit_reap(handle, NR - got, events), NR - got);
		close_pipe();
	}
}

/*
 * One thread keeps the pipe full. A second thread takes events, and submits each
 * request again at once. So a third thread that calls the library always finds
 * something to execute.
 */
static struct {
	uint32_t ends; /* atomic */
	/* atomic: a request that is not one of `iocbs` has completed */
	uint32_t has_other;
	struct iocb iocbs[NR_SLOTS];
	char bytes[NR_SLOTS];
} mill;

static long feed(void *arg)
{
	static const char plenty[512];
	ssize_t ret = 0;

	(void)arg;
	while (!load_acquire(&mill.ends) && (ret >= 0 || errno == EAGAIN)) {
		struct pollfd slot = { .fd = ends[1], .events = POLLOUT };

		(void)poll(&slot, 1, 10);
		ret = write(ends[1], plenty, sizeof(plenty));
	}
	return ret >= 0 || errno == EAGAIN ? 0 : -errno;
}

static long grind(void *arg)
{
	(void)arg;
	while (!load_acquire(&mill.ends)) {
		struct timespec moment = { 0, 10000000 };
		struct uaio_event event;
		long ret = uaio_aio_getevents(handle, 1, 1, &event, &moment);

		if (ret < 0)
			return ret;
		if (ret && event.data == NR_SLOTS)
			store_release(&mill.has_other, 1);
		else if (ret &&
			 unit_submit(handle, &mill.iocbs[event.data]) != 1)
			return -EIO;
	}
	return 0;
}

static void start_mill(struct unit_thread threads[2])
{
	open_pipe(NR_SLOTS + 1);
	/* The thread that fills the pipe must not block when no thread reads. */
	assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
	store_relaxed(&mill.ends, 0);
	for (unsigned i = 0; i < NR_SLOTS; i++) {
		mill.iocbs[i] = read_of_byte(&mill.bytes[i]);
		mill.iocbs[i].aio_data = i;
		assert_int_equal(unit_submit(handle, &mill.iocbs[i]), 1);
	}
	unit_thread_start(&threads[0], feed, NULL);
	unit_thread_start(&threads[1], grind, NULL);
}

static void stop_mill(struct unit_thread threads[2])
{
	store_release(&mill.ends, 1);
	assert_int_equal(unit_thread_join(&threads[0]), 0);
	assert_int_equal(unit_thread_join(&threads[1]), 0);
	close_pipe();
}

static void a_stream_that_is_always_ready_captures_no_caller(void **state)
{
	enum { ROUNDS = 20, SOON_MS = 2000 };
	struct times submits = { 0 }, looks = { 0 }, waits = { 0 };
	struct timespec zero = { 0, 0 }, five = { 0, 5000000 };
	struct unit_thread threads[2];

	(void)state;
	start_mill(threads);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct uaio_event events[NR_SLOTS];
		struct iocb *again[NR_SLOTS];
		int64_t since = uaio_now_ns();
		long ret;

		ret = uaio_aio_getevents(handle, 0, NR_SLOTS, events, &zero);
		add_time(&looks, since);
		assert_in_range(ret, 0, NR_SLOTS);
		for (long k = 0; k < ret; k++)
			again[k] = &mill.iocbs[events[k].data];
		since = uaio_now_ns();
		assert_int_equal(uaio_aio_submit(handle, ret, again), ret);
		add_time(&submits, since);
		since = uaio_now_ns();
		ret = uaio_aio_getevents(handle, NR_SLOTS, NR_SLOTS, events,
					 &five);
		add_time(&waits, since);
		assert_in_range(ret, 0, NR_SLOTS);
		for (long k = 0; k < ret; k++)
			again[k] = &mill.iocbs[events[k].data];
		assert_int_equal(uaio_aio_submit(handle, ret, again), ret);
	}
	assert_median_below_ms(&looks, SOON_MS);
	assert_median_below_ms(&submits, SOON_MS);
	assert_median_below_ms(&waits, SOON_MS);
	stop_mill(threads);
}

/*
 * While one pipe is always ready, requests on another pipe of the same context, and in
 * another context, must complete.
 */
static void a_stream_that_is_always_ready_holds_up_no_other(void **state)
{
	enum { ROUNDS = 15, SOON_MS = 2000 };
	struct times same = { 0 }, apart = { 0 };
	uint64_t context = unit_context(4);
	struct unit_thread threads[2];
	int others[2];

	(void)state;
	assert_int_equal(pipe2(others, O_CLOEXEC), 0);
	start_mill(threads);
	for (unsigned i = 0; i < ROUNDS; i++) {
		char byte = 0;
		struct iocb iocb =
			unit_iocb(IOCB_CMD_PREAD, others[0], &byte, 1, 0);
		int64_t since;

		assert_int_equal(unit_submit(context, &iocb), 1);
		since = uaio_now_ns();
		assert_int_equal(write(others[1], "x", 1), 1);
		assert_int_equal(unit_reap_one(context), 1);
		add_time(&apart, since);

		iocb.aio_data = NR_SLOTS;
		store_relaxed(&mill.has_other, 0);
		assert_int_equal(unit_submit(handle, &iocb), 1);
		since = uaio_now_ns();
		assert_int_equal(write(others[1], "x", 1), 1);
		unit_await(unit_is_set, &mill.has_other);
		add_time(&same, since);
	}
	assert_median_below_ms(&apart, SOON_MS);
	assert_median_below_ms(&same, SOON_MS);
	stop_mill(threads);
	unit_destroy(context);
	unit_close(others[0]);
	unit_close(others[1]);
}

/*
 * The pipe polls ready for each thread. But the hook empties the pipe before each read
 * of the library, and fills it again afterwards, like another reader.
 */
static bool take_away(long nr, const long args[6], long *ret_res)
{
	char bytes[4];

	if (!is_read(nr, args))
		return false;
	(void)uaio_sys_raw(SYS_read, args[0], (long)bytes, sizeof(bytes), 0, 0,
			   0);
	*ret_res = unit_make_call(nr, args);
	(void)uaio_sys_raw(SYS_write, load_relaxed(&ends[1]), (long)"abcd", 4,
			   0, 0, 0);
	return true;
}

static void a_stream_that_never_gives_captures_no_caller(void **state)
{
	enum { ROUNDS = 15, SOON_MS = 2000, NR = 32 };
	struct times looks = { 0 }, waits = { 0 }, others_times = { 0 };
	struct timespec zero = { 0, 0 }, five = { 0, 5000000 };
	struct io_event events[NR + 1];
	char bytes[NR], byte;
	struct iocb iocb;
	int others[2];

	(void)state;
	open_pipe(NR + 1);
	assert_int_equal(pipe2(others, O_CLOEXEC), 0);
	for (unsigned i = 0; i < NR; i++) {
		iocb = read_of_byte(&bytes[i]);
		assert_int_equal(unit_submit(handle, &iocb), 1);
	}
	unit_hook(take_away);
	put_text("abcd");
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct uaio_event event;
		int64_t since = uaio_now_ns();

		assert_int_equal(
			uaio_aio_getevents(handle, 0, 1, &event, &zero), 0);
		add_time(&looks, since);
		since = uaio_now_ns();
		assert_int_equal(
			uaio_aio_getevents(handle, 1, 1, &event, &five), 0);
		assert_true(uaio_now_ns() - since >= 5000000);
		add_time(&waits, since);
		iocb = unit_iocb(IOCB_CMD_PREAD, others[0], &byte, 1, 0);
		assert_int_equal(unit_submit(handle, &iocb), 1);
		since = uaio_now_ns();
		assert_int_equal(write(others[1], "x", 1), 1);
		assert_int_equal(unit_reap_one(handle), 1);
		add_time(&others_times, since);
	}
	assert_median_below_ms(&looks, SOON_MS);
	assert_median_below_ms(&waits, SOON_MS);
	assert_median_below_ms(&others_times, SOON_MS);
	/* Without the hook the reads succeed, and must get all data. */
	unit_hook(NULL);
	assert_int_equal(write(ends[1], bytes, NR), NR);
	assert_int_equal(unit_reap(handle, NR, events), NR);
	unit_close(others[0]);
	unit_close(others[1]);
	close_pipe();
}

/*
 * While the first of two reads is executed, another thread adds the pipe to the epoll,
 * and takes the event that the epoll reports. The second read then gets EAGAIN,
 * although the pipe is ready: some files return EAGAIN while another thread uses them.
 * No further event will come, so the library must try the second read again.
 */
static uint32_t nr_reads; /* atomic */

static bool arm_and_find_nothing(long nr, const long args[6], long *ret_res)
{
	struct uaio_group *group;

	if (!is_read(nr, args))
		return false;
	group = &uaio_ctx_find(handle)->queue.group;
	switch (add_relaxed(&nr_reads, 1)) {
	case 0:
		*ret_res = unit_make_call(nr, args);
		(void)uaio_ready_arm(group);
		(void)uaio_ready_look(group, UAIO_RUN_BY_FALLBACK);
		return true;
	case 1: *ret_res = -EAGAIN; return true;
	default: return false;
	}
}

static void a_request_in_vain_after_its_edge_is_tried_again(void **state)
{
	struct io_event events[2];
	char bytes[2];

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		open_pipe(4);
		submit_read_of_byte(&bytes[0]);
		submit_read_of_byte(&bytes[1]);
		store_relaxed(&nr_reads, 0);
		unit_hook(arm_and_find_nothing);
		put_text("ab");
		assert_int_equal(unit_reap(handle, 2, events), 2);
		unit_hook(NULL);
		assert_int_equal(bytes[1], 'b');
		close_pipe();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(
			what_is_ready_again_while_it_is_tried_is_tried_once_more),
		UNIT_TEST(a_request_in_vain_after_its_edge_is_tried_again),
		UNIT_TEST(no_request_is_tried_twice_at_a_time),
		UNIT_TEST(requests_on_one_stream_are_tried_one_by_one),
		UNIT_TEST(one_call_executes_no_more_than_a_share),
		UNIT_TEST(a_stream_that_is_always_ready_captures_no_caller),
		UNIT_TEST(a_stream_that_is_always_ready_holds_up_no_other),
		UNIT_TEST(a_stream_that_never_gives_captures_no_caller),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
