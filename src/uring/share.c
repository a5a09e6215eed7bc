/* SPDX-License-Identifier: MIT */
#include "uring/share.h"

#include <errno.h>

#include "base/sleep.h"
#include "proc/robust.h"
#include "life/life.h"
#include "ready/waiter.h"
#include "uring/need.h"
#include "uring/ring.h"
#include "uring/table.h"

enum {
	LOOK_NS_MIN = 1000000,
	LOOK_NS_MAX = 50000000,
};

struct uaio_uring *uaio_uring_adopt(uint32_t fd, struct uaio_uring *ring)
{
	if (uaio_engine_start() < 0)
		return NULL;
	if (uaio_uring_tab_adopt(fd, ring))
		uaio_uring_count_in(ring);
	/* Another thread may have been faster, by another number. */
	ring = uaio_uring_find(fd);
	return ring && uaio_uring_is_here(ring) ? ring : NULL;
}

/* The tail is that of the memory: others may have posted. */
static void catch_up_locked(struct uaio_uring *ring)
{
	/* relaxed, both: ordered by the word, or a look that comes again */
	uint32_t tail = load_relaxed(&ring->mem.rings->cq_tail);

	store_relaxed(&ring->progress,
		      uaio_uring_progress_of(ring->nr_timeouts, tail));
}

void uaio_uring_share_look(struct uaio_uring *ring)
{
	uaio_queue_lock(&ring->queue);
	catch_up_locked(ring);
	uaio_queue_unlock(&ring->queue);
}

/*
 * The process that owns it may have resized the ring, whose memory stays where it is: a
 * child of that one looks how large it is. Its client may have written anything there.
 */
static void look_at_size_locked(struct uaio_uring *ring)
{
	/* relaxed: ordered by the word */
	uint32_t nr = load_relaxed(&ring->mem.rings->cq_entries);

	if (likely(nr == ring->cq_entries) || !ring->is_inherited ||
	    !(ring->setup & IORING_SETUP_DEFER_TASKRUN))
		return;
	if (nr && !(nr & (nr - 1)) &&
	    uaio_uring_mem_has_completions(&ring->mem, nr))
		/* relaxed: a guess without the lock */
		store_relaxed(&ring->cq_entries, nr);
}

void uaio_uring_share_begin(struct uaio_uring *ring)
{
	uaio_robust_lock(&ring->mem.rings->posting);
	catch_up_locked(ring);
	look_at_size_locked(ring);
}

void uaio_uring_share_end(struct uaio_uring *ring)
{
	uaio_robust_unlock(&ring->mem.rings->posting);
}

int uaio_uring_share_wait(struct uaio_uring *ring, uint64_t need,
			  const struct uaio_wait *wait, int64_t *span_ns)
{
	struct uaio_wait first = *wait;
	int ret;

	*span_ns = *span_ns ? 2 * *span_ns : LOOK_NS_MIN;
	if (*span_ns > LOOK_NS_MAX)
		*span_ns = LOOK_NS_MAX;
	first.deadline_ns = uaio_now_ns() + *span_ns;
	if (first.deadline_ns >= wait->deadline_ns)
		return uaio_queue_wait(&ring->queue, ring->generation, need,
				       wait);
	ret = uaio_queue_wait(&ring->queue, ring->generation, need, &first);
	uaio_uring_share_look(ring);
	return ret == -ETIMEDOUT ? 0 : ret;
}
