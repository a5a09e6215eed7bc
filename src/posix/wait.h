/* SPDX-License-Identifier: MIT */
/*
 * Threads that wait for one of several requests (aio_suspend), or for a whole list
 * (lio_listio)
 *
 *   I1  A wait (the record of a thread in aio_suspend) has a copy of the list of aiocb
 *       addresses. All waits are on one list, which changes under the queue's lock. The
 *       posting thread compares addresses, and reads no aiocb: if a request is complete,
 *       the client may have freed its aiocb.
 *   I2  A waiting thread reads the error codes under that lock before it sleeps, so it
 *       misses no completion.
 *   I3  The word for which a thread waits is in memory that is never reused for another
 *       type (slab.h). If a handler leaves the sleep by siglongjmp(), the wait stays on the
 *       list. The completion for which the thread waited removes the wait, or the end of
 *       the thread does. The end of the thread also frees the memory.
 *   I4  If a wait has no room for all of its aiocb addresses, its thread is woken by every
 *       completion.
 *
 * Tested by test-posix.c.
 */
#ifndef UAIO_POSIX_WAIT_H
#define UAIO_POSIX_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/atomic.h"
#include "base/check.h"

struct aiocb;
struct uaio_queue;
struct uaio_wait;

void uaio_posix_waits_init(void);

/*
 * Functions of struct uaio_sink. The argument `need` says for what a thread waits: it
 * is the address of a word in memory. If the word is in a struct wait, the need has the
 * bit IS_WAIT.
 */
enum { UAIO_POSIX_IS_WAIT = 1 };

bool uaio_posix_is_met(const struct uaio_queue *queue, uint64_t need);
void uaio_posix_forget(struct uaio_queue *queue, uint64_t need);

/* Called when a request is complete: notify the threads that wait for it. */
void uaio_posix_waits_notify_slowly_locked(const struct aiocb *aiocb);

/* atomic: how many waits are on the list */
extern uint32_t uaio_posix_nr_waits __attribute__((visibility("hidden")));

static inline void uaio_posix_waits_notify_locked(const struct aiocb *aiocb)
{
	/* relaxed: this thread holds the lock under which this count changes */
	if (unlikely(load_relaxed(&uaio_posix_nr_waits)))
		uaio_posix_waits_notify_slowly_locked(aiocb);
}

/*
 * Wait until the need is met (the word at its address is not 0). The caller has entered
 * the library. A caller whose descriptor table is not the library's (table.h) has set
 * wait->sleeps_only.
 * Return: 0; -EINTR; -ETIMEDOUT; -EAGAIN: memory is refused.
 */
int uaio_posix_wait_need(uint64_t need, const struct uaio_wait *wait);

#endif /* UAIO_POSIX_WAIT_H */
