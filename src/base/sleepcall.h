/* SPDX-License-Identifier: MIT */
/*
 * System calls in which a thread sleeps, and which a deferred signal handler of the
 * program must end
 *
 * If the library defers a signal handler of the program, the signal must still end the
 * sleep. So each thread has a stop byte, which is not 0 while a deferred handler waits
 * to be run. The thread checks the byte immediately before the system call.
 *
 * Tested by test/trap.
 */
#ifndef UAIO_BASE_SLEEPCALL_H
#define UAIO_BASE_SLEEPCALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/sys.h"

/*
 * Under the trap (trap/trap.h), the program's signal handlers wait until the thread
 * leaves the library. The thread's register gs points to the thread's record, and the
 * stop byte is at this offset in the record. 0: the process is not under the trap. The
 * offset is set before the process has a second thread.
 */
extern uint32_t uaio_sleep_stop_at __attribute__((visibility("hidden")));

/*
 * Without the trap, this function of proc/handlers.c returns the stop byte of the calling
 * thread; or NULL if that thread neither sleeps nor is about to sleep. The pointer to
 * the function is set once, before the library first defers a handler.
 */
extern const uint8_t *(*uaio_sleep_stop_of)(void)
	__attribute__((visibility("hidden")));

/*
 * Called by a new thread of the library: clear register gs, which still points to the
 * creator's record.
 */
static inline void uaio_sleep_own(void)
{
#if defined(__x86_64__)
	if (unlikely(uaio_sleep_stop_at))
		__asm__ volatile("wrgsbase %0" : : "r"(0ul));
#endif
}

/*
 * Return: the stop byte of the calling thread; NULL if no deferred handler has to end its
 * sleep.
 */
static inline const uint8_t *uaio_sleep_stop(void)
{
	const uint8_t *(*stop_of)(void) = load_relaxed(&uaio_sleep_stop_of);
	const uint8_t *record = NULL;

	/*
	 * relaxed: a signal handler is deferred only in a thread that has already seen
	 * the pointer set; so a thread that loads NULL has no deferred handler
	 */
	if (unlikely(stop_of != NULL))
		return stop_of();
#if defined(__x86_64__)
	if (unlikely(uaio_sleep_stop_at))
		__asm__("rdgsbase %0" : "=r"(record));
#endif
	return unlikely(record != NULL) ? record + uaio_sleep_stop_at : NULL;
}

/*
 * Return: whether the library defers the program's signal handlers in this process, so
 * that the signal of a deferred handler ends a sleep. The library never defers handlers
 * that the program sets by its own syscall instruction.
 */
static inline bool uaio_sleep_ends_for_handlers(void)
{
	/*
	 * relaxed: the pointer is set before any thread first sleeps in the library
	 */
	return load_relaxed(&uaio_sleep_stop_of) || uaio_sleep_stop_at;
}

long uaio_sleep_call(const uint8_t *stop, long nr, const long args[6])
	__attribute__((visibility("hidden")));
/*
 * Labels in the code of uaio_sleep_call(). A thread between the first two labels does not
 * sleep yet. If the library's signal handler interrupts the thread there, the handler
 * makes the thread go on at the third label, so that the thread does not sleep.
 */
extern const uint8_t uaio_sleep_call_begin[]
	__attribute__((visibility("hidden")));
extern const uint8_t uaio_sleep_call_end[]
	__attribute__((visibility("hidden")));
extern const uint8_t uaio_sleep_call_stopped[]
	__attribute__((visibility("hidden")));

/* Make a system call in which the thread may sleep until a signal comes. */
static inline long uaio_sys_sleeping(long nr, long a, long b, long c, long d,
				     long e, long f)
{
#if defined(__x86_64__)
	const uint8_t *stop = uaio_sleep_stop();
#ifdef UAIO_TESTING
	uaio_sys_hook_fn *hook = uaio_sys_hook;
	long res;

	if (hook && hook(nr, (const long[6]){ a, b, c, d, e, f }, &res))
		return res;
	if (likely(!stop))
		return uaio_sys_raw(nr, a, b, c, d, e, f);
#endif
	if (unlikely(stop != NULL))
		return uaio_sleep_call(stop, nr,
				       (const long[6]){ a, b, c, d, e, f });
#endif
	return uaio_sys6(nr, a, b, c, d, e, f);
}

/*
 * Like sys_epoll_pwait2() and sys_ppoll(), for a thread that may sleep: the signal of a
 * deferred handler ends the sleep.
 */
static inline int uaio_sleep_epoll(int epoll, struct epoll_event *ret_events,
				   int max, const struct timespec *timeout,
				   const void *mask, size_t mask_bytes)
{
	if (likely(!uaio_sleep_stop()))
		return sys_epoll_pwait2(epoll, ret_events, max, timeout, mask,
					mask_bytes);
	if (!uaio_may_call(UAIO_CALL_EPOLL_PWAIT2))
		return -38 /* ENOSYS */;
	return (int)uaio_sys_sleeping(441 /* epoll_pwait2 */, epoll,
				      (long)ret_events, max, (long)timeout,
				      (long)mask, (long)mask_bytes);
}

static inline int uaio_sleep_poll(struct pollfd *fds, unsigned nr,
				  const struct timespec *timeout,
				  const void *mask, size_t mask_bytes)
{
	struct timespec rest;

	if (likely(!uaio_sleep_stop()))
		return sys_ppoll(fds, nr, timeout, mask, mask_bytes);
	if (timeout)
		rest = *timeout;
	return (int)uaio_sys_sleeping(SYS_ppoll, (long)fds, nr,
				      (long)(timeout ? &rest : NULL),
				      (long)mask, (long)mask_bytes, 0);
}

/* Like sys_preadv2() or sys_pwritev2(), for a thread that may sleep. */
static inline ssize_t uaio_sleep_transfer(bool is_write, int fd,
					  const struct iovec *iov, int nr,
					  int64_t off, uint32_t flags)
{
	if (!uaio_may_call(is_write ? UAIO_CALL_PWRITEV2 : UAIO_CALL_PREADV2))
		return -38 /* ENOSYS */;
	return uaio_sys_sleeping(is_write ? SYS_pwritev2 : SYS_preadv2, fd,
				 (long)iov, nr, off, 0, (long)flags);
}

#endif /* UAIO_BASE_SLEEPCALL_H */
