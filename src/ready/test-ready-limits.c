/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/atomic.h"
#include "aio/aio.h"
#include "ready/test-ready.h"

/*
 * More requests wait than the process may have descriptors. So no single poll() could
 * wait for all of them.
 */
static int park_more_than_descriptors(void)
{
	enum { NR = 200 };
	static char bytes[NR];
	static struct io_event events[NR];
	struct rlimit limit = { 64, 64 };
	struct iocb iocb;

	if (setrlimit(RLIMIT_NOFILE, &limit) < 0 || unit_engine(NULL) < 0 ||
	    pipe2(ends, O_CLOEXEC) < 0)
		return 1;
	handle = unit_context(NR);
	for (unsigned i = 0; i < NR; i++) {
		iocb = unit_iocb(IOCB_CMD_PREAD, ends[0], &bytes[i], 1, 0);
		if (unit_submit(handle, &iocb) != 1)
			return 2;
	}
	if (write(ends[1], bytes, NR) != NR)
		return 3;
	if (unit_reap(handle, NR, events) != NR)
		return 4;
	return 0;
}

static void more_can_wait_than_there_may_be_descriptors(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(park_more_than_descriptors), 0);
}

/*
 * No epoll can be opened: a request that would have to wait is refused, and gets no
 * event.
 */
static bool refuse_descriptors(long nr, const long args[6], long *ret_res)
{
	*ret_res = -EMFILE;
	return nr == SYS_eventfd2 || (nr == SYS_fcntl && args[1] != F_GETFL);
}

static int wait_without_descriptors(void)
{
	struct io_event event;
	struct iocb iocb;
	char byte;
	long ret;

	if (unit_engine(NULL) < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return 1;
	handle = unit_context(4);
	unit_hook(refuse_descriptors);
	iocb = unit_iocb(IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0);
	ret = unit_submit(handle, &iocb);
	if (ret != 1 && ret != -EAGAIN)
		return 2;
	if (write(ends[1], "x", 1) != 1)
		return 3;
	if (ret == 1 &&
	    (unit_reap(handle, 1, &event) != 1 || event.res != POLLIN))
		return 4;
	if (read(ends[0], &byte, 1) != 1)
		return 5;
	iocb = unit_iocb(IOCB_CMD_PREAD, ends[0], &byte, 1, 0);
	ret = unit_submit(handle, &iocb);
	if (ret != 1 && ret != -EAGAIN)
		return 6;
	if (write(ends[1], "x", 1) != 1)
		return 7;
	if (ret == 1 && (unit_reap(handle, 1, &event) != 1 || event.res != 1))
		return 8;
	return 0;
}

static void without_descriptors_waiting_works_or_is_refused(void **state)
{
	(void)state;
	/* Run this in a child, where the library has not opened an epoll yet. */
	assert_int_equal(unit_in_child(wait_without_descriptors), 0);
}

static int write_half_without_memory(void)
{
	static char bytes[1 << 20];
	struct io_event event;
	struct iocb iocb;
	ssize_t got;
	long ret;

	if (unit_engine(NULL) < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return 1;
	handle = unit_context(4);
	iocb = unit_iocb(IOCB_CMD_PWRITE, ends[1], bytes, sizeof(bytes), 0);
	/*
	 * The library has the file in its table already, so only the request needs
	 * memory.
	 */
	iocb.aio_nbytes = 1;
	if (unit_submit(handle, &iocb) != 1 || unit_reap_one(handle) != 1)
		return 2;
	unit_hook(unit_refuse_memory);
	iocb.aio_nbytes = sizeof(bytes);
	ret = unit_submit(handle, &iocb);
	if (ret == 1) {
		if (unit_reap(handle, 1, &event) != 1)
			return 3;
		if ((int64_t)event.res <= 0)
			return 4;
	}
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	got = read(ends[0], bytes, sizeof(bytes));
	if (got != 1 + (ret == 1 ? (ssize_t)event.res : 0))
		return 5;
	return 0;
}

static void a_write_that_is_refused_has_written_nothing(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(write_half_without_memory), 0);
}

/*
 * The program wants to use the descriptor number of the library's epoll, in which a
 * thread is about to sleep. The library must first wait until that thread has left the
 * epoll.
 */
static const int64_t SECOND_NS = 1000000000;

static struct {
	int fd;
	uint32_t is_held;     /* atomic */
	uint32_t is_over;     /* atomic */
	uint32_t has_yielded; /* atomic */
} wait;

static bool hold_wait(long nr, const long args[6], long *ret_res)
{
	enum { NR_EPOLL_PWAIT2 = 441 };

	(void)ret_res;
	if (nr != NR_EPOLL_PWAIT2 || (int)args[0] != wait.fd ||
	    load_acquire(&wait.is_held))
		return false;
	store_release(&wait.is_held, 1);
	while (!load_acquire(&wait.is_over))
		sched_yield();
	return false;
}

static bool is_wait_held(void *arg)
{
	(void)arg;
	return load_acquire(&wait.is_held);
}

static long yield_number(void *arg)
{
	int64_t since = uaio_now_ns();
	long ret = uaio_own_fd_yield(wait.fd);

	(void)arg;
	/*
	 * After SECOND_NS the library gives up waiting for a sleeping thread. On a busy
	 * machine that may happen here.
	 */
	if (!load_acquire(&wait.is_over) && uaio_now_ns() - since < SECOND_NS)
		ret = -EEXIST;
	store_release(&wait.has_yielded, 1);
	return ret;
}

/*
 * Return: whether the thread that wants the descriptor number has ended, or has checked
 * many times whether it may have that number.
 */
static bool has_looked(void *arg)
{
	enum { LOOKS = 50 };
	const struct unit_thread *yielder = arg;

	return load_acquire(&wait.has_yielded) ||
	       (load_acquire(&yielder->tid) &&
		unit_thread_sleeps(yielder) >= LOOKS);
}

static void a_number_is_given_up_when_nobody_waits_on_it(void **state)
{
	struct unit_thread yielder;
	struct iocb iocb;
	unsigned own;

	(void)state;
	open_pipe(4);
	iocb = unit_iocb(IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	/*
	 * The library's lowest descriptor is the epoll in which the fallback thread
	 * sleeps.
	 */
	assert_true(uaio_own_fd(0, UINT32_MAX, &own));
	wait.fd = (int)own;
	unit_hook(hold_wait);
	/*
	 * While requests are parked, the fallback thread sleeps again at intervals.
	 */
	assert_int_equal(unit_submit(handle, &iocb), 1);
	unit_await(is_wait_held, NULL);
	unit_thread_start(&yielder, yield_number, NULL);
	unit_await(has_looked, &yielder);
	store_release(&wait.is_over, 1);
	assert_int_equal(unit_thread_join(&yielder), 0);
	unit_hook(NULL);
	assert_false(uaio_own_fd(own, own, &own));
	assert_int_equal(close(wait.fd), 0);
	put_text("x");
	assert_int_equal(unit_reap_one(handle), POLLIN);
	assert_int_equal(unit_reap_one(handle), POLLIN);
	close_pipe();
}

/*
 * A thread closes a context, and is stopped when it closes the eventfd of the context's
 * epoll. The epoll is already detached from its queue, but is still open, and the
 * program wants the epoll's descriptor number. The library must wait until the epoll is
 * closed.
 */
static struct {
	/* epolls of the library; eventfds[i] is the eventfd in epolls[i] */
	int epolls[4];
	int eventfds[4];
	unsigned nr;
	/* atomic: the thread that closes the context */
	uint32_t closer;
	/* atomic: the thread that wants the epoll's descriptor number */
	uint32_t yielder;
	/* atomic: the epoll's descriptor, once the closing thread is stopped; else 0 */
	uint32_t wanted;
	/* atomic: how often the thread `yielder` has slept */
	uint32_t nr_looks;
} leaving;

enum { LOOKS = 200 };

static void note_pair(const long args[6])
{
	const struct epoll_event *event =
		(const struct epoll_event *)(uintptr_t)args[3];

	if (args[1] != EPOLL_CTL_ADD || event->data.u64 ||
	    leaving.nr == NR_ELEMENTS(leaving.epolls))
		return;
	leaving.epolls[leaving.nr] = (int)args[0];
	leaving.eventfds[leaving.nr++] = (int)args[2];
}

static bool hold_closer(long nr, const long args[6], long *ret_res)
{
	uint32_t tid = (uint32_t)gettid();

	(void)ret_res;
	if (nr == SYS_epoll_ctl && tid == (uint32_t)getpid())
		note_pair(args);
	if (nr == SYS_futex && tid == load_relaxed(&leaving.yielder))
		add_relaxed(&leaving.nr_looks, 1);
	if (nr != SYS_close || tid != load_relaxed(&leaving.closer))
		return false;
	for (unsigned i = 0; i < leaving.nr; i++)
		if (leaving.eventfds[i] == (int)args[0])
			store_release(&leaving.wanted,
				      (uint32_t)leaving.epolls[i]);
	while (load_acquire(&leaving.wanted) &&
	       load_relaxed(&leaving.nr_looks) < LOOKS)
		sched_yield();
	return false;
}

static bool is_closer_held(void *arg)
{
	(void)arg;
	return load_acquire(&leaving.wanted);
}

static long destroy_held(void *arg)
{
	(void)arg;
	store_relaxed(&leaving.closer, (uint32_t)gettid());
	unit_destroy(handle);
	return 0;
}

static long want_number(void *arg)
{
	long ret;

	(void)arg;
	store_relaxed(&leaving.yielder, (uint32_t)gettid());
	/*
	 * uaio_own_fd_yield() gives up after five seconds, which may be too early on a
	 * busy machine.
	 */
	do
		ret = uaio_own_fd_yield((int)load_acquire(&leaving.wanted));
	while (ret == -EBUSY);
	return ret;
}

static void a_number_that_is_about_to_be_closed_is_waited_for(void **state)
{
	struct unit_thread closer, yielder;
	struct iocb iocb;
	unsigned own;

	(void)state;
	unit_hook(hold_closer);
	open_pipe(4);
	iocb = unit_iocb(IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	put_text("x");
	assert_int_equal(unit_reap_one(handle), POLLIN);
	assert_true(leaving.nr > 0);
	unit_thread_start(&closer, destroy_held, NULL);
	unit_await(is_closer_held, NULL);
	unit_thread_start(&yielder, want_number, NULL);
	assert_int_equal(unit_thread_join(&yielder), -EAGAIN);
	assert_int_equal(unit_thread_join(&closer), 0);
	unit_hook(NULL);
	assert_true(load_relaxed(&leaving.nr_looks) >= LOOKS);
	own = load_relaxed(&leaving.wanted);
	assert_false(uaio_own_fd(own, own, &own));
	unit_close(ends[0]);
	unit_close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(more_can_wait_than_there_may_be_descriptors),
		UNIT_TEST(without_descriptors_waiting_works_or_is_refused),
		UNIT_TEST(a_write_that_is_refused_has_written_nothing),
		UNIT_TEST(a_number_is_given_up_when_nobody_waits_on_it),
		UNIT_TEST(a_number_that_is_about_to_be_closed_is_waited_for),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
