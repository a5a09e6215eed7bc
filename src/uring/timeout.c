/* SPDX-License-Identifier: MIT */
#include "uring/timeout.h"

#include <errno.h>

#include "base/check.h"
#include "req/sink.h"
#include "flow/cancel.h"
#include "uring/note.h"
#include "uring/ring.h"

void uaio_uring_uncount_locked(struct uaio_uring *ring,
			       struct uaio_uring_note *note)
{
	if (!note->is_counting)
		return;
	note->is_counting = false;
	list_remove(&note->counting);
	/* relaxed: written under the lock */
	store_relaxed(&ring->nr_counting, ring->nr_counting - 1);
}

static bool is_success(const struct uaio_uring_note *note,
		       const struct uaio_completion *completion, int32_t res)
{
	if (unlikely(completion->flags & UAIO_COMPLETION_UNBEGUN))
		return false;
	if (note->forgives && res < 0)
		return res != -ECANCELED;
	if (note->is_timeout)
		return res >= 0 || note->is_linked ||
		       (res == -ETIME && note->succeeds);
	return res >= 0 && (uint32_t)res >= note->expected;
}

/*
 * Return: whether it is a timeout that has come to its end, by its time or its count,
 * and so ends waits (need.h). One that is linked has another purpose.
 */
static bool is_ended(const struct uaio_uring_note *note, int32_t res)
{
	return note->is_timeout && !note->is_linked &&
	       (res == -ETIME || res == 0);
}

/* Return: whether the client does not want to hear of it. */
static bool is_skipped(const struct uaio_uring_note *note,
		       const struct uaio_completion *completion, int32_t res)
{
	if (unlikely(completion->flags & UAIO_COMPLETION_CUT))
		return completion->flags & UAIO_COMPLETION_QUIET;
	/* What it says the client cannot do without. */
	if (completion->flags & UAIO_COMPLETION_MORE)
		return false;
	return note->skips && is_success(note, completion, res);
}

bool uaio_uring_is_told(struct uaio_uring *ring,
			const struct uaio_completion *completion,
			struct io_uring_cqe *cqe, uint32_t *nr_last)
{
	struct uaio_uring_note *note = uaio_uring_note_of(completion->word);
	bool has_more = completion->flags & UAIO_COMPLETION_MORE;
	bool has_ended;

	if (completion->flags & UAIO_COMPLETION_LEAVES)
		cqe->flags |= IORING_CQE_F_SOCK_NONEMPTY;
	if (unlikely(!note))
		return !(completion->flags & UAIO_COMPLETION_QUIET);
	if (note == ring->updating && !has_more) {
		/* It is freed now, and may be another request's next. */
		ring->updating = NULL;
		ring->was_swallowed = cqe->res == -ECANCELED;
		if (ring->was_swallowed) {
			(*nr_last)--;
			return false;
		}
	}
	/* One that its chain has cut has never begun. */
	if (!(completion->flags & UAIO_COMPLETION_CUT))
		cqe->flags |= note->cqe_flags;
	if (has_more)
		note->cqe_flags = 0;
	if (!has_more)
		uaio_uring_uncount_locked(ring, note);
	has_ended = is_ended(note, cqe->res);
	ring->nr_timeouts += has_ended;
	if (is_skipped(note, completion, cqe->res))
		return false;
	/* It is not counted by others of its kind. */
	if (has_ended)
		store_relaxed(&ring->cq_events, ring->cq_events - 1);
	return true;
}

bool uaio_uring_notice_of(const struct uaio_completion *completion,
			  struct io_uring_cqe *cqe)
{
	const struct uaio_uring_note *note =
		uaio_uring_note_of(completion->word);

	if (!note || likely(!note->notifies))
		return false;
	cqe->res =
		note->faults && completion->res == -EFAULT ? 0 : note->notice;
	cqe->flags = IORING_CQE_F_NOTIF;
	return true;
}

void uaio_uring_count(struct uaio_uring *ring, struct uaio_uring_note *note,
		      uint32_t from)
{
	uaio_queue_lock(&ring->queue);
	note->from = from;
	note->is_counting = true;
	list_add_tail(&ring->counting, &note->counting);
	/* relaxed: written under the lock */
	store_relaxed(&ring->nr_counting, ring->nr_counting + 1);
	/* What it counts may have been posted. */
	uaio_uring_find_reached_locked(ring);
	uaio_queue_unlock(&ring->queue);
}

void uaio_uring_starts(struct uaio_queue *queue, const struct uaio_sqe *sqe)
{
	struct uaio_uring *ring = container_of(queue, struct uaio_uring, queue);
	struct uaio_uring_note *note = uaio_uring_note_of(sqe->word);

	bool has_from = note->has_from && !(sqe->links & UAIO_DRAIN);

	/* relaxed: what others complete at this moment counts, or not */
	if (note->counts)
		uaio_uring_count(ring, note,
				 has_from ? note->from
					  : load_relaxed(&ring->cq_events));
}

void uaio_uring_uncount(struct uaio_uring *ring, struct uaio_uring_note *note)
{
	uaio_queue_lock(&ring->queue);
	uaio_uring_uncount_locked(ring, note);
	uaio_queue_unlock(&ring->queue);
}

void uaio_uring_find_reached_locked(struct uaio_uring *ring)
{
	list_for_each (pos, &ring->counting) {
		struct uaio_uring_note *note =
			container_of(pos, struct uaio_uring_note, counting);

		if (ring->cq_events - note->from < note->count)
			continue;
		/* relaxed: a thread that ends it looks under the lock first */
		store_relaxed(&note->is_reached, 1);
		ring->queue.wants_act = true;
	}
}

static bool is_reached_timeout(const struct uaio_sqe *sqe)
{
	return sqe->op == UAIO_OP_TIMER && sqe->word &&
	       load_relaxed(&uaio_uring_note_of(sqe->word)->is_reached);
}

int64_t uaio_uring_cancelled(const struct uaio_sqe *sqe)
{
	/* It is no failure: what is linked to it goes on. */
	return is_reached_timeout(sqe) ? 0 : -ECANCELED;
}

/* The queue's lock is held. */
static bool is_reached(const struct uaio_cancel_aim *aim,
		       const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	(void)aim;
	(void)file;
	return is_reached_timeout(sqe);
}

void uaio_uring_end_reached(struct uaio_uring *ring)
{
	static const struct uaio_cancel_aim aim = { .is_meant = is_reached };

	(void)uaio_queue_cancel_meant(&ring->queue, &aim, NULL);
}

void uaio_uring_act(struct uaio_queue *queue)
{
	struct uaio_uring *ring = container_of(queue, struct uaio_uring, queue);

	/* relaxed: the thread that counts, or marks, has seen it counted */
	if (load_relaxed(&ring->nr_counting))
		uaio_uring_end_reached(ring);
}
