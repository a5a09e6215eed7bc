/* SPDX-License-Identifier: MIT */
/*
 * Completion ring
 *
 * The ring of one context, in the kernel's layout. Clients may check its magic number,
 * and consume events from it without a system call. But clients can write to all of the
 * ring's memory (the map). So the library trusts nothing in it, and keeps its own state
 * in struct uaio_ring.
 *
 *   I1  head and tail are slot numbers in [0, nr), not free-running counters.
 *   I2  head == tail means empty, so the ring holds at most nr - 1 events.
 *   I3  Slots [head, tail) belong to the reader, all others to the writer.
 *   I4  The caller of push has reserved a slot for each event (by a ticket, ctx.h), so a
 *       push always finds room. A client that writes a wrong head only loses its own
 *       events.
 *   I5  push advances the tail in struct uaio_ring before the tail in the map. So a
 *       client that consumes events from the map never gets ahead of the trusted tail.
 *       pop returns only events before the map's tail. So io_getevents returns no event
 *       before the client can find it in the map.
 *
 * Calls that the caller must serialise (X), or that may run concurrently (-):
 *                   push  pop  unread
 *         push      X     -     -
 *         pop       -     X     -
 *
 * Progress: no thread loops waiting for another. During a push, unread also counts events
 * that pop does not return yet; callers of unread must allow for that.
 */
#ifndef UAIO_AIO_RING_H
#define UAIO_AIO_RING_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/check.h"
#include "req/sink.h"

/* The event of one request, with the layout of struct io_event. */
struct uaio_event {
	uint64_t data;
	uint64_t obj;
	int64_t res;
	int64_t res2;
};

static_assert(sizeof(struct uaio_event) == 32, "kernel ABI");

struct uaio_ring_map {
	/* index of the context in the table (ctxtab.h); ~0: none */
	uint32_t id;
	uint32_t nr; /* how many slots the ring has */
	/* the next slot to read; advanced by pop, and by clients that consume events */
	uint32_t head;
	uint32_t tail; /* the next slot to write; written only by push */
	uint32_t magic;
	uint32_t compat_features;
	uint32_t incompat_features;
	uint32_t header_length;
	struct uaio_event events[];
};

static_assert(offsetof(struct uaio_ring_map, head) == 8, "kernel ABI");
static_assert(offsetof(struct uaio_ring_map, events) == 32, "kernel ABI");

struct uaio_ring {
	/*
	 * These members do not change while the context lives, except `map`, which
	 * changes when the client moves the ring. After the context is destroyed, `map`
	 * still points to readable memory, because threads that found the context earlier
	 * may still read there.
	 */
	struct uaio_ring_map *map; /* atomic; owns */
	/* atomic: how many slots; a trusted copy of map->nr */
	uint32_t nr;
	uint32_t nr_pages;

	/*
	 * Atomic; written by push, read by any thread. Low half: the trusted copy of the
	 * map's tail. High half: how many of the newest events the map's tail may not
	 * include yet. Both halves are in one word, so that a reader gets a consistent
	 * pair.
	 */
	uint64_t tail;
};

enum { UAIO_RING_HIDDEN_SHIFT = 32 };

/*
 * Return: how many pages the kernel would allocate for a ring of nr_events. 0: the kernel
 * refuses this number.
 */
uint32_t uaio_ring_pages(uint32_t nr_events);

/* Return: the least number of slots that the kernel gives a ring: four for each processor. */
uint32_t uaio_ring_events_per_cpus(void);

/*
 * Allocate a ring. Its id is one that no lookup accepts.
 * Return: 0 or -ENOMEM.
 */
int uaio_ring_init(struct uaio_ring *ring, uint32_t nr_pages);
void uaio_ring_fini(struct uaio_ring *ring);

/* Add an event for each of nr completions. The caller owns nr slots (I4). */
void uaio_ring_push(struct uaio_ring *ring,
		    const struct uaio_completion *completions, unsigned nr);

/* Move up to nr events to ret_events. Return: how many. */
long uaio_ring_pop(struct uaio_ring *ring, struct uaio_event *ret_events,
		   long nr);

/* Return: the map's head, reduced to [0, nr) as the client may write any value. */
static inline uint32_t uaio_ring_head(const struct uaio_ring *ring)
{
	/*
	 * [MB:ring-head] acquire: a reader has read the slots before it moved the head
	 * (I3). Pairs with uaio_ring_pop() and with clients that reap.
	 */
	uint32_t head = load_acquire(&load_relaxed(&ring->map)->head);
	uint32_t nr = load_relaxed(&ring->nr);

	return likely(head < nr) ? head : head % nr;
}

/*
 * *ret_unread: how many events are between head and the trusted tail. *ret_hidden: how
 * many of them the map's tail may not include yet. *ret_hidden may exceed *ret_unread: a
 * client may already reap the events of a push that has not yet set the hidden count to 0.
 */
static inline void uaio_ring_look(const struct uaio_ring *ring, uint32_t head,
				  uint32_t *ret_unread, uint32_t *ret_hidden)
{
	/*
	 * [MB:ring-tail] acquire: this thread sees the events that were written before
	 * ring->tail. Pairs with uaio_ring_push(). The caller has read the head before,
	 * so `head` is not ahead of this tail (I5).
	 */
	uint64_t word = load_acquire(&ring->tail);
	uint32_t tail = (uint32_t)word;

	*ret_unread = tail >= head ? tail - head
				   : tail + load_relaxed(&ring->nr) - head;
	*ret_hidden = (uint32_t)(word >> UAIO_RING_HIDDEN_SHIFT);
}

/* Return: how many events occupy slots, including those that a push is just adding. */
static inline uint32_t uaio_ring_unread(const struct uaio_ring *ring)
{
	uint32_t unread, hidden;

	uaio_ring_look(ring, uaio_ring_head(ring), &unread, &hidden);
	return unread;
}

/* Return: how many events pop would return. */
static inline uint32_t uaio_ring_poppable(const struct uaio_ring *ring,
					  uint32_t head)
{
	uint32_t unread, hidden;

	uaio_ring_look(ring, head, &unread, &hidden);
	return unread > hidden ? unread - hidden : 0;
}

#endif /* UAIO_AIO_RING_H */
