/* SPDX-License-Identifier: MIT */
/*
 * Sleeping and waking: the only code that does either, and the clock
 *
 * A sleep always carries a deadline, UAIO_FOREVER being one a century away: the
 * kernel restarts a futex wait without one after a signal handler installed
 * with SA_RESTART, and we must come back with -EINTR there.
 *
 * Context: any thread.
 */
#ifndef UAIO_BASE_SLEEP_H
#define UAIO_BASE_SLEEP_H

#include <stdint.h>

#define UAIO_FOREVER INT64_MAX

/* Return: nanoseconds of CLOCK_MONOTONIC. */
int64_t uaio_now_ns(void);

/*
 * Sleep while *word is expected, until woken or until the clock shows
 * deadline_ns. A return without cause is possible; callers look again.
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

#endif /* UAIO_BASE_SLEEP_H */
