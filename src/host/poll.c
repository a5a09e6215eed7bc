/* SPDX-License-Identifier: MIT */
/*
 * poll(2), epoll_wait(2) and similar functions, in which the program sleeps until its
 * descriptors are ready
 *
 * A thread may have submitted requests that wait for their files, and that signal their
 * completion by an eventfd. While such a thread sleeps here, it also serves the queues of
 * these requests, as their leader (ready/attend.h). The thread first sleeps in ppoll() on
 * the program's descriptors and those of the queues. Then it makes the program's call with
 * timeout 0. Only this call consumes an epoll's events, so other threads in the same
 * epoll find theirs. A thread without such requests only reads one variable.
 *
 * The sleep is a cancellation point, like the functions themselves. If the program
 * polls a ring of the library, the library polls the ring's bell instead: an eventfd
 * that wakes polls of the ring (ringpoll.c).
 *
 * Context: async-signal-safe; also before the library is loaded.
 *
 * Tested by test/host/sleeps.c and bells.c.
 */
/* Otherwise fortified headers define inline functions with the names below. */
#undef _FORTIFY_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/check.h"
#include "base/libc.h"
#include "base/newer.h"
#include "base/sleep.h"
#include "base/sleepcall.h"
#include "base/symver.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "ready/attend.h"
#include "uring/bell.h"
#include "uring/uring.h"
#include "host/host.h"

/* These declarations set the visibility of the exported definitions below. */
UAIO_EXPORT int epoll_wait(int epoll, struct epoll_event *events, int max,
			   int timeout_ms);
UAIO_EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int max,
			    int timeout_ms, const sigset_t *mask);
UAIO_EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int max,
			     const struct timespec *timeout,
			     const sigset_t *mask);
UAIO_EXPORT int poll(struct pollfd *pfds, nfds_t nr, int timeout_ms);
UAIO_EXPORT int ppoll(struct pollfd *pfds, nfds_t nr,
		      const struct timespec *timeout, const sigset_t *mask);
UAIO_EXPORT int __poll_chk(struct pollfd *pfds, nfds_t nr, int timeout_ms,
			   size_t bytes);
UAIO_EXPORT int __ppoll_chk(struct pollfd *pfds, nfds_t nr,
			    const struct timespec *timeout,
			    const sigset_t *mask, size_t bytes);

enum {
	MASK_BYTES = 8,
	/* A thread that polls more descriptors than this serves no queues. */
	SLOTS_MAX = 64,
};

/* Next definitions of these functions (RTLD_NEXT); NULL until the library is loaded. */
static struct {
	int (*epoll_wait)(int, struct epoll_event *, int, int);
	int (*epoll_pwait)(int, struct epoll_event *, int, int,
			   const sigset_t *);
	int (*epoll_pwait2)(int, struct epoll_event *, int,
			    const struct timespec *, const sigset_t *);
	int (*poll)(struct pollfd *, nfds_t, int);
	int (*ppoll)(struct pollfd *, nfds_t, const struct timespec *,
		     const sigset_t *);
	int (*__poll_chk)(struct pollfd *, nfds_t, int, size_t);
	int (*__ppoll_chk)(struct pollfd *, nfds_t, const struct timespec *,
			   const sigset_t *, size_t);
} next;

void uaio_host_load_poll(void)
{
	uaio_host_find("epoll_wait", &next.epoll_wait);
	uaio_host_find("epoll_pwait", &next.epoll_pwait);
	uaio_host_find("epoll_pwait2", &next.epoll_pwait2);
	uaio_host_find("poll", &next.poll);
	uaio_host_find("ppoll", &next.ppoll);
}

/*
 * real_X() calls the next definition of X. Before the library is loaded, it makes the
 * system call X.
 */

static int raw_pwait(int epoll, struct epoll_event *events, int max,
		     int timeout_ms, const sigset_t *mask)
{
	return (int)uaio_host_error(uaio_sys6(SYS_epoll_pwait, epoll,
					      (long)events, max, timeout_ms,
					      (long)mask, MASK_BYTES));
}

static int real_epoll_wait(int epoll, struct epoll_event *events, int max,
			   int timeout_ms)
{
	if (!next.epoll_wait)
		return raw_pwait(epoll, events, max, timeout_ms, NULL);
	return next.epoll_wait(epoll, events, max, timeout_ms);
}

static int real_epoll_pwait(int epoll, struct epoll_event *events, int max,
			    int timeout_ms, const sigset_t *mask)
{
	if (!next.epoll_pwait)
		return raw_pwait(epoll, events, max, timeout_ms, mask);
	return next.epoll_pwait(epoll, events, max, timeout_ms, mask);
}

static int real_epoll_pwait2(int epoll, struct epoll_event *events, int max,
			     const struct timespec *timeout,
			     const sigset_t *mask)
{
	if (!next.epoll_pwait2)
		return (int)uaio_host_error(
			uaio_sys6(SYS_epoll_pwait2, epoll, (long)events, max,
				  (long)timeout, (long)mask, MASK_BYTES));
	return next.epoll_pwait2(epoll, events, max, timeout, mask);
}

/*
 * ppoll() by the system call writes the remaining time to its timeout. So pass a copy.
 */
static int real_ppoll(struct pollfd *pfds, nfds_t nr,
		      const struct timespec *timeout, const sigset_t *mask)
{
	struct timespec left = { 0 };

	if (next.ppoll)
		return next.ppoll(pfds, nr, timeout, mask);
	if (timeout)
		left = *timeout;
	return (int)uaio_host_error(uaio_sys6(SYS_ppoll, (long)pfds, (long)nr,
					      (long)(timeout ? &left : NULL),
					      (long)mask, MASK_BYTES, 0));
}

static int real_poll(struct pollfd *pfds, nfds_t nr, int timeout_ms)
{
	const struct timespec timeout = {
		.tv_sec = timeout_ms / 1000,
		.tv_nsec = timeout_ms % 1000 * 1000000l,
	};

	if (next.poll)
		return next.poll(pfds, nr, timeout_ms);
	return real_ppoll(pfds, nr, timeout_ms < 0 ? NULL : &timeout, NULL);
}

/*
 * Sleeping in ppoll(), while the thread serves queues
 */

static int64_t deadline_of_ms(int timeout_ms)
{
	return timeout_ms < 0 ? UAIO_FOREVER
			      : uaio_now_ns() + timeout_ms * 1000000ll;
}

/* The caller has checked is_worth(timeout). */
static int64_t deadline_of(const struct timespec *timeout)
{
	enum { MAX_S = 1000000000 };

	if (!timeout || timeout->tv_sec > MAX_S)
		return UAIO_FOREVER;
	return uaio_now_ns() + timeout->tv_sec * 1000000000ll +
	       timeout->tv_nsec;
}

/*
 * Return: whether a call with this timeout may sleep: the timeout is valid and not 0.
 */
static bool is_worth(const struct timespec *timeout)
{
	return !timeout || (uaio_host_can_read(timeout, sizeof(*timeout)) &&
			    timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 &&
			    timeout->tv_nsec < 1000000000 &&
			    timeout->tv_sec + timeout->tv_nsec > 0);
}

enum slept {
	/* no sleep: the thread has no queue to serve, or ppoll() failed */
	SLEPT_NOT,
	/* a descriptor of the program is ready, but no queue */
	SLEPT,
	/* a queue was ready, and the thread has executed its requests */
	SLEPT_SERVED,
	/* the timeout has expired */
	SLEPT_LONG,
	/* a signal interrupted the sleep: errno is EINTR */
	SLEPT_ERROR
};

/*
 * Return: one bit for each descriptor; set: it is ready. Set *ret_is_gone if a
 * descriptor is not open.
 */
static uint32_t ready_of(const struct pollfd *pfds, unsigned nr,
			 bool *ret_is_gone)
{
	uint32_t ready = 0;

	for (unsigned i = 0; i < nr; i++) {
		ready |= (uint32_t)(pfds[i].revents != 0) << i;
		*ret_is_gone |= pfds[i].revents & POLLNVAL;
	}
	return ready;
}

static int sleep_in_poll(struct pollfd *pfds, unsigned nr, int64_t deadline_ns,
			 const sigset_t *mask)
{
	struct timespec left;
	int ret, type;

	(void)uaio_set_cancel_type(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	ret = uaio_sleep_poll(pfds, nr, uaio_time_until(deadline_ns, &left),
			      mask, MASK_BYTES);
	(void)uaio_set_cancel_type(type, NULL);
	return ret;
}

/* Cleanup handler, called on cancellation and, only with glibc, on a siglongjmp(). */
static void end_sleep(void *arg)
{
	(void)arg;
	uaio_attend_awake();
}

/*
 * Sleep as a cancellation point. If the thread is cancelled, end_sleep() must run
 * before the program's cleanup handlers: these may wait for completions of queues that
 * only the sleeping thread serves. But end_sleep() is not pushed if the library does
 * not defer signal handlers. Then a handler could leave the sleep by siglongjmp(), and
 * with musl nothing would pop end_sleep().
 */
static int sleep_cancellable(struct pollfd *pfds, unsigned nr,
			     int64_t deadline_ns, const sigset_t *mask)
{
	struct uaio_other_cleanup buffer;
	int ret;

	if (!uaio_sleep_ends_for_handlers() || !uaio_other_cleanup_push)
		return sleep_in_poll(pfds, nr, deadline_ns, mask);
	uaio_other_cleanup_push(&buffer, end_sleep, NULL);
	ret = sleep_in_poll(pfds, nr, deadline_ns, mask);
	uaio_other_cleanup_pop(&buffer, 0);
	return ret;
}

/*
 * Sleep until one of the first nr pfds is ready, or one of the queues that the thread
 * leads (serves in its sleep). After the first nr entries, pfds has room for the
 * descriptors of these queues, UAIO_ATTENDED_MAX entries.
 */
static enum slept sleep_attending(struct pollfd *pfds, nfds_t nr,
				  int64_t deadline_ns, const sigset_t *mask)
{
	struct uaio_attend attend;
	bool is_gone = false;
	uint32_t ready = 0;
	int ret;

	if (!uaio_attend_begin(&attend))
		return SLEPT_NOT;
	for (unsigned i = 0; i < attend.nr; i++)
		pfds[nr + i] = (struct pollfd){ .fd = attend.fds[i],
						.events = POLLIN };
	ret = sleep_cancellable(pfds, (unsigned)nr + attend.nr, deadline_ns,
				mask);
	if (ret > 0)
		ready = ready_of(&pfds[nr], attend.nr, &is_gone);
	uaio_attend_end(&attend, ready);
	if (ret == 0)
		return SLEPT_LONG;
	/* is_gone: a queue's descriptor is not open, so let the program's call sleep. */
	if (ret > 0)
		return is_gone ? SLEPT_NOT : ready ? SLEPT_SERVED : SLEPT;
	/* On any other error than EINTR, the program's own call reports the error. */
	if (ret != -EINTR)
		return SLEPT_NOT;
	errno = EINTR;
	return SLEPT_ERROR;
}

static int ms_left_of(int64_t deadline_ns)
{
	enum { MS = 1000000 };
	int64_t left;

	if (deadline_ns == UAIO_FOREVER)
		return -1;
	left = deadline_ns - uaio_now_ns();
	return left <= 0 ? 0 : (int)((left + MS - 1) / MS);
}

/*
 * `can`: the program's call may sleep, and the thread can sleep in ppoll() instead.
 * Return: whether the thread leads queues (serves them) while it sleeps.
 */
static bool attends(bool can)
{
	if (!can)
		uaio_attend_awake();
	return can && uaio_attend_may();
}

/*
 * Each exported function handles the common case itself, and calls a noinline function
 * for all other cases. So in most programs the interposed call costs only two loads and a
 * jump.
 */
#define SLOWLY static __attribute__((noinline))

/*
 * epoll_wait() and similar functions
 */

/* Return: whether epoll_wait() need only call the C library's epoll_wait(). */
static inline bool is_plain_epoll(void)
{
	return likely(!uaio_uring_has_due_bells()) &&
	       likely(!uaio_attend_may());
}

/*
 * Return: whether to sleep again, because no descriptor of the program was ready, but
 * only a queue that the thread serves. UNTESTED: the deadline, which matters only if
 * such queues have events again and again.
 */
static bool sleeps_on(enum slept slept, int nr, int64_t deadline_ns)
{
	return (slept == SLEPT || slept == SLEPT_SERVED) && nr == 0 &&
	       (deadline_ns == UAIO_FOREVER || uaio_now_ns() < deadline_ns);
}

/*
 * Sleep, then make the program's call with timeout 0.
 * Return: true, with the call's result in *ret_nr; false if the caller must make the
 * call itself, with the remaining time as timeout.
 */
static bool wait_attending(int epoll, struct epoll_event *events, int max,
			   int64_t deadline_ns, const sigset_t *mask,
			   int *ret_nr)
{
	enum slept slept;

	do {
		struct pollfd pfds[1 + UAIO_ATTENDED_MAX];

		pfds[0] = (struct pollfd){ .fd = epoll, .events = POLLIN };
		slept = sleep_attending(pfds, 1, deadline_ns, mask);
		if (slept == SLEPT_NOT)
			return false;
		*ret_nr = slept == SLEPT_ERROR
				  ? -1
				  : real_epoll_wait(epoll, events, max, 0);
	} while (sleeps_on(slept, *ret_nr, deadline_ns));
	return true;
}

SLOWLY int epoll_wait_slowly(int epoll, struct epoll_event *events, int max,
			     int timeout_ms)
{
	int64_t deadline_ns;
	int nr;

	uaio_uring_bells_settle();
	if (!attends(epoll >= 0 && max > 0 && timeout_ms != 0))
		return real_epoll_wait(epoll, events, max, timeout_ms);
	deadline_ns = deadline_of_ms(timeout_ms);
	if (wait_attending(epoll, events, max, deadline_ns, NULL, &nr))
		return nr;
	return real_epoll_wait(epoll, events, max, ms_left_of(deadline_ns));
}

int epoll_wait(int epoll, struct epoll_event *events, int max, int timeout_ms)
{
	if (is_plain_epoll() && likely(next.epoll_wait))
		return next.epoll_wait(epoll, events, max, timeout_ms);
	return epoll_wait_slowly(epoll, events, max, timeout_ms);
}

SLOWLY int epoll_pwait_slowly(int epoll, struct epoll_event *events, int max,
			      int timeout_ms, const sigset_t *mask)
{
	int64_t deadline_ns;
	int nr;

	uaio_uring_bells_settle();
	if (!attends(epoll >= 0 && max > 0 && timeout_ms != 0))
		return real_epoll_pwait(epoll, events, max, timeout_ms, mask);
	deadline_ns = deadline_of_ms(timeout_ms);
	if (wait_attending(epoll, events, max, deadline_ns, mask, &nr))
		return nr;
	return real_epoll_pwait(epoll, events, max, ms_left_of(deadline_ns),
				mask);
}

int epoll_pwait(int epoll, struct epoll_event *events, int max, int timeout_ms,
		const sigset_t *mask)
{
	if (is_plain_epoll() && likely(next.epoll_pwait))
		return next.epoll_pwait(epoll, events, max, timeout_ms, mask);
	return epoll_pwait_slowly(epoll, events, max, timeout_ms, mask);
}

SLOWLY int epoll_pwait2_slowly(int epoll, struct epoll_event *events, int max,
			       const struct timespec *timeout,
			       const sigset_t *mask)
{
	struct timespec left;
	int64_t deadline_ns;
	int nr;

	uaio_uring_bells_settle();
	if (!attends(uaio_attend_may() && epoll >= 0 && max > 0 &&
		     is_worth(timeout)))
		return real_epoll_pwait2(epoll, events, max, timeout, mask);
	deadline_ns = deadline_of(timeout);
	if (wait_attending(epoll, events, max, deadline_ns, mask, &nr))
		return nr;
	return real_epoll_pwait2(epoll, events, max,
				 uaio_time_until(deadline_ns, &left), mask);
}

int epoll_pwait2(int epoll, struct epoll_event *events, int max,
		 const struct timespec *timeout, const sigset_t *mask)
{
	if (is_plain_epoll() && likely(next.epoll_pwait2))
		return next.epoll_pwait2(epoll, events, max, timeout, mask);
	return epoll_pwait2_slowly(epoll, events, max, timeout, mask);
}

/*
 * poll() and ppoll()
 */

/* Like wait_attending(), for poll() and ppoll(). */
static bool poll_attending(struct pollfd *pfds, nfds_t nr, int64_t deadline_ns,
			   const sigset_t *mask, int *ret_nr)
{
	struct pollfd copies[SLOTS_MAX + UAIO_ATTENDED_MAX];
	enum slept slept;

	if (!uaio_host_can_read(pfds, nr * sizeof(*pfds)))
		return false;
	/* Read pfds only one time: other threads may change them meanwhile. */
	memcpy(copies, pfds, nr * sizeof(*pfds));
	do {
		slept = sleep_attending(copies, nr, deadline_ns, mask);
		if (slept == SLEPT_NOT)
			return false;
		*ret_nr = slept == SLEPT_ERROR ? -1 : real_poll(pfds, nr, 0);
		if (slept == SLEPT && *ret_nr >= 0)
			*ret_nr = uaio_host_add_polled(pfds, nr, copies);
	} while (sleeps_on(slept, *ret_nr, deadline_ns));
	return true;
}

static int poll_them(struct pollfd *pfds, nfds_t nr, int timeout_ms)
{
	int64_t deadline_ns;
	int ret;

	if (!attends(nr > 0 && nr <= SLOTS_MAX && timeout_ms != 0))
		return real_poll(pfds, nr, timeout_ms);
	deadline_ns = deadline_of_ms(timeout_ms);
	if (poll_attending(pfds, nr, deadline_ns, NULL, &ret))
		return ret;
	return real_poll(pfds, nr, ms_left_of(deadline_ns));
}

/* poll() with rings of the library among the descriptors. */
SLOWLY int poll_rings(struct pollfd *pfds, nfds_t nr, int timeout_ms)
{
	struct uaio_host_polled polled;
	int ret;

	uaio_host_copy_polled(pfds, nr, &polled);
	ret = poll_them(polled.pfds, nr, timeout_ms);
	uaio_host_answer_polled(pfds, nr, ret, &polled);
	return ret;
}

/* Return: whether poll() need only call the C library's poll(). */
static inline bool is_plain_poll(void)
{
	return likely(!uaio_uring_has_rings()) && likely(!uaio_attend_may());
}

/*
 * poll() with timeout 0. The kernel always reports a ring of the library, a memfd, as
 * ready. So if the kernel reports no descriptor, pfds contains no ring. Otherwise
 * reading pfds here causes no fault, because the kernel has just used that memory.
 */
static int poll_now(struct pollfd *pfds, nfds_t nr)
{
	int ret;

	uaio_uring_bells_settle();
	uaio_attend_awake();
	ret = real_poll(pfds, nr, 0);
	return ret > 0 && nr <= UAIO_HOST_POLLED_MAX &&
			       uaio_host_has_rings(pfds, nr)
		       ? poll_rings(pfds, nr, 0)
		       : ret;
}

SLOWLY int poll_slowly(struct pollfd *pfds, nfds_t nr, int timeout_ms)
{
	if (timeout_ms == 0)
		return poll_now(pfds, nr);
	if (uaio_uring_has_rings() && uaio_host_polls_rings(pfds, nr))
		return poll_rings(pfds, nr, timeout_ms);
	return poll_them(pfds, nr, timeout_ms);
}

int poll(struct pollfd *pfds, nfds_t nr, int timeout_ms)
{
	if (is_plain_poll() && likely(next.poll))
		return next.poll(pfds, nr, timeout_ms);
	return poll_slowly(pfds, nr, timeout_ms);
}

static int ppoll_them(struct pollfd *pfds, nfds_t nr,
		      const struct timespec *timeout, const sigset_t *mask)
{
	struct timespec left;
	int64_t deadline_ns;
	int ret;

	if (!attends(uaio_attend_may() && nr > 0 && nr <= SLOTS_MAX &&
		     is_worth(timeout)))
		return real_ppoll(pfds, nr, timeout, mask);
	deadline_ns = deadline_of(timeout);
	if (poll_attending(pfds, nr, deadline_ns, mask, &ret))
		return ret;
	return real_ppoll(pfds, nr, uaio_time_until(deadline_ns, &left), mask);
}

SLOWLY int ppoll_rings(struct pollfd *pfds, nfds_t nr,
		       const struct timespec *timeout, const sigset_t *mask)
{
	struct uaio_host_polled polled;
	int ret;

	uaio_host_copy_polled(pfds, nr, &polled);
	ret = ppoll_them(polled.pfds, nr, timeout, mask);
	uaio_host_answer_polled(pfds, nr, ret, &polled);
	return ret;
}

SLOWLY int ppoll_slowly(struct pollfd *pfds, nfds_t nr,
			const struct timespec *timeout, const sigset_t *mask)
{
	if (uaio_uring_has_rings() && uaio_host_polls_rings(pfds, nr))
		return ppoll_rings(pfds, nr, timeout, mask);
	return ppoll_them(pfds, nr, timeout, mask);
}

int ppoll(struct pollfd *pfds, nfds_t nr, const struct timespec *timeout,
	  const sigset_t *mask)
{
	if (is_plain_poll() && likely(next.ppoll))
		return next.ppoll(pfds, nr, timeout, mask);
	return ppoll_slowly(pfds, nr, timeout, mask);
}

/*
 * Called by a program built with _FORTIFY_SOURCE. Aborts it if its array is too small.
 */

int __poll_chk(struct pollfd *pfds, nfds_t nr, int timeout_ms, size_t bytes)
{
	if (unlikely(bytes / sizeof(*pfds) < nr) && UAIO_HOST_NEXT(__poll_chk))
		return next.__poll_chk(pfds, nr, timeout_ms, bytes);
	return poll(pfds, nr, timeout_ms);
}

int __ppoll_chk(struct pollfd *pfds, nfds_t nr, const struct timespec *timeout,
		const sigset_t *mask, size_t bytes)
{
	if (unlikely(bytes / sizeof(*pfds) < nr) && UAIO_HOST_NEXT(__ppoll_chk))
		return next.__ppoll_chk(pfds, nr, timeout, mask, bytes);
	return ppoll(pfds, nr, timeout, mask);
}
