/* SPDX-License-Identifier: MIT */
/*
 * Sleeping and waking: the only code that does either, and the clock
 *
 * Every sleep has a deadline; UAIO_FOREVER is one that is centuries away. For a
 * futex wait without a deadline would be restarted by the kernel after a signal
 * handler that was installed with SA_RESTART, and we must return -EINTR there.
 *
 * Context: any thread.
 */
#ifndef UAIO_BASE_SLEEP_H
#define UAIO_BASE_SLEEP_H

#include <stdint.h>
#include <time.h>

#define UAIO_FOREVER INT64_MAX

/* Return: nanoseconds of CLOCK_MONOTONIC. */
int64_t uaio_now_ns(void);
/* Return: nanoseconds of that clock. */
int64_t uaio_now_of(int clock);

/*
 * Return: ret_left, how long it is until the deadline, 0 if it is over; NULL if it is
 * UAIO_FOREVER, for calls that a signal handler always ends: a timer that is centuries
 * away costs a sleep 0.2 us all the same.
 */
const struct timespec *uaio_time_until(int64_t deadline_ns,
				       struct timespec *ret_left);

/*
 * Sleep while *word has the value expected, until woken or until the clock
 * shows deadline_ns. It may return without a cause, so callers look again.
 *
 * Return: 0 if woken or *word had changed, -EINTR if a signal handler ran,
 * -ETIMEDOUT.
 */
int uaio_sleep(uint32_t *word, uint32_t expected, int64_t deadline_ns);

/*
 * Wake up to nr threads that sleep on word. The address is not read: it may
 * belong to a thread that has gone on already.
 */
void uaio_wake(uint32_t *word, unsigned nr);

/* vdso.c: what reads the clock without a system call */

/*
 * image: where an object begins that the kernel has mapped; or NULL.
 * Return: the function of that name, or NULL if the object has none.
 */
void *uaio_vdso_find(const void *image, const char *name);

#endif /* UAIO_BASE_SLEEP_H */
