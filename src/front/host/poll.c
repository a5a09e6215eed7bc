/* SPDX-License-Identifier: MIT */
/*
 * Calls in which a client sleeps until its descriptors are ready
 *
 * A thread that has parked requests with an eventfd attends to their context
 * while it sleeps (engine/attend.h): it waits for what the call is about and for
 * that at once, by ppoll(), and then makes the call itself, which does not wait
 * any more. So whatever the call does to what it is about, and whoever else is
 * at it, is as it would have been. Any other thread pays one load.
 *
 * The sleep is the C library's own, which is a cancellation point.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/check.h"
#include "base/sleep.h"
#include "base/symver.h"
#include "base/sys.h"
#include "base/uaddr.h"
#include "engine/attend.h"
#include "front/host/host.h"

/* As <sys/epoll.h> and <poll.h> have them, whatever those declare inline. */
UAIO_EXPORT int epoll_wait(int epoll, struct epoll_event *events, int max,
			   int timeout_ms);
UAIO_EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int max,
			    int timeout_ms, const sigset_t *mask);
UAIO_EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int max,
			     const struct timespec *timeout,
			     const sigset_t *mask);
UAIO_EXPORT int poll(struct pollfd *slots, nfds_t nr, int timeout_ms);
UAIO_EXPORT int ppoll(struct pollfd *slots, nfds_t nr,
		      const struct timespec *timeout, const sigset_t *mask);

enum {
	MASK_BYTES = 8,
	/* Of a call of poll(); one with more is left alone. */
	SLOTS_MAX = 64,
};

/* The next in line, usually the C library's; NULL until loaded. */
static struct {
	int (*epoll_wait)(int, struct epoll_event *, int, int);
	int (*epoll_pwait)(int, struct epoll_event *, int, int,
			   const sigset_t *);
	int (*epoll_pwait2)(int, struct epoll_event *, int,
			    const struct timespec *, const sigset_t *);
	int (*poll)(struct pollfd *, nfds_t, int);
	int (*ppoll)(struct pollfd *, nfds_t, const struct timespec *,
		     const sigset_t *);
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
 * The calls as they are
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

/* The system call writes what is left of the timeout, the function does not. */
static int real_ppoll(struct pollfd *slots, nfds_t nr,
		      const struct timespec *timeout, const sigset_t *mask)
{
	struct timespec left = { 0 };

	if (next.ppoll)
		return next.ppoll(slots, nr, timeout, mask);
	if (timeout)
		left = *timeout;
	return (int)uaio_host_error(uaio_sys6(SYS_ppoll, (long)slots, (long)nr,
					      (long)(timeout ? &left : NULL),
					      (long)mask, MASK_BYTES, 0));
}

static int real_poll(struct pollfd *slots, nfds_t nr, int timeout_ms)
{
	const struct timespec timeout = {
		.tv_sec = timeout_ms / 1000,
		.tv_nsec = timeout_ms % 1000 * 1000000l,
	};

	if (next.poll)
		return next.poll(slots, nr, timeout_ms);
	return real_ppoll(slots, nr, timeout_ms < 0 ? NULL : &timeout, NULL);
}

/*
 * Sleeping
 */

static int64_t deadline_of_ms(int timeout_ms)
{
	return timeout_ms < 0 ? UAIO_FOREVER
			      : uaio_now_ns() + timeout_ms * 1000000ll;
}

/* Of a time that is_worth() a sleep. */
static int64_t deadline_of(const struct timespec *timeout)
{
	enum { MAX_S = 1000000000 };

	if (!timeout || timeout->tv_sec > MAX_S)
		return UAIO_FOREVER;
	return uaio_now_ns() + timeout->tv_sec * 1000000000ll +
	       timeout->tv_nsec;
}

/*
 * What is at an address of the client's is looked at only if it can be read: what
 * is wrong with it is the call's to tell.
 */
static bool can_read(const void *addr, size_t bytes)
{
	return uaio_is_accessible((uintptr_t)addr, bytes) &&
	       uaio_can_read((uintptr_t)addr, bytes);
}

/* Return: whether the call may sleep for that long; it says what is wrong. */
static bool is_worth(const struct timespec *timeout)
{
	return !timeout ||
	       (can_read(timeout, sizeof(*timeout)) && timeout->tv_sec >= 0 &&
		timeout->tv_nsec >= 0 && timeout->tv_nsec < 1000000000 &&
		timeout->tv_sec + timeout->tv_nsec > 0);
}

/* Return: what is left of the time, in ret_left; NULL: all. */
static const struct timespec *left_of(int64_t deadline_ns,
				      struct timespec *ret_left)
{
	int64_t left;

	if (deadline_ns == UAIO_FOREVER)
		return NULL;
	left = deadline_ns - uaio_now_ns();
	if (left < 0)
		left = 0;
	ret_left->tv_sec = left / 1000000000;
	ret_left->tv_nsec = left % 1000000000;
	return ret_left;
}

enum slept {
	SLEPT_NOT,  /* there is nothing to attend to */
	SLEPT,      /* the call may have something, or there may be time left */
	SLEPT_LONG, /* the time is over */
	SLEPT_ERROR /* errno says it */
};

/* Until one of slots is ready, or may be; there is room for one more. */
static enum slept sleep_attending(struct pollfd *slots, nfds_t nr,
				  int64_t deadline_ns, const sigset_t *mask)
{
	struct uaio_attend attend;
	struct timespec left;
	int saved = errno, error, ret;

	if (!uaio_attend_begin(&attend))
		return SLEPT_NOT;
	slots[nr] = (struct pollfd){ .fd = attend.fd, .events = POLLIN };
	ret = real_ppoll(slots, nr + 1, left_of(deadline_ns, &left), mask);
	error = errno;
	uaio_attend_end(&attend, ret > 0 && slots[nr].revents);
	errno = saved;
	if (ret == 0)
		return SLEPT_LONG;
	/* One who closes what is not his has closed it. */
	if (ret > 0)
		return slots[nr].revents & POLLNVAL ? SLEPT_NOT : SLEPT;
	/* Any other is the call's to tell. */
	errno = error;
	return error == EINTR ? SLEPT_ERROR : SLEPT_NOT;
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
 * epoll
 */

/* Return: false if the call is to be made, for the time that is left. */
static bool wait_attending(int epoll, struct epoll_event *events, int max,
			   int64_t deadline_ns, const sigset_t *mask,
			   int *ret_nr)
{
	enum slept slept;

	do {
		struct pollfd slots[2] = { { .fd = epoll, .events = POLLIN } };

		slept = sleep_attending(slots, 1, deadline_ns, mask);
		if (slept == SLEPT_NOT)
			return false;
		*ret_nr = slept == SLEPT_ERROR
				  ? -1
				  : real_epoll_wait(epoll, events, max, 0);
	} while (slept == SLEPT && *ret_nr == 0);
	return true;
}

int epoll_wait(int epoll, struct epoll_event *events, int max, int timeout_ms)
{
	int64_t deadline_ns;
	int nr;

	if (likely(!uaio_attend_may()) || epoll < 0 || max <= 0 ||
	    timeout_ms == 0)
		return real_epoll_wait(epoll, events, max, timeout_ms);
	deadline_ns = deadline_of_ms(timeout_ms);
	if (wait_attending(epoll, events, max, deadline_ns, NULL, &nr))
		return nr;
	return real_epoll_wait(epoll, events, max, ms_left_of(deadline_ns));
}

int epoll_pwait(int epoll, struct epoll_event *events, int max, int timeout_ms,
		const sigset_t *mask)
{
	int64_t deadline_ns;
	int nr;

	if (likely(!uaio_attend_may()) || epoll < 0 || max <= 0 ||
	    timeout_ms == 0)
		return real_epoll_pwait(epoll, events, max, timeout_ms, mask);
	deadline_ns = deadline_of_ms(timeout_ms);
	if (wait_attending(epoll, events, max, deadline_ns, mask, &nr))
		return nr;
	return real_epoll_pwait(epoll, events, max, ms_left_of(deadline_ns),
				mask);
}

int epoll_pwait2(int epoll, struct epoll_event *events, int max,
		 const struct timespec *timeout, const sigset_t *mask)
{
	struct timespec left;
	int64_t deadline_ns;
	int nr;

	if (likely(!uaio_attend_may()) || epoll < 0 || max <= 0 ||
	    !is_worth(timeout))
		return real_epoll_pwait2(epoll, events, max, timeout, mask);
	deadline_ns = deadline_of(timeout);
	if (wait_attending(epoll, events, max, deadline_ns, mask, &nr))
		return nr;
	return real_epoll_pwait2(epoll, events, max,
				 left_of(deadline_ns, &left), mask);
}

/*
 * poll
 */

/* As wait_attending(). */
static bool poll_attending(struct pollfd *slots, nfds_t nr, int64_t deadline_ns,
			   const sigset_t *mask, int *ret_nr)
{
	struct pollfd copies[SLOTS_MAX + 1];
	enum slept slept;

	if (!can_read(slots, nr * sizeof(*slots)))
		return false;
	/* Once, as the call does: they may go away while it sleeps. */
	memcpy(copies, slots, nr * sizeof(*slots));
	do {
		slept = sleep_attending(copies, nr, deadline_ns, mask);
		if (slept == SLEPT_NOT)
			return false;
		*ret_nr = slept == SLEPT_ERROR ? -1 : real_poll(slots, nr, 0);
	} while (slept == SLEPT && *ret_nr == 0);
	return true;
}

int poll(struct pollfd *slots, nfds_t nr, int timeout_ms)
{
	int64_t deadline_ns;
	int ret;

	if (likely(!uaio_attend_may()) || nr == 0 || nr > SLOTS_MAX ||
	    timeout_ms == 0)
		return real_poll(slots, nr, timeout_ms);
	deadline_ns = deadline_of_ms(timeout_ms);
	if (poll_attending(slots, nr, deadline_ns, NULL, &ret))
		return ret;
	return real_poll(slots, nr, ms_left_of(deadline_ns));
}

int ppoll(struct pollfd *slots, nfds_t nr, const struct timespec *timeout,
	  const sigset_t *mask)
{
	struct timespec left;
	int64_t deadline_ns;
	int ret;

	if (likely(!uaio_attend_may()) || nr == 0 || nr > SLOTS_MAX ||
	    !is_worth(timeout))
		return real_ppoll(slots, nr, timeout, mask);
	deadline_ns = deadline_of(timeout);
	if (poll_attending(slots, nr, deadline_ns, mask, &ret))
		return ret;
	return real_ppoll(slots, nr, left_of(deadline_ns, &left), mask);
}
