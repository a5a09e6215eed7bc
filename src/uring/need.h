/* SPDX-License-Identifier: MIT */
/*
 * What a thread that waits for completions needs
 *
 * As in the kernel, a wait for so many of them ends when the tail is as far as it has
 * to come, which is fixed when the wait begins: what other threads take meanwhile
 * does not matter. It also ends when a timeout ends that is not linked, by its time or
 * by its count.
 *
 * A ring's progress is its tail, and above that, in the same word, how many such
 * timeouts have ended. A need is the same: the tail that is waited for, and above it
 * how many had ended when the wait began.
 *
 *   I1  progress changes under the queue's lock, before the client is shown the same
 *       tail. So a timeout whose completion a client has seen ends no wait that this
 *       client begins then.
 *   I2  Without the lock progress may be ahead of what the client is shown. A
 *       thread that waits for no more because of it has the client shown as much
 *       before it returns.
 *   I3  A ring that is full meets every need, whatever its client has written.
 *
 * Tested by test-uring-need.c.
 */
#ifndef UAIO_URING_NEED_H
#define UAIO_URING_NEED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "uring/ring.h"

enum { UAIO_URING_TIMEOUTS_SHIFT = 32 };

static inline uint64_t uaio_uring_progress_of(uint32_t nr_timeouts,
					      uint32_t tail)
{
	return (uint64_t)nr_timeouts << UAIO_URING_TIMEOUTS_SHIFT | tail;
}

static inline uint32_t uaio_uring_timeouts_of(uint64_t progress)
{
	return (uint32_t)(progress >> UAIO_URING_TIMEOUTS_SHIFT);
}

/* Return: what a wait needs that begins now, for nr more than are taken. */
static inline uint64_t uaio_uring_need_of(const struct uaio_uring *ring,
					  uint32_t nr)
{
	/* relaxed, both: ordered by the client's look (I1); its own head */
	uint64_t progress = load_relaxed(&ring->progress);
	uint32_t head = load_relaxed(&ring->mem.rings->cq_head);

	return uaio_uring_progress_of(uaio_uring_timeouts_of(progress),
				      head + nr);
}

/* Without the queue's lock this is a guess. */
static inline bool uaio_uring_is_met(const struct uaio_uring *ring,
				     uint64_t need)
{
	/* relaxed: under the lock, or a guess */
	uint64_t progress = load_relaxed(&ring->progress);

	return uaio_uring_timeouts_of(progress) !=
		       uaio_uring_timeouts_of(need) ||
	       (int32_t)((uint32_t)progress - (uint32_t)need) >= 0 ||
	       uaio_uring_unread(ring) == load_relaxed(&ring->cq_entries);
}

#endif /* UAIO_URING_NEED_H */
