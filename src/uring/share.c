/* SPDX-License-Identifier: MIT */
#include "uring/share.h"

#include <errno.h>

#include "base/sleep.h"
#include "life/life.h"
#include "ready/waiter.h"
#include "uring/need.h"
#include "uring/ring.h"
#include "uring/table.h"

enum {
	NAP_NS = 50000,
	PATIENCE_NS = 1000000000,
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

/* Return: whether it is held now. */
static bool try_begin(uint32_t *posting)
{
	uint32_t free = 0;

	/* [MB:uring-share] acquire: pairs with uaio_uring_share_end(). */
	return cas_acquire(posting, &free, 1);
}

void uaio_uring_share_begin(struct uaio_uring *ring)
{
	struct uaio_uring_rings *rings = ring->mem.rings;
	uint32_t nap = 0;

	if (unlikely(!try_begin(&rings->posting))) {
		int64_t now = uaio_now_ns(), until = now + PATIENCE_NS;

		while (!try_begin(&rings->posting) && now < until) {
			(void)uaio_sleep(&nap, 0, now + NAP_NS);
			now = uaio_now_ns();
		}
	}
	catch_up_locked(ring);
	look_at_size_locked(ring);
}

void uaio_uring_share_end(struct uaio_uring *ring)
{
	/* [MB:uring-share] release: pairs with try_begin(). */
	store_release(&ring->mem.rings->posting, 0);
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
