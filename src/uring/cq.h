/* SPDX-License-Identifier: MIT */
/*
 * The sink (sink.h) of io_uring: posts completions to the ring's memory, and decides
 * when a wait ends
 *
 *   I1  A completion that finds no room in the ring goes to an overflow list, in order.
 *       The next call that waits for completions moves the list into the ring. While
 *       the list is not empty, all new completions go there. So no completion is lost,
 *       unless memory is refused.
 *   I2  The client can write any value to the head. So the ring may wrongly look full
 *       or empty, which harms only this client.
 *   I3  With IORING_SETUP_CQE_MIXED a completion may take two adjacent slots. If the
 *       two slots would wrap around the end of the ring, a filler (IORING_CQE_F_SKIP)
 *       takes the last slot.
 *
 * When a wait ends
 *
 * As in the kernel, a wait for n completions ends when the tail reaches a value that is
 * fixed when the wait begins. Completions that other threads consume meanwhile count,
 * too. A wait also ends when an unlinked timeout completes, by its time or by its
 * count.
 *
 * `progress` of a ring is one word: the lower half is the tail, the upper half the
 * number of unlinked timeouts that have completed. The `need` of a wait has the same
 * layout: the tail to reach, and the number of timeouts when the wait began.
 *
 *   I4  progress changes under the queue's lock, before the client is shown the new
 *       tail. So if a client has seen the completion of a timeout and then begins to
 *       wait, that timeout does not end the wait.
 *   I5  A thread without the lock may find progress ahead of the tail that the client
 *       is shown. If its wait ends by this progress, the thread returns only after the
 *       poster has shown the tail.
 *   I6  A ring that looks full ends every wait, even if it looks full only because the
 *       client has written a wrong head.
 *
 * Tested by test-uring.c, test-uring-need.c, test-uring-layout.c and
 * test-uring-resize.c.
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
	/* relaxed: a caller without the queue's lock needs only a guess */
	return (uint32_t)load_relaxed(&ring->progress);
}

/*
 * Return: how many completions the client has not consumed. If the client has written a
 * wrong head, the result may be any number.
 */
static inline uint32_t uaio_uring_unread_at_most(const struct uaio_uring *ring)
{
	/* relaxed: only a guess, as the client may advance the head at any time */
	return uaio_uring_tail(ring) - load_relaxed(&ring->mem.rings->cq_head);
}

/*
 * Return: how many completions the client has not consumed; at most the ring's size.
 */
static inline uint32_t uaio_uring_unread(const struct uaio_uring *ring)
{
	uint32_t nr = uaio_uring_unread_at_most(ring);
	/*
	 * relaxed: while another thread resizes the ring, the old or the new size will
	 * do
	 */
	uint32_t nr_entries = load_relaxed(&ring->cq_entries);

	return nr < nr_entries ? nr : nr_entries;
}

/* Move overflowed completions into the ring, as far as there is room. */
void uaio_uring_flush_overflow(struct uaio_uring *ring);
/*
 * Return: whether the unread completions can move to a ring of another size: no 32-byte
 * completion would wrap around the end of that ring. For setup.c, under the queue's
 * lock.
 */
bool uaio_uring_may_move_cqes(const struct uaio_uring *ring, uint32_t new_mask);
/* Drop overflowed completions, because the ring is freed. */
void uaio_uring_drop_overflow(struct uaio_uring *ring);

/*
 * Post a completion for which the core has no request. nr_taken (ring.h, I5) counts the
 * completion.
 */
void uaio_uring_answer(struct uaio_uring *ring, uint64_t user_data,
		       int32_t res);
/*
 * Like uaio_uring_answer(), but the note holds the completion's flags and, for a
 * 32-byte completion, its second half. Frees the note.
 */
void uaio_uring_answer_by(struct uaio_uring *ring, struct uaio_uring_note *note,
			  uint64_t user_data, int32_t res);

/*
 * Post a message from another ring (msg_ring.c). nr_taken does not count this message.
 * The caller uses the ring (ring.h, I4).
 * Return: 0; -EOVERFLOW: the message is lost, because memory is refused.
 */
int uaio_uring_post_message(struct uaio_uring *ring,
			    const struct io_uring_cqe *cqe);

/*
 * `need` of a wait: which tail, or which number of completed timeouts, ends the wait
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

/*
 * Return: the need of a wait that begins now, and ends when nr completions are unread.
 */
static inline uint64_t uaio_uring_need_of(const struct uaio_uring *ring,
					  uint32_t nr)
{
	/*
	 * relaxed, both: another thread of the client may have seen a completion (I4)
	 * or stored the head; the client synchronises that thread with this one
	 */
	uint64_t progress = load_relaxed(&ring->progress);
	uint32_t head = load_relaxed(&ring->mem.rings->cq_head);

	return uaio_uring_progress_of(uaio_uring_timeouts_of(progress),
				      head + nr);
}

/* Return: whether a wait's need is met; a guess without the queue's lock. */
static inline bool uaio_uring_is_met(const struct uaio_uring *ring,
				     uint64_t need)
{
	/* relaxed: a caller without the queue's lock needs only a guess */
	uint64_t progress = load_relaxed(&ring->progress);

	return uaio_uring_timeouts_of(progress) !=
		       uaio_uring_timeouts_of(need) ||
	       (int32_t)((uint32_t)progress - (uint32_t)need) >= 0 ||
	       uaio_uring_unread(ring) == load_relaxed(&ring->cq_entries);
}

#endif /* UAIO_URING_CQ_H */
