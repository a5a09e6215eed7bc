/* SPDX-License-Identifier: MIT */
/*
 * Slabs: objects of one type, whose memory keeps that type for ever
 *
 * Memory is mapped in batches and never given back, so a pointer to an object
 * that was put back still points to an object of the same type. That is what
 * lets lookups read an object first and find out afterwards that it is not
 * theirs. An object comes back exactly as it was put, except for its first
 * member, which must be a struct uaio_slab_node; a fresh one is all zero.
 *
 * Thread-safety: any thread, one lock per slab.
 */
#ifndef UAIO_BASE_SLAB_H
#define UAIO_BASE_SLAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

struct uaio_slab_node {
	struct uaio_slab_node *next; /* atomic: only while on the free list */
};

struct uaio_slab {
	/* immutable after init */
	size_t object_bytes;
	size_t batch_bytes;

	/* under lock */
	struct uaio_lock lock;
	struct uaio_slab_node *free;
	char *fresh; /* rest of the newest batch, never used */
	char *fresh_end;
	size_t nr_out;       /* objects got and not put */
	size_t mapped_bytes; /* in all */
};

/* The slab starts from nothing, whatever was in the struct before. */
void uaio_slab_init(struct uaio_slab *slab, size_t object_bytes,
		    size_t batch_bytes);

/* Return: an object, or NULL if memory is refused. */
void *uaio_slab_get(struct uaio_slab *slab);
void uaio_slab_put(struct uaio_slab *slab, void *object);

#endif /* UAIO_BASE_SLAB_H */
