/* SPDX-License-Identifier: MIT */
/*
 * Threads that wait for one of some requests (aio_suspend), or for a list
 *
 *   I1  A wait has a copy of the addresses of its aiocbs, and is on the door's list
 *       of waits, under the queue's lock. The thread that posts compares addresses,
 *       and reads no aiocb: one that is not complete any more may be gone.
 *   I2  A thread that waits looks at the error codes under that lock before it
 *       sleeps: no completion comes between.
 *   I3  The word that a waiter needs lies in memory that stays what it is (slab.h): a
 *       handler that leaves the sleep by siglongjmp() leaves the wait on the list.
 *       The completion that it waited for takes it off, or the end of its thread,
 *       with which its memory is put back.
 *   I4  A wait for more aiocbs than it has room for is told of each completion.
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

/* Of struct uaio_sink. A need is the address of a word, of a wait with IS_WAIT set. */
enum { UAIO_POSIX_IS_WAIT = 1 };

bool uaio_posix_is_met(const struct uaio_queue *queue, uint64_t need);
void uaio_posix_forget(struct uaio_queue *queue, uint64_t need);

/* A request is complete: tell the waits for it. */
void uaio_posix_waits_tell_slowly_locked(const struct aiocb *aiocb);

/* atomic */
extern uint32_t uaio_posix_nr_waits __attribute__((visibility("hidden")));

static inline void uaio_posix_waits_tell_locked(const struct aiocb *aiocb)
{
	/* relaxed: changes under the lock */
	if (unlikely(load_relaxed(&uaio_posix_nr_waits)))
		uaio_posix_waits_tell_slowly_locked(aiocb);
}

/*
 * Wait until the need is met. The caller has entered, and asked before that whether its
 * thread has another descriptor table (table.h).
 * Return: 0; -EINTR; -ETIMEDOUT; -EAGAIN.
 */
int uaio_posix_wait_need(uint64_t need, const struct uaio_wait *wait);

#endif /* UAIO_POSIX_WAIT_H */
