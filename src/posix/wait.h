/* SPDX-License-Identifier: MIT */
/*
 * Threads that wait for one of several requests (aio_suspend), or for a list
 *
 *   I1  A wait (the record of a thread in aio_suspend) has a copy of the list of aiocb
 *       addresses. It is on the list of all waits, which changes under the queue's lock. The
 *       posting thread compares addresses, and reads no aiocb, since a complete one may be
 *       freed.
 *   I2  A waiting thread reads the error codes under that lock before it sleeps, so it misses
 *       no completion.
 *   I3  The word that a waiter needs is in memory that is never reused for another type
 *       (slab.h). If a handler leaves the sleep by siglongjmp(), the wait stays on the list.
 *       It is removed by the completion that it waited for, or when its thread ends; the end
 *       of the thread also frees the memory.
 *   I4  If a wait has no room for all of its aiocb addresses, it is notified of every
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
 * Functions of struct uaio_sink. A waiting thread's need (what it waits for) is the address of
 * a word in memory; if this word is in a wait, the bit IS_WAIT is set.
 */
enum { UAIO_POSIX_IS_WAIT = 1 };

bool uaio_posix_is_met(const struct uaio_queue *queue, uint64_t need);
void uaio_posix_forget(struct uaio_queue *queue, uint64_t need);

/* A request is complete: notify the threads that wait for it. */
void uaio_posix_waits_notify_slowly_locked(const struct aiocb *aiocb);

/* atomic */
extern uint32_t uaio_posix_nr_waits __attribute__((visibility("hidden")));

static inline void uaio_posix_waits_notify_locked(const struct aiocb *aiocb)
{
	/* relaxed: the number changes only under the lock, which is held */
	if (unlikely(load_relaxed(&uaio_posix_nr_waits)))
		uaio_posix_waits_notify_slowly_locked(aiocb);
}

/*
 * Wait until the need is met. The caller has entered, and has set wait->sleeps_only if its
 * thread has another descriptor table (table.h).
 * Return: 0; -EINTR; -ETIMEDOUT; -EAGAIN.
 */
int uaio_posix_wait_need(uint64_t need, const struct uaio_wait *wait);

#endif /* UAIO_POSIX_WAIT_H */
