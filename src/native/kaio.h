/* SPDX-License-Identifier: MIT */
/*
 * Kernel AIO, as a client of it
 *
 * A ring is a context of the kernel's, with the memory that the kernel shares with
 * us: it writes events and the tail, we read them and write the head.
 *
 * Thread-safety: submitting, any thread; taking, one at a time.
 */
#ifndef UAIO_NATIVE_KAIO_H
#define UAIO_NATIVE_KAIO_H

#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

/* The head of the kernel's memory; the events follow. */
struct uaio_kaio_ring {
	uint32_t id;
	uint32_t nr; /* events that have room */
	uint32_t head;
	uint32_t tail;
	uint32_t magic;
	uint32_t compat;
	uint32_t incompat;
	uint32_t header_bytes;
	struct io_event events[];
};

/*
 * Make a ring for at least nr events.
 * Return: 0 with its memory, whose address is also the kernel's handle; or -errno.
 */
int uaio_kaio_open(unsigned nr, struct uaio_kaio_ring **ret_ring);
/* Waits until the kernel has completed what is under way there. */
void uaio_kaio_close(struct uaio_kaio_ring *ring);

/* Return: whether there is a completion; a guess. */
static inline bool uaio_kaio_has(const struct uaio_kaio_ring *ring)
{
	/* relaxed, both: the thread that takes looks again */
	return load_relaxed(&ring->tail) != load_relaxed(&ring->head);
}

/* Return: how many events were taken, at most max. */
unsigned uaio_kaio_take(struct uaio_kaio_ring *ring,
			struct io_event *ret_events, unsigned max);

#endif /* UAIO_NATIVE_KAIO_H */
