/* SPDX-License-Identifier: MIT */
/*
 * Sleeping, waking and reading the clock: only this code lets a thread sleep on a word
 * (a futex), or wakes such threads
 *
 * Every sleep has a deadline; UAIO_FOREVER is centuries away. The deadline makes a
 * futex wait return -EINTR after every signal handler: without it, the kernel would
 * restart the wait after a handler with SA_RESTART.
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
 * Set *ret_left to the time until the deadline, or to 0 if it has passed.
 * Return: ret_left; NULL for UAIO_FOREVER. A system call with NULL sets no timer, which
 * saves 0.2 us for each sleep. But without a timer the kernel may restart the call
 * after a signal handler. So a caller passes UAIO_FOREVER only for a system call that
 * any signal handler ends.
 */
const struct timespec *uaio_time_until(int64_t deadline_ns,
				       struct timespec *ret_left);

/*
 * Sleep while *word has the value `expected`, until the thread is woken or the time of
 * CLOCK_MONOTONIC is deadline_ns. The function may return early without a reason, so
 * callers check their condition again.
 *
 * Return: 0 if the thread was woken, or if *word is not `expected`; -EINTR if a signal
 * handler ran; -ETIMEDOUT at the deadline.
 */
int uaio_sleep(uint32_t *word, uint32_t expected, int64_t deadline_ns);

/*
 * Wake up to nr threads that sleep on `word`. The function does not read the memory at
 * `word`: another thread may already have freed it.
 */
void uaio_wake(uint32_t *word, unsigned nr);

/* vdso.c: finds the function that reads the clock without a system call */

/*
 * Return: the function with this name in an ELF object that the kernel has mapped at
 * `image`; NULL if `image` is NULL or has no such function.
 */
void *uaio_vdso_find(const void *image, const char *name);

#endif /* UAIO_BASE_SLEEP_H */
