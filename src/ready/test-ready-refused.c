/* SPDX-License-Identifier: MIT */
/*
 * Tests failures of the system calls by which the library waits until a stream is
 * ready. Each request must either be refused when it is submitted, or complete.
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/atomic.h"
#include "aio/aio.h"
#include "ready/test-ready.h"

/*
 * The library waits by several system calls. The hook makes one of them fail, always or
 * a few times. If the library accepts a request all the same, the request must
 * complete, however the client waits for it.
 */
static struct {
	/* let calls fail only after a request has been parked and completed */
	bool is_late;
	long call;
	int error;
	/* atomic: how many more calls must fail */
	uint32_t nr_left;
} refusal;

static bool refuse(long nr, const long args[6], long *ret_res)
{
	uint32_t left = load_relaxed(&refusal.nr_left);

	/*
	 * Removing a file from an epoll cannot fail in reality, so let it succeed.
	 */
	if (nr != refusal.call ||
	    (nr == SYS_epoll_ctl && args[1] == EPOLL_CTL_DEL))
		return false;
	do
		if (!left)
			return false;
	while (!cas_relaxed(&refusal.nr_left, &left, left - 1));
	*ret_res = refusal.error;
	return true;
}

enum { BY_SLEEP, BY_RING, BY_EVENTFD, NR_WAYS };

static uint32_t is_reaped; /* atomic */

static long reap_and_tell(void *arg)
{
	int64_t res = unit_reap_one(handle);

	(void)arg;
	store_release(&is_reaped, 1);
	return res;
}

/*
 * Read from the pipe until the client's write is complete.
 * Return: how many bytes were read.
 */
static int64_t drain(unsigned way)
{
	struct pollfd slot = { .fd = ends[0], .events = POLLIN };
	static char bytes[1 << 16];
	int64_t nr = 0;

	for (;;) {
		bool is_over = way == BY_SLEEP ? load_acquire(&is_reaped)
					       : has_unread(&handle);

		while (poll(&slot, 1, is_over ? 0 : 1) == 1)
			nr += read(ends[0], bytes, sizeof(bytes));
		if (is_over)
			return nr;
	}
}

/*
 * Make the request's file ready, and wait for the event.
 * Return: whether the event is right. A write may be partial.
 */
static bool see_to(unsigned way, int waker, const struct iocb *iocb)
{
	bool is_write = iocb->aio_lio_opcode == IOCB_CMD_PWRITE;
	struct unit_thread waiter;
	int64_t res, nr = 1;
	uint64_t count;

	store_relaxed(&is_reaped, 0);
	if (way == BY_SLEEP) {
		unit_thread_start(&waiter, reap_and_tell, NULL);
		unit_await_sleep(&waiter);
	}
	if (is_write)
		nr = drain(way);
	else if (write(ends[1], "x", 1) != 1)
		return false;
	if (way == BY_EVENTFD && read(waker, &count, 8) != 8)
		return false;
	res = way == BY_SLEEP ? unit_thread_join(&waiter)
			      : take_from_ring(handle);
	if (iocb->aio_lio_opcode == IOCB_CMD_POLL)
		return res == POLLIN && read(ends[0], &count, 1) == 1;
	return res == nr;
}

/*
 * Submit the request, and have it complete.
 * Return: 0; else the step that failed.
 */
static int serve(unsigned way, struct iocb *iocb, int waker)
{
	long ret;

	if (way == BY_EVENTFD) {
		iocb->aio_flags = IOCB_FLAG_RESFD;
		iocb->aio_resfd = (uint32_t)waker;
	}
	ret = unit_submit(handle, iocb);
	if (ret == -EAGAIN)
		return 0;
	if (ret != 1)
		return 1;
	return see_to(way, waker, iocb) ? 0 : 2;
}

static int serve_all_ways(int waker)
{
	static char bytes[1 << 17];

	for (unsigned way = 0; way < NR_WAYS; way++) {
		struct iocb iocbs[] = {
			unit_iocb(IOCB_CMD_PREAD, ends[0], bytes, 1, 0),
			unit_iocb(IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0),
			unit_iocb(IOCB_CMD_PWRITE, ends[1], bytes,
				  sizeof(bytes), 0),
		};

		for (unsigned i = 0; i < NR_ELEMENTS(iocbs); i++) {
			int ret = serve(way, &iocbs[i], waker);

			if (ret)
				return ret + 10 * (int)i + 30 * (int)way;
		}
	}
	return 0;
}

static int serve_refused(void)
{
	int ret, waker = eventfd(0, EFD_CLOEXEC);
	int64_t since;

	if (unit_engine(NULL) < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return 100;
	handle = unit_context(4);
	if (refusal.is_late) {
		ret = serve_all_ways(waker);
		if (ret)
			return 150 + ret;
		/*
		 * Use a new pipe from here on, which the library has not seen before.
		 */
		unit_close(ends[0]);
		unit_close(ends[1]);
		if (pipe2(ends, O_CLOEXEC) < 0)
			return 101;
	}
	unit_hook(refuse);
	ret = serve_all_ways(waker);
	if (ret)
		return ret;
	/* When calls no longer fail, everything must work as usual. */
	store_relaxed(&refusal.nr_left, 0);
	since = uaio_now_ns();
	ret = serve_all_ways(waker);
	if (ret)
		return 100 + ret;
	if (uaio_now_ns() - since > 5000000000)
		return 200;
	unit_destroy(handle);
	return 0;
}

static void epolls_and_eventfds_may_be_refused(void **state)
{
	static const struct {
		long call;
		int error;
		uint32_t nr;
	} refusals[] = {
		{ SYS_epoll_create1, -EMFILE, UINT32_MAX },
		{ SYS_epoll_create1, -ENFILE, 1 },
		{ SYS_epoll_create1, -ENOMEM, 3 },
		{ SYS_epoll_ctl, -ENOSPC, UINT32_MAX },
		{ SYS_epoll_ctl, -ENOSPC, 1 },
		{ SYS_epoll_ctl, -ENOMEM, 2 },
		{ SYS_eventfd2, -EMFILE, UINT32_MAX },
		{ SYS_eventfd2, -ENOMEM, 1 },
	};

	(void)state;
	for (unsigned i = 0; i < 2 * NR_ELEMENTS(refusals); i++) {
		const unsigned k = i / 2;
		int ret;

		refusal.is_late = i % 2;
		refusal.call = refusals[k].call;
		refusal.error = refusals[k].error;
		store_relaxed(&refusal.nr_left, refusals[k].nr);
		ret = unit_in_child(serve_refused);
		if (ret)
			fail_msg("refusal %u: %d", i, ret);
	}
}

/*
 * The descriptor of a stream that the epoll watches is closed. The library goes on with
 * a duplicate, but the epoll refuses the duplicate.
 */
static void requests_that_cannot_be_watched_again_are_served(void **state)
{
	(void)state;
	/*
	 * Set `refusal` now, because the hook may run in other threads later.
	 */
	refusal.call = SYS_epoll_ctl;
	refusal.error = -ENOSPC;
	for (unsigned i = 0; i < 4; i++) {
		struct unit_thread waiter;
		struct iocb iocb;
		char byte;

		open_pipe(4);
		iocb = i & 1 ? unit_iocb(IOCB_CMD_POLL, ends[0], (void *)POLLIN,
					 0, 0)
			     : unit_iocb(IOCB_CMD_PREAD, ends[0], &byte, 1, 0);
		assert_int_equal(unit_submit(handle, &iocb), 1);
		unit_thread_start(&waiter, reap_and_tell, NULL);
		unit_await_sleep(&waiter);
		store_relaxed(&refusal.nr_left, UINT32_MAX);
		unit_hook(refuse);
		unit_close(ends[0]);
		if (i & 2)
			unit_await_sleep(&waiter);
		put_text("x");
		assert_int_equal(unit_thread_join(&waiter), 1);
		unit_hook(NULL);
		store_relaxed(&ends[0], dup(ends[1]));
		close_pipe();
	}
}

/* RLIMIT_NOFILE is so low that no thread can open a descriptor. */
static int serve_without_numbers(void)
{
	struct rlimit limit;
	int ret, waker = eventfd(0, EFD_CLOEXEC), lowest;

	if (unit_engine(NULL) < 0 || pipe2(ends, O_CLOEXEC) < 0 ||
	    getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 100;
	handle = unit_context(4);
	lowest = dup(waker);
	close(lowest);
	limit.rlim_cur = (rlim_t)lowest;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 101;
	ret = serve_all_ways(waker);
	if (ret)
		return ret;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 102;
	ret = serve_all_ways(waker);
	return ret ? 100 + ret : 0;
}

static void without_descriptors_accepted_requests_are_served(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(serve_without_numbers), 0);
}

/*
 * The program wants to use the descriptor number of an eventfd of the library, to which
 * a thread is about to write. The library must wait until the thread has written.
 */
static struct {
	/* atomic: the thread that writes to the eventfd */
	uint32_t tid;
	/* atomic: the eventfd; 0: not known yet */
	uint32_t fd;
	uint32_t is_over;     /* atomic */
	uint32_t has_yielded; /* atomic */
} kick;

static bool hold_kick(long nr, const long args[6], long *ret_res)
{
	unsigned own;

	(void)ret_res;
	if (nr != SYS_write || load_relaxed(&kick.tid) != (uint32_t)gettid() ||
	    !uaio_own_fd((unsigned)args[0], (unsigned)args[0], &own))
		return false;
	store_release(&kick.fd, own);
	while (!load_acquire(&kick.is_over))
		sched_yield();
	return false;
}

static bool is_kick_held(void *arg)
{
	(void)arg;
	return load_acquire(&kick.fd);
}

/* Submit a request that completes at once, and so wakes the thread that sleeps. */
static long submit_and_wake(void *arg)
{
	store_relaxed(&kick.tid, (uint32_t)gettid());
	return unit_submit(handle, arg);
}

static long yield_number(void *arg)
{
	long ret;

	(void)arg;
	ret = uaio_own_fd_yield((int)load_acquire(&kick.fd));
	store_release(&kick.has_yielded, 1);
	return ret;
}

static void a_number_is_given_up_when_nobody_writes_to_it(void **state)
{
	struct unit_thread waiter, submitter, yielder;
	struct iocb iocbs[2];
	unsigned own, kicked;

	(void)state;
	open_pipe(4);
	iocbs[0] = unit_iocb(IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0);
	iocbs[1] = unit_iocb(IOCB_CMD_POLL, ends[1], (void *)POLLOUT, 0, 0);
	assert_int_equal(unit_submit(handle, &iocbs[0]), 1);
	unit_thread_start(&waiter, reap_and_tell, NULL);
	unit_await_sleep(&waiter);
	unit_hook(hold_kick);
	unit_thread_start(&submitter, submit_and_wake, &iocbs[1]);
	unit_await(is_kick_held, NULL);
	kicked = load_acquire(&kick.fd);
	unit_thread_start(&yielder, yield_number, NULL);
	unit_await_sleep(&yielder);
	assert_false(load_acquire(&kick.has_yielded));
	store_release(&kick.is_over, 1);
	assert_int_equal(unit_thread_join(&submitter), 1);
	assert_int_equal(unit_thread_join(&yielder), 0);
	assert_int_equal(unit_thread_join(&waiter), POLLOUT);
	unit_hook(NULL);
	assert_false(uaio_own_fd(kicked, kicked, &own));
	assert_int_equal(close((int)kicked), 0);
	/*
	 * The program got the number of the library's eventfd. So the library must have
	 * opened another eventfd.
	 */
	unit_thread_start(&waiter, reap_and_tell, NULL);
	unit_await_sleep(&waiter);
	assert_int_equal(unit_submit(handle, &iocbs[1]), 1);
	assert_int_equal(unit_thread_join(&waiter), POLLOUT);
	put_text("x");
	assert_int_equal(unit_reap_one(handle), POLLIN);
	close_pipe();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(epolls_and_eventfds_may_be_refused),
		UNIT_TEST(requests_that_cannot_be_watched_again_are_served),
		UNIT_TEST(without_descriptors_accepted_requests_are_served),
		UNIT_TEST(a_number_is_given_up_when_nobody_writes_to_it),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
