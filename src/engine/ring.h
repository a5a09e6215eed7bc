/* SPDX-License-Identifier: MIT */
/*
 * Completion ring
 *
 * The ring of one context, in the kernel's layout: clients read it, test its
 * magic and may reap from it without calling us. What they can write (all of
 * the map) is never trusted; what we rely on is kept in struct uaio_ring.
 *
 *   I1  head and tail are slot numbers in [0, nr), not free-running counters.
 *   I2  head == tail means empty; so at most nr - 1 events are held.
 *   I3  Slots [head, tail) belong to the reader, all others to the writer.
 *   I4  Whoever pushes owns a slot for each event (engine/ctx.h hands them
 *       out), so a push always finds room; unless the client wrote nonsense
 *       to head, in which case it loses events of its own and nothing else.
 *
 *   I5  Our tail moves before the map's, so a client that reaps from the map is
 *       never ahead of it; and pop hands out what is before the map's tail, so
 *       a client never has by a call what it does not yet find in the map.
 *
 * Exclusion        push  pop  unread	X: the caller must serialise the pair
 *         push      X     -     -	-: free to run at the same time
 *         pop       -     X     -
 *
 * Progress: nobody ever loops on another. Window: what unread counts pop may
 * not hand out yet, until the push is over.
 */
#ifndef UAIO_ENGINE_RING_H
#define UAIO_ENGINE_RING_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/check.h"
#include "engine/sink.h"

/* What the client gets back for one request; struct io_event. */
struct uaio_event {
	uint64_t data;
	uint64_t obj;
	int64_t res;
	int64_t res2;
};

struct uaio_ring_map {
	uint32_t id;   /* the context's number in the table; ~0: none */
	uint32_t nr;   /* slots */
	uint32_t head; /* written by whoever reaps */
	uint32_t tail; /* written by push only */
	uint32_t magic;
	uint32_t compat_features;
	uint32_t incompat_features;
	uint32_t header_length;
	struct uaio_event events[];
};

static_assert(sizeof(struct uaio_event) == 32, "kernel ABI");
static_assert(offsetof(struct uaio_ring_map, head) == 8, "kernel ABI");
static_assert(offsetof(struct uaio_ring_map, events) == 32, "kernel ABI");

struct uaio_ring {
	/*
	 * Immutable while the context lives, but for map, which changes when
	 * the client moves the ring. All keep pointing to readable memory when
	 * it does not live any more: a late reader may still look.
	 */
	struct uaio_ring_map *map; /* atomic; owns */
	uint32_t nr;               /* atomic: trusted copy of map->nr */
	uint32_t nr_pages;

	/*
	 * Atomic, written by push, read by anybody: the trusted copy of the
	 * map's tail, and above it how many of the events before it the map
	 * does not show yet. One word, so that both are of the same moment.
	 */
	uint64_t tail;
};

enum { UAIO_RING_HIDDEN_SHIFT = 32 };

/* Pages of a ring that the kernel would make for nr_events, or 0: too many. */
uint32_t uaio_ring_pages(uint32_t nr_events);

/* Places the kernel keeps per processor come in batches; so many of them. */
uint32_t uaio_ring_events_per_cpus(void);

/*
 * Return: 0 or -ENOMEM. The id in the header is ~0, which no lookup accepts.
 */
int uaio_ring_init(struct uaio_ring *ring, uint32_t nr_pages);
void uaio_ring_fini(struct uaio_ring *ring);

/*
 * Add an event for each of nr completions; the caller owns that many slots (I4).
 */
void uaio_ring_push(struct uaio_ring *ring,
		    const struct uaio_completion *completions, unsigned nr);

/* Return: how many events were moved to ret_events, at most nr. */
long uaio_ring_pop(struct uaio_ring *ring, struct uaio_event *ret_events,
		   long nr);

/* Head as the client left it, made safe. */
static inline uint32_t uaio_ring_head(const struct uaio_ring *ring)
{
	/*
	 * [MB:ring-head] acquire: the reader has left the slots before it
	 * (I3). Pairs with uaio_ring_pop() and with clients that reap.
	 */
	uint32_t head = load_acquire(&load_relaxed(&ring->map)->head);
	uint32_t nr = load_relaxed(&ring->nr);

	return likely(head < nr) ? head : head % nr;
}

/*
 * Our tail, from head on: how many events there are in ret_unread, and how many
 * of them, the last, a client cannot see yet in ret_hidden. If it has reaped
 * some of a post whose tail we have not yet taken back, the latter may be more.
 */
static inline void uaio_ring_look(const struct uaio_ring *ring, uint32_t head,
				  uint32_t *ret_unread, uint32_t *ret_hidden)
{
	/*
	 * [MB:ring-tail] acquire: events before index. Pairs with
	 * uaio_ring_push(). After the head, which is never ahead of it (I5).
	 */
	uint64_t word = load_acquire(&ring->tail);
	uint32_t tail = (uint32_t)word;

	*ret_unread = tail >= head ? tail - head
				   : tail + load_relaxed(&ring->nr) - head;
	*ret_hidden = (uint32_t)(word >> UAIO_RING_HIDDEN_SHIFT);
}

/* Return: events that wait to be reaped, or will in a moment: they take room. */
static inline uint32_t uaio_ring_unread(const struct uaio_ring *ring)
{
	uint32_t unread, hidden;

	uaio_ring_look(ring, uaio_ring_head(ring), &unread, &hidden);
	return unread;
}

/* Return: how many of them pop would hand out. */
static inline uint32_t uaio_ring_poppable(const struct uaio_ring *ring,
					  uint32_t head)
{
	uint32_t unread, hidden;

	uaio_ring_look(ring, head, &unread, &hidden);
	return unread > hidden ? unread - hidden : 0;
}

#endif /* UAIO_ENGINE_RING_H */
