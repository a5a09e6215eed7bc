/* SPDX-License-Identifier: MIT */
/*
 * Slabs: objects of one type, in memory that keeps this type for ever
 *
 * Memory is mapped in batches and never unmapped. So a pointer to an object that was
 * put back still points to an object of the same type. So a lookup without a lock may
 * read an object first, and find out afterwards that the object is now another one. The
 * first member of an object must be a struct uaio_slab_node. All other members keep
 * their values while the object is free; a new object is all zero.
 *
 * Context: any thread; each slab has a lock.
 */
#ifndef UAIO_BASE_SLAB_H
#define UAIO_BASE_SLAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

struct uaio_slab_node {
	struct uaio_slab_node *next; /* atomic: valid on the free list only */
};

struct uaio_slab {
	/* immutable after init */
	size_t object_bytes;
	size_t batch_bytes;

	/* under lock */
	struct uaio_lock lock;
	struct uaio_slab_node *free;
	char *fresh; /* the unused part of the newest batch */
	char *fresh_end;
	size_t nr_out;       /* objects in use */
	size_t mapped_bytes; /* memory of all batches */
};

/* Initialise slab. Objects of an earlier use are forgotten, and stay mapped. */
void uaio_slab_init(struct uaio_slab *slab, size_t object_bytes,
		    size_t batch_bytes);

/* Return: an object, or NULL if mapping memory fails. */
void *uaio_slab_get(struct uaio_slab *slab);
void uaio_slab_put(struct uaio_slab *slab, void *object);

#ifdef UAIO_TESTING
/* atomic: how many objects of all slabs are in use */
extern uint64_t uaio_slabs_nr_out;
#endif

#endif /* UAIO_BASE_SLAB_H */
