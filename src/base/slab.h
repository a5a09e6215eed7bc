/* SPDX-License-Identifier: MIT */
/*
 * Slabs: objects of one type, whose memory keeps that type for ever
 *
 * Memory is mapped in batches and never unmapped, so a pointer to an object
 * that was put back still points to an object of the same type. This lets a
 * lookup read an object first, and find out afterwards that it is not the one
 * it wanted. The first member of an object must be a struct uaio_slab_node; all
 * others have the values that they had when the object was put back. An object
 * that is used for the first time is all zero.
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
	char *fresh; /* the rest of the newest batch, never used yet */
	char *fresh_end;
	size_t nr_out;       /* objects got and not put back */
	size_t mapped_bytes; /* in all */
};

/* Whatever was in the struct before is forgotten. */
void uaio_slab_init(struct uaio_slab *slab, size_t object_bytes,
		    size_t batch_bytes);

/* Return: an object, or NULL if memory is refused. */
void *uaio_slab_get(struct uaio_slab *slab);
void uaio_slab_put(struct uaio_slab *slab, void *object);

#ifdef UAIO_TESTING
/* How many objects of all slabs are out; atomic. */
extern uint64_t uaio_slabs_nr_out;
#endif

#endif /* UAIO_BASE_SLAB_H */
