/* SPDX-License-Identifier: MIT */
/*
 * Cases: a thread submits poll requests that signal an eventfd. Then it waits for the
 * eventfd in epoll_wait, poll or a variant of these.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "host.h"
#include "older.h"
#include "clock.h"

enum { LONG_MS = 60000, SHORT_MS = 30 };

/*
 * A poll request on a pipe's read end, which signals an eventfd; and an epoll that
 * watches the eventfd
 */
struct desk {
	aio_context_t ctx;
	struct iocb iocb;
	int ends[2];
	int event;
	int epoll;
};

static void watch(struct desk *desk, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events };

	event.data.fd = fd;
	REQUIRE(epoll_ctl(desk->epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

static void set_up(struct desk *desk, uint32_t events)
{
	host_need_sleeps();
	desk->ctx = host_context(8);
	REQUIRE(pipe2(desk->ends, O_CLOEXEC) == 0);
	desk->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	desk->epoll = epoll_create1(EPOLL_CLOEXEC);
	REQUIRE(desk->event >= 0 && desk->epoll >= 0);
	watch(desk, desk->event, events);
	desk->iocb = host_poll(desk->ends[0]);
	desk->iocb.aio_flags |= IOCB_FLAG_RESFD;
	desk->iocb.aio_resfd = (uint32_t)desk->event;
}

static void take_down(struct desk *desk)
{
	REQUIRE(host_destroy(desk->ctx) == 0);
	REQUIRE(close(desk->ends[0]) == 0 && close(desk->ends[1]) == 0);
	REQUIRE(close(desk->event) == 0 && close(desk->epoll) == 0);
}

static void put(const struct desk *desk)
{
	REQUIRE(write(desk->ends[1], "x", 1) == 1);
}

static void take(const struct desk *desk)
{
	char byte;

	REQUIRE(read(desk->ends[0], &byte, 1) == 1);
}

/*
 * Check that the poll request has signalled the eventfd once, and reap its event.
 */
static void reap(const struct desk *desk)
{
	struct io_event event;
	uint64_t count = 0;

	REQUIRE(read(desk->event, &count, sizeof(count)) == sizeof(count));
	REQUIRE(count == 1);
	REQUIRE(host_reap(desk->ctx, 1, &event) == 1);
	/*
	 * The kernel may report more poll events than were requested, so check only
	 * one.
	 */
	REQUIRE(event.res & POLLIN);
}

/*
 * The calls in which a thread sleeps
 */

/*
 * Functions that sleep until the eventfd is ready.
 * Return: the result of the system call.
 */
typedef int sleep_fn(const struct desk *desk, int timeout_ms,
		     const sigset_t *mask);

static const struct timespec *time_of(int timeout_ms, struct timespec *ret)
{
	ret->tv_sec = timeout_ms / 1000;
	ret->tv_nsec = timeout_ms % 1000 * 1000000l;
	return timeout_ms < 0 ? NULL : ret;
}

static int is_told(int ret, const struct desk *desk,
		   const struct epoll_event *event)
{
	REQUIRE(ret <= 0 || (ret == 1 && event->events == EPOLLIN &&
			     event->data.fd == desk->event));
	return ret;
}

static int by_epoll_wait(const struct desk *desk, int timeout_ms,
			 const sigset_t *mask)
{
	struct epoll_event event;

	(void)mask;
	return is_told(epoll_wait(desk->epoll, &event, 1, timeout_ms), desk,
		       &event);
}

static int by_epoll_pwait(const struct desk *desk, int timeout_ms,
			  const sigset_t *mask)
{
	struct epoll_event event;

	return is_told(epoll_pwait(desk->epoll, &event, 1, timeout_ms, mask),
		       desk, &event);
}

static int by_epoll_pwait2(const struct desk *desk, int timeout_ms,
			   const sigset_t *mask)
{
	struct epoll_event event;
	struct timespec timeout;
	int ret = epoll_pwait2(desk->epoll, &event, 1,
			       time_of(timeout_ms, &timeout), mask);

	if (ret < 0 && errno == ENOSYS)
		return by_epoll_pwait(desk, timeout_ms, mask);
	return is_told(ret, desk, &event);
}

static int by_poll(const struct desk *desk, int timeout_ms,
		   const sigset_t *mask)
{
	struct pollfd slots[] = { { .fd = -1 },
				  { .fd = desk->event, .events = POLLIN } };
	int ret = poll(slots, NR_ELEMENTS(slots), timeout_ms);

	(void)mask;
	REQUIRE(ret <= 0 || (ret == 1 && slots[1].revents == POLLIN));
	return ret;
}

static int by_ppoll(const struct desk *desk, int timeout_ms,
		    const sigset_t *mask)
{
	struct pollfd slot = { .fd = desk->event, .events = POLLIN };
	struct timespec timeout;
	int ret = ppoll(&slot, 1, time_of(timeout_ms, &timeout), mask);

	REQUIRE(ret <= 0 || (ret == 1 && slot.revents == POLLIN));
	return ret;
}

static int by_nested_epoll(const struct desk *desk, int timeout_ms,
			   const sigset_t *mask)
{
	struct pollfd slot = { .fd = desk->epoll, .events = POLLIN };
	int ret = poll(&slot, 1, timeout_ms);

	return ret <= 0 ? ret : by_epoll_pwait(desk, 0, mask);
}

static const struct {
	sleep_fn *sleep;
	bool has_mask;
} calls[] = {
	{ by_epoll_wait, false },  { by_epoll_pwait, true },
	{ by_epoll_pwait2, true }, { by_poll, false },
	{ by_ppoll, true },        { by_nested_epoll, false },
};

/*
 * Return: the number of the system call in which the main thread sleeps; -1 if it does
 * not sleep.
 */
static long call_of_main(void)
{
	char path[64], text[64] = "", *end;
	long nr;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	REQUIRE(fd >= 0);
	REQUIRE(read(fd, text, sizeof(text) - 1) > 0);
	REQUIRE(close(fd) == 0);
	nr = strtol(text, &end, 10);
	return end == text ? -1 : nr;
}

/* Wait until the main thread sleeps in a poll or epoll call. */
static void await_sleep(void)
{
	static const long numbers[] = {
#ifdef SYS_poll
		SYS_poll,
#endif
#ifdef SYS_epoll_wait
		SYS_epoll_wait,
#endif
		SYS_ppoll,      SYS_epoll_pwait, SYS_epoll_pwait2,
	};
	int64_t deadline = now_ns() + LONG_MS / 2 * 1000000ll;

	while (now_ns() < deadline) {
		long nr = call_of_main();

		for (unsigned i = 0; i < NR_ELEMENTS(numbers); i++)
			if (nr == numbers[i])
				return;
		(void)sched_yield();
	}
	REQUIRE(!"the main thread does not sleep");
}

/* At each step, wait until the main thread sleeps, then write to the pipe. */
static void *answer(void *arg)
{
	const struct desk *desk = arg;

	for (unsigned step = 1; step <= NR_ELEMENTS(calls); step++) {
		host_await_step(step);
		await_sleep();
		put(desk);
	}
	return NULL;
}

void sleeps_by_any_call(void)
{
	struct desk desk;
	pthread_t thread;

	set_up(&desk, EPOLLIN);
	REQUIRE(pthread_create(&thread, NULL, answer, &desk) == 0);
	for (unsigned i = 0; i < NR_ELEMENTS(calls); i++) {
		REQUIRE(host_submit(desk.ctx, &desk.iocb) == 1);
		host_step(i + 1);
		REQUIRE(calls[i].sleep(&desk, LONG_MS, NULL) == 1);
		reap(&desk);
		take(&desk);
	}
	REQUIRE(pthread_join(thread, NULL) == 0);
	take_down(&desk);
}

void sleeps_for_a_time(void)
{
	struct desk desk;

	set_up(&desk, EPOLLIN);
	REQUIRE(host_submit(desk.ctx, &desk.iocb) == 1);
	for (unsigned i = 0; i < NR_ELEMENTS(calls); i++) {
		int64_t since = now_ns();

		REQUIRE(calls[i].sleep(&desk, SHORT_MS, NULL) == 0);
		REQUIRE(now_ns() - since >= SHORT_MS * 1000000ll);
		REQUIRE(calls[i].sleep(&desk, 0, NULL) == 0);
	}
	/* A call with wrong arguments must fail at once. */
	errno = 0;
	REQUIRE(epoll_wait(desk.epoll, &(struct epoll_event){ 0 }, 0, -1) ==
			-1 &&
		errno == EINVAL);
	REQUIRE(epoll_wait(-1, &(struct epoll_event){ 0 }, 1, -1) == -1 &&
		errno == EBADF);
	REQUIRE(epoll_wait(desk.event, &(struct epoll_event){ 0 }, 1, 10) ==
			-1 &&
		errno == EINVAL);
	REQUIRE(ppoll(NULL, 0, &(struct timespec){ .tv_nsec = -1 }, NULL) ==
			-1 &&
		errno == EINVAL);
	REQUIRE(poll(NULL, 0, 1) == 0);
	take_down(&desk);
}

/*
 * The kernel reports a change of the host's name to only one poll() of this file.
 */

static void *change_name(void *arg)
{
	(void)arg;
	host_await_step(1);
	await_sleep();
	REQUIRE(sethostname("other", 5) == 0);
	return NULL;
}

static void sleep_once(int (*sleep)(struct pollfd *pfds))
{
	struct desk desk;
	struct pollfd pfds[2] = { { .events = POLLPRI }, { .events = POLLIN } };
	pthread_t thread;

	set_up(&desk, EPOLLIN);
	REQUIRE(host_submit(desk.ctx, &desk.iocb) == 1);
	pfds[0].fd = open("/proc/sys/kernel/hostname", O_RDONLY | O_CLOEXEC);
	pfds[1].fd = desk.event;
	REQUIRE(pfds[0].fd >= 0);
	REQUIRE(pthread_create(&thread, NULL, change_name, NULL) == 0);
	host_step(1);
	REQUIRE(sleep(pfds) == 1 && pfds[0].revents & POLLPRI);
	REQUIRE(pthread_join(thread, NULL) == 0);
	host_step(0);
	REQUIRE(close(pfds[0].fd) == 0);
	take_down(&desk);
}

static int poll_once(struct pollfd *pfds)
{
	return poll(pfds, 2, LONG_MS);
}

static int ppoll_once(struct pollfd *pfds)
{
	return ppoll(pfds, 2, &(struct timespec){ .tv_sec = LONG_MS / 1000 },
		     NULL);
}

void sleeps_once(void)
{
	if (unshare(CLONE_NEWUTS) < 0)
		host_skip("no namespace for the host's name");
	sleep_once(poll_once);
	sleep_once(ppoll_once);
}

/*
 * The flags with which the program's epoll watches the eventfd must stay in effect
 */

void sleeps_as_it_was(void)
{
	static const uint32_t flags[] = { 0, EPOLLET, EPOLLONESHOT };

	for (unsigned i = 0; i < NR_ELEMENTS(flags); i++) {
		struct epoll_event events[2];
		struct desk desk;

		set_up(&desk, EPOLLIN | flags[i]);
		/* The epoll also watches a descriptor that is always ready. */
		watch(&desk, desk.ends[1], EPOLLOUT);
		REQUIRE(host_submit(desk.ctx, &desk.iocb) == 1);
		REQUIRE(epoll_wait(desk.epoll, events, 2, LONG_MS) == 1);
		REQUIRE(events[0].data.fd == desk.ends[1]);
		REQUIRE(epoll_ctl(desk.epoll, EPOLL_CTL_DEL, desk.ends[1],
				  NULL) == 0);
		put(&desk);
		REQUIRE(epoll_wait(desk.epoll, events, 2, LONG_MS) == 1);
		REQUIRE(events[0].data.fd == desk.event);
		REQUIRE(events[0].events == EPOLLIN);
		/*
		 * The eventfd was not read: only a level-triggered epoll reports it
		 * again.
		 */
		REQUIRE(epoll_wait(desk.epoll, events, 2, 10) == !flags[i]);
		reap(&desk);
		take(&desk);
		take_down(&desk);
	}
}

/*
 * Signals that arrive during the sleep
 */

static volatile sig_atomic_t nr_handled;

static void count(int signal)
{
	(void)signal;
	nr_handled = nr_handled + 1;
}

static void handle(void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler,
				    .sa_flags = SA_RESTART };

	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
}

static unsigned nr_interrupts = NR_ELEMENTS(calls);

static void *interrupt(void *arg)
{
	pthread_t target = *(pthread_t *)arg;

	for (unsigned step = 1; step <= nr_interrupts; step++) {
		host_await_step(step);
		await_sleep();
		REQUIRE(pthread_kill(target, SIGUSR1) == 0);
	}
	return NULL;
}

void sleeps_interrupted(void)
{
	pthread_t self = pthread_self(), thread;
	sigset_t blocked, none;
	struct desk desk;
	int nr = 0;

	handle(count);
	(void)sigemptyset(&none);
	blocked = none;
	(void)sigaddset(&blocked, SIGUSR1);
	set_up(&desk, EPOLLIN);
	REQUIRE(host_submit(desk.ctx, &desk.iocb) == 1);
	REQUIRE(pthread_create(&thread, NULL, interrupt, &self) == 0);
	for (unsigned i = 0; i < NR_ELEMENTS(calls); i++) {
		host_step(i + 1);
		errno = 0;
		REQUIRE(calls[i].sleep(&desk, LONG_MS, NULL) == -1);
		REQUIRE(errno == EINTR && nr_handled == ++nr);
	}
	REQUIRE(pthread_join(thread, NULL) == 0);
	/*
	 * The thread blocks the signal. The mask that the call gets as an argument
	 * unblocks it.
	 */
	REQUIRE(pthread_sigmask(SIG_BLOCK, &blocked, NULL) == 0);
	for (unsigned i = 0; i < NR_ELEMENTS(calls); i++) {
		if (!calls[i].has_mask)
			continue;
		REQUIRE(raise(SIGUSR1) == 0 && nr_handled == nr);
		REQUIRE(calls[i].sleep(&desk, SHORT_MS, NULL) == 0);
		REQUIRE(nr_handled == nr);
		REQUIRE(calls[i].sleep(&desk, LONG_MS, &none) == -1);
		REQUIRE(errno == EINTR && nr_handled == ++nr);
	}
	put(&desk);
	REQUIRE(by_epoll_wait(&desk, LONG_MS, NULL) == 1);
	reap(&desk);
	take_down(&desk);
}

static sigjmp_buf out;

static void jump(int signal)
{
	(void)signal;
	siglongjmp(out, 1);
}

void sleeps_left(void)
{
	pthread_t self = pthread_self(), thread;
	volatile unsigned nr = 0;
	struct desk desk;

	handle(jump);
	set_up(&desk, EPOLLIN);
	REQUIRE(host_submit(desk.ctx, &desk.iocb) == 1);
	REQUIRE(pthread_create(&thread, NULL, interrupt, &self) == 0);
	(void)sigsetjmp(out, 1);
	/* Each handler returns here by siglongjmp. */
	if (nr < NR_ELEMENTS(calls)) {
		host_step(++nr);
		(void)calls[nr - 1].sleep(&desk, LONG_MS, NULL);
		REQUIRE(!"nothing is there to wake it");
	}
	REQUIRE(pthread_join(thread, NULL) == 0);
	put(&desk);
	REQUIRE(by_poll(&desk, LONG_MS, NULL) == 1);
	reap(&desk);
	take_down(&desk);
}

/*
 * Install the handler by a system call that bypasses the library, so that the kernel
 * runs it during the sleep. Keep the flags and the restorer that sigaction() has set.
 */
static void handle_in_the_sleep(void (*handler)(int))
{
	struct {
		void (*handler)(int);
		uint64_t rest[3]; /* flags, restorer, mask */
	} action;

	handle(handler);
	REQUIRE(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &action, 8ul) == 0);
	action.handler = handler;
	REQUIRE(syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8ul) == 0);
}

static int by_select(const struct desk *desk)
{
	struct timeval none = { 0 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(desk->epoll, &set);
	return select(desk->epoll + 1, &set, NULL, NULL, &none);
}

/*
 * Call function `nr` of calls[] with timeout 0; if nr is beyond the array, call
 * select().
 */
static int polls(const struct desk *desk, unsigned nr)
{
	return nr < NR_ELEMENTS(calls) ? calls[nr].sleep(desk, 0, NULL)
				       : by_select(desk);
}

void sleeps_left_for_good(void)
{
	pthread_t self = pthread_self(), thread;
	volatile unsigned nr = 0;
	struct desk desk;

	nr_interrupts = NR_ELEMENTS(calls) + 1;
	/*
	 * When the library starts, it may replace the installed handlers by its own. So
	 * start the library before handle_in_the_sleep() installs the handler.
	 */
	set_up(&desk, EPOLLIN);
	handle_in_the_sleep(jump);
	REQUIRE(pthread_create(&thread, NULL, interrupt, &self) == 0);
	while (nr < nr_interrupts) {
		REQUIRE(host_submit(desk.ctx, &desk.iocb) == 1);
		if (!sigsetjmp(out, 1)) {
			host_step(nr + 1);
			(void)by_epoll_wait(&desk, LONG_MS, NULL);
			REQUIRE(!"nothing is there to wake it");
		}
		put(&desk);
		while (polls(&desk, nr) == 0)
			(void)sched_yield();
		reap(&desk);
		take(&desk);
		nr = nr + 1;
	}
	REQUIRE(pthread_join(thread, NULL) == 0);
	take_down(&desk);
}

/*
 * Threads that are cancelled in a sleep, or share an epoll
 */

/*
 * Cleanup handler of the cancelled thread: complete its poll request, and wait until the
 * eventfd is signalled, by calls that the library does not see.
 */
static void feed_and_wait(void *arg)
{
	const struct desk *desk = arg;
	uint64_t count;

	put(desk);
	while (read(desk->event, &count, sizeof(count)) < 0)
		(void)sched_yield();
	/* Write the eventfd's count back, because reap() reads it. */
	REQUIRE(write(desk->event, &count, sizeof(count)) == sizeof(count));
}

static void *park_and_sleep(void *arg)
{
	struct desk *desk = arg;

	REQUIRE(host_submit(desk->ctx, &desk->iocb) == 1);
	host_step(1);
	pthread_cleanup_push(feed_and_wait, desk);
	(void)by_epoll_wait(desk, -1, NULL);
	pthread_cleanup_pop(0);
	return NULL;
}

void sleeps_cancelled(void)
{
	for (unsigned i = 0; i < 20; i++) {
		struct desk desk;
		pthread_t thread;
		void *result;

		host_step(0);
		set_up(&desk, EPOLLIN);
		REQUIRE(pthread_create(&thread, NULL, park_and_sleep, &desk) ==
			0);
		host_await_step(1);
		REQUIRE(pthread_cancel(thread) == 0);
		REQUIRE(pthread_join(thread, &result) == 0);
		REQUIRE(result == PTHREAD_CANCELED);
		reap(&desk);
		take_down(&desk);
	}
}

enum { NR_SLEEPERS = 4, NR_TURNS = 2000 };

static uint32_t nr_taken;

/*
 * Several threads sleep in one epoll. The thread that reads the eventfd submits the
 * poll request again.
 */
static void *share(void *arg)
{
	struct desk *desk = arg;
	unsigned turns = host_rounds(NR_TURNS);

	while (__atomic_load_n(&nr_taken, __ATOMIC_ACQUIRE) < turns) {
		uint64_t count = 0;

		(void)by_epoll_wait(desk, 1000, NULL);
		if (read(desk->event, &count, sizeof(count)) < 0) {
			REQUIRE(errno == EAGAIN);
			continue;
		}
		REQUIRE(count == 1);
		REQUIRE(host_reap(desk->ctx, 1, &(struct io_event){ 0 }) == 1);
		take(desk);
		if (__atomic_add_fetch(&nr_taken, 1, __ATOMIC_ACQ_REL) >= turns)
			break;
		REQUIRE(host_submit(desk->ctx, &desk->iocb) == 1);
		put(desk);
	}
	return NULL;
}

void sleeps_together(void)
{
	pthread_t threads[NR_SLEEPERS];
	struct desk desk;

	set_up(&desk, EPOLLIN);
	REQUIRE(host_submit(desk.ctx, &desk.iocb) == 1);
	for (unsigned i = 0; i < NR_SLEEPERS; i++)
		REQUIRE(pthread_create(&threads[i], NULL, share, &desk) == 0);
	put(&desk);
	for (unsigned i = 0; i < NR_SLEEPERS; i++)
		REQUIRE(pthread_join(threads[i], NULL) == 0);
	take_down(&desk);
}

static struct desk *going;

static void destroy(int signal)
{
	(void)signal;
	REQUIRE(host_destroy(going->ctx) == 0);
}

static void *destroy_asleep(void *arg)
{
	struct desk *desk = arg;

	host_await_step(1);
	await_sleep();
	REQUIRE(host_destroy(desk->ctx) == 0);
	await_sleep();
	host_step(2);
	REQUIRE(write(desk->event, &(uint64_t){ 1 }, 8) == 8);
	return NULL;
}

void sleeps_destroyed(void)
{
	pthread_t self = pthread_self(), thread;
	struct desk desk;
	uint64_t count;

	/*
	 * While this thread sleeps, another thread destroys the context. The
	 * destruction need not wake this thread, so the other thread then writes to the
	 * eventfd.
	 */
	set_up(&desk, EPOLLIN);
	REQUIRE(host_submit(desk.ctx, &desk.iocb) == 1);
	REQUIRE(pthread_create(&thread, NULL, destroy_asleep, &desk) == 0);
	host_step(1);
	/*
	 * Without the library, the eventfd may have a count before step 2: the kernel
	 * signals it for cancelled requests, too.
	 */
	do {
		REQUIRE(by_epoll_wait(&desk, LONG_MS, NULL) == 1);
		REQUIRE(read(desk.event, &count, sizeof(count)) ==
			sizeof(count));
	} while (__atomic_load_n(&shared->step, __ATOMIC_SEQ_CST) < 2);
	REQUIRE(pthread_join(thread, NULL) == 0);
	desk.ctx = host_context(8);

	/* A signal handler destroys the context in which its own thread sleeps. */
	handle(destroy);
	host_step(0);
	going = &desk;
	REQUIRE(host_submit(desk.ctx, &desk.iocb) == 1);
	REQUIRE(pthread_create(&thread, NULL, interrupt, &self) == 0);
	for (unsigned i = 0; i < NR_ELEMENTS(calls); i++) {
		if (i) {
			desk.ctx = host_context(8);
			REQUIRE(host_submit(desk.ctx, &desk.iocb) == 1);
		}
		host_step(i + 1);
		(void)calls[i].sleep(&desk, LONG_MS, NULL);
		(void)read(desk.event, &count, sizeof(count));
	}
	REQUIRE(pthread_join(thread, NULL) == 0);
	desk.ctx = host_context(8);
	take_down(&desk);
}

static int sleep_in_child(void *arg)
{
	struct desk *parents = arg, desk;
	struct pollfd slot = { .fd = parents->ends[0], .events = POLLIN };

	/*
	 * The parent's request must not wake the child, neither before the child has a
	 * context of its own nor afterwards.
	 */
	REQUIRE(poll(&slot, 1, 10) == 0);
	REQUIRE(by_epoll_wait(parents, 10, NULL) == 0);
	set_up(&desk, EPOLLIN);
	REQUIRE(by_epoll_wait(parents, 10, NULL) == 0);
	REQUIRE(host_submit(desk.ctx, &desk.iocb) == 1);
	put(&desk);
	REQUIRE(by_epoll_wait(&desk, LONG_MS, NULL) == 1);
	reap(&desk);
	take_down(&desk);
	return 0;
}

void sleeps_in_children(void)
{
	struct desk desk;

	set_up(&desk, EPOLLIN);
	REQUIRE(host_submit(desk.ctx, &desk.iocb) == 1);
	for (unsigned i = 0; i < 5; i++) {
		REQUIRE(by_epoll_wait(&desk, 5, NULL) == 0);
		REQUIRE(host_in_child(sleep_in_child, &desk) == 0);
	}
	put(&desk);
	REQUIRE(by_epoll_wait(&desk, LONG_MS, NULL) == 1);
	reap(&desk);
	take_down(&desk);
}
