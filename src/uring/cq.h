/* SPDX-License-Identifier: MIT */
/*
 * The sink: completions go into the ring's memory
 *
 *   I1  What finds no room there goes to a list, in order, and is put into the ring
 *       by the next call that asks for completions: nothing is lost, unless memory is
 *       refused. While something is on the list, all that comes goes there.
 *   I2  The client may write any head. So the ring may be taken to have room or to be
 *       full at the wrong time, which hurts the client and nobody else.
 *   I3  In a ring with IORING_SETUP_CQE_MIXED a completion may take two places, one
 *       behind the other. One that would go around the end of the ring comes after one
 *       that is none (IORING_CQE_F_SKIP).
 *
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
 *   I4  progress changes under the queue's lock, before the client is shown the same
 *       tail. So a timeout whose completion a client has seen ends no wait that this
 *       client begins then.
 *   I5  Without the lock progress may be ahead of what the client is shown. A
 *       thread that waits for no more because of it has the client shown as much
 *       before it returns.
 *   I6  A ring that is full meets every need, whatever its client has written.
 *
 * Tested by test-uring.c, test-uring-need.c, test-uring-layout.c and test-uring-resize.c.
 */
#ifndef UAIO_URING_CQ_H
#define UAIO_URING_CQ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "uring/ring.h"

struct uaio_sink;
struct uaio_uring_note;

extern const struct uaio_sink uaio_uring_sink;

void uaio_uring_cq_init(void);
static inline uint32_t uaio_uring_tail(const struct uaio_uring *ring)
{
	/* relaxed: under the lock, or a guess */
	return (uint32_t)load_relaxed(&ring->progress);
}

/* Return: how many completions are not taken, if the client's head is no wrong one. */
static inline uint32_t uaio_uring_unread_at_most(const struct uaio_uring *ring)
{
	/* relaxed: the client orders what it reads; a guess is enough here */
	return uaio_uring_tail(ring) - load_relaxed(&ring->mem.rings->cq_head);
}

/* Return: how many completions the client has not taken. */
static inline uint32_t uaio_uring_unread(const struct uaio_uring *ring)
{
	uint32_t nr = uaio_uring_unread_at_most(ring);
	/* relaxed: a guess while another thread resizes the ring */
	uint32_t nr_entries = load_relaxed(&ring->cq_entries);

	return nr < nr_entries ? nr : nr_entries;
}

/* Put what has overflowed into the ring, as far as there is room. */
void uaio_uring_flush_overflow(struct uaio_uring *ring);
/*
 * For setup.c, under the queue's lock: whether all completions that are there can be
 * put into a ring of another size, in which none may go around the end.
 */
bool uaio_uring_may_move_cqes(const struct uaio_uring *ring, uint32_t new_mask);
/* The ring is freed: drop what has overflowed. */
void uaio_uring_drop_overflow(struct uaio_uring *ring);

/*
 * Post a completion that belongs to no request of the core. It has to be counted in
 * nr_taken.
 */
void uaio_uring_answer(struct uaio_uring *ring, uint64_t user_data,
		       int32_t res);
/* The same with what the note says of it, which ends. */
void uaio_uring_answer_by(struct uaio_uring *ring, struct uaio_uring_note *note,
			  uint64_t user_data, int32_t res);

/*
 * Post a completion that nothing owes: a message. The ring is used (ring.h, I4).
 * Return: 0; -EOVERFLOW: it is lost, as memory is refused.
 */
int uaio_uring_post_message(struct uaio_uring *ring,
			    const struct io_uring_cqe *cqe);

/*
 * What a wait needs
 */

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
	/* relaxed, both: ordered by the client's look (I4); its own head */
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

#endif /* UAIO_URING_CQ_H */
