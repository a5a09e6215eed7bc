/* SPDX-License-Identifier: MIT */
#include "aio/ring.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "aio/ringmem.h"
#include "base/uaddr.h"

enum {
	RING_MAGIC = 0xa10a10a1,
	/* The kernel's limit: io_setup refuses a ring with more slots. */
	RING_EVENTS_MAX = 0x10000000 / sizeof(struct uaio_event),
	/* The least number of slots for each processor, as in the kernel. */
	EVENTS_PER_CPU = 4,
};

uint32_t uaio_ring_events_per_cpus(void)
{
	static uint32_t nr; /* atomic: the result; 0: not computed yet */
	uint32_t events = load_relaxed(&nr);

	if (!events) {
		long cpus = sysconf(_SC_NPROCESSORS_CONF);

		events = EVENTS_PER_CPU * (cpus > 0 ? (uint32_t)cpus : 1);
		store_relaxed(&nr, events);
	}
	return events;
}

uint32_t uaio_ring_pages(uint32_t nr_events)
{
	/*
	 * Compute the number of slots in 32 bits, as the kernel does. Clients can see how
	 * many more requests than nr_events fit, and some rely on the kernel's surplus.
	 */
	uint32_t nr = nr_events < uaio_ring_events_per_cpus()
			      ? uaio_ring_events_per_cpus()
			      : nr_events;
	uint64_t page = uaio_page_bytes();

	nr *= 2;
	if (nr > RING_EVENTS_MAX)
		return 0;
	return (uint32_t)((sizeof(struct uaio_ring_map) +
			   (nr + 2ull) * sizeof(struct uaio_event) + page - 1) /
			  page);
}

int uaio_ring_init(struct uaio_ring *ring, uint32_t nr_pages)
{
	struct uaio_ring_map *map = uaio_ringmem_get(nr_pages);
	uint32_t nr;

	if (!map)
		return -ENOMEM;
	nr = (uint32_t)((nr_pages * (size_t)uaio_page_bytes() - sizeof(*map)) /
			sizeof(struct uaio_event));
	/*
	 * relaxed: the ring is not published yet, but threads that found an earlier ring
	 * in this memory may still read `head` and `id`
	 */
	store_relaxed(&map->id, UINT32_MAX);
	store_relaxed(&map->head, 0);
	map->nr = nr;
	map->tail = 0;
	map->magic = RING_MAGIC;
	map->compat_features = 1;
	map->incompat_features = 0;
	map->header_length = sizeof(*map);
	store_relaxed(&ring->map, map);
	store_relaxed(&ring->nr, nr);
	ring->nr_pages = nr_pages;
	store_relaxed(&ring->tail, 0);
	return 0;
}

void uaio_ring_fini(struct uaio_ring *ring)
{
	uaio_ringmem_put(ring->map, ring->nr_pages);
}

void uaio_ring_push(struct uaio_ring *ring,
		    const struct uaio_completion *completions, unsigned nr)
{
	/*
	 * relaxed: only this function writes the tail, and its callers exclude each other
	 */
	uint32_t tail = (uint32_t)load_relaxed(&ring->tail);

	for (unsigned i = 0; i < nr; i++) {
		ring->map->events[tail] = (struct uaio_event){
			.data = completions[i].data,
			.obj = completions[i].key,
			.res = completions[i].res,
		};
		tail = tail + 1 == ring->nr ? 0 : tail + 1;
	}
	/*
	 * [MB:ring-tail] release, three times: write the events before ring->tail. Write
	 * ring->tail before the map's tail (I5). Write the map's tail before clearing the
	 * upper half of ring->tail, which counts the events that the map's tail does not
	 * include. Pairs with uaio_ring_look(), and with clients that reap from the map.
	 */
	store_release(&ring->tail,
		      (uint64_t)nr << UAIO_RING_HIDDEN_SHIFT | tail);
	store_release(&ring->map->tail, tail);
	store_release(&ring->tail, (uint64_t)tail);
}

long uaio_ring_pop(struct uaio_ring *ring, struct uaio_event *ret_events,
		   long nr)
{
	uint32_t head = uaio_ring_head(ring);
	uint32_t left = uaio_ring_poppable(ring, head);
	long got = 0;

	while (got < nr && left) {
		uint32_t run = ring->nr - head;

		if (run > left)
			run = left;
		if (run > nr - got)
			run = (uint32_t)(nr - got);
		memcpy(&ret_events[got], &ring->map->events[head],
		       run * sizeof(*ret_events));
		got += run;
		left -= run;
		head = head + run == ring->nr ? 0 : head + run;
	}
	/*
	 * [MB:ring-head] release: the events have been read before the head moves. Pairs
	 * with uaio_ring_head().
	 */
	if (got)
		store_release(&ring->map->head, head);
	return got;
}
