/* SPDX-License-Identifier: MIT */
/* Groups of provided buffers, for pbuf.c and pbufcall.c: see pbuf.h. */
#ifndef UAIO_URING_PBUFINT_H
#define UAIO_URING_PBUFINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slab.h"
#include "uring/abi.h"

struct uaio_uring;

/* A buffer of a list. */
struct uaio_uring_buffer {
	struct uaio_slab_node node;
	struct uaio_uring_buffer *next;
	uint64_t addr;
	uint32_t len;
	uint16_t bid;
};

/* Under the lock of its ring's groups, as are all functions below. */
struct uaio_uring_group {
	struct uaio_slab_node node;
	struct uaio_uring_group *next;
	uint16_t id;

	/* a list; or, with none on it, an array */
	uint32_t nr;
	struct uaio_uring_buffer *first, *last; /* owns */

	/* NULL: a list. The client can write it. */
	struct io_uring_buf_ring *array;
	size_t own_bytes; /* 0: the client's memory, which it may unmap */
	uint16_t mask;
	uint16_t head; /* of the next buffer: counts on beyond mask */
	bool is_incremental;
};

void uaio_uring_groups_lock(struct uaio_uring *ring);
void uaio_uring_groups_unlock(struct uaio_uring *ring);

/* Return: the group with that number; NULL: there is none. */
struct uaio_uring_group *uaio_uring_group_find(struct uaio_uring *ring,
					       uint32_t id);
/* Return: a new one, an empty list; NULL if memory is refused. */
struct uaio_uring_group *uaio_uring_group_new(struct uaio_uring *ring,
					      uint16_t id);
void uaio_uring_group_free(struct uaio_uring *ring,
			   struct uaio_uring_group *group);

#endif /* UAIO_URING_PBUFINT_H */
