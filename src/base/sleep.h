/* SPDX-License-Identifier: MIT */
/*
 * Sleeping, waking and the clock: the only code by which a thread sleeps on a word or
 * wakes others
 *
 * Every sleep has a deadline; UAIO_FOREVER is centuries away. After a signal handler
 * with SA_RESTART the kernel would restart a futex wait without a deadline, but the
 * wait must return -EINTR.
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
/* Return: nanoseconds of the given clock. */
int64_t uaio_now_of(int clock);

/*
 * Set *ret_left to the time until the deadline, or to 0 if it has passed. Return:
 * ret_left; NULL for UAIO_FOREVER, which is for calls that a signal handler always
 * ends: a timer, even centuries away, would cost each sleep 0.2 us.
 */
const struct timespec *uaio_time_until(int64_t deadline_ns,
				       struct timespec *ret_left);

/*
 * Sleep while *word has the value expected, until woken or until CLOCK_MONOTONIC shows
 * deadline_ns. The function may return without a reason, so callers check again.
 *
 * Return: 0 if woken or if *word differs; -EINTR if a signal handler ran; -ETIMEDOUT.
 */
int uaio_sleep(uint32_t *word, uint32_t expected, int64_t deadline_ns);

/*
 * Wake up to nr threads that sleep on word. The memory at word is not read: it may
 * belong to a thread that has already gone on and released it.
 */
void uaio_wake(uint32_t *word, unsigned nr);

/* vdso.c: finds the function that reads the clock without a system call */

/*
 * Return: the function called name in an object that the kernel has mapped at image;
 * NULL if image is NULL or has no such function.
 */
void *uaio_vdso_find(const void *image, const char *name);

#endif /* UAIO_BASE_SLEEP_H */
