/* SPDX-License-Identifier: MIT */
/* Tested by test-native.c. */
#include "native/krings.h"

#include <errno.h>

#include "base/check.h"
#include "base/sys.h"

enum { MAGIC = (int)0xa10a10a1 };

/* Return: whether the ring's memory has the layout that this code knows. */
static bool is_known(const struct uaio_kaio_ring *ring)
{
	return ring->magic == (uint32_t)MAGIC && !ring->incompat &&
	       ring->header_bytes == sizeof(*ring) && ring->nr;
}

int uaio_kaio_open(unsigned nr, struct uaio_kaio_ring **ret_ring)
{
	uint64_t handle = 0;
	int ret = sys_io_setup(nr, &handle);

	if (ret < 0)
		return ret;
	*ret_ring = (struct uaio_kaio_ring *)(uintptr_t)handle;
	if (is_known(*ret_ring))
		return 0;
	uaio_kaio_close(*ret_ring);
	return -ENOSYS;
}

void uaio_kaio_close(struct uaio_kaio_ring *ring)
{
	(void)sys_io_destroy((uintptr_t)ring);
}

unsigned uaio_kaio_take(struct uaio_kaio_ring *ring,
			struct io_event *ret_events, unsigned max)
{
	/* relaxed: only the thread that takes events changes the head */
	uint32_t head = load_relaxed(&ring->head);
	/*
	 * [MB:kaio] acquire: read the tail first, then the events. Pairs with the kernel.
	 */
	uint32_t tail = load_acquire(&ring->tail), nr = ring->nr;
	unsigned nr_taken = 0;

	/* The program may have overwritten this memory, so check the values. */
	if (unlikely(head >= nr || tail >= nr))
		return 0;
	while (head != tail && nr_taken < max) {
		ret_events[nr_taken++] = ring->events[head];
		head = head + 1 < nr ? head + 1 : 0;
	}
	/*
	 * [MB:kaio] release: before this store, this thread has read the events. Pairs
	 * with the kernel.
	 */
	if (nr_taken)
		store_release(&ring->head, head);
	return nr_taken;
}
