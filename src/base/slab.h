/* SPDX-License-Identifier: MIT */
/*
 * Slabs: allocate objects of one type, in memory that holds only this type for ever
 *
 * A slab maps memory in batches and never unmaps it. So a pointer to a freed object still
 * points to an object of this type. A thread may therefore look up an object without a
 * lock, and find out only afterwards that the slab has reused it. The first member of an
 * object must be a struct uaio_slab_node. The slab does not change the other members of a
 * free object, so a reused object still has its old values. An object in memory that was
 * never used is all zero.
 *
 * Context: any thread; the functions lock the slab.
 */
#ifndef UAIO_BASE_SLAB_H
#define UAIO_BASE_SLAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

struct uaio_slab_node {
	/*
	 * atomic: the next free object, while this object is free
	 */
	struct uaio_slab_node *next;
};

struct uaio_slab {
	/* immutable after init */
	size_t object_bytes;
	size_t batch_bytes;

	/* under lock */
	struct uaio_lock lock;
	struct uaio_slab_node *free;
	/* the part of the newest batch that was never used */
	char *fresh;
	char *fresh_end;
	size_t nr_out; /* objects in use */
	/* size of all batches together, in bytes */
	size_t mapped_bytes;
};

/*
 * Make `slab` an empty slab. If the slab had objects before, it forgets them, and their
 * memory stays mapped.
 */
void uaio_slab_init(struct uaio_slab *slab, size_t object_bytes,
		    size_t batch_bytes);

/*
 * Allocate an object, or free it.
 * Return: the new object; NULL if the kernel refuses memory.
 */
void *uaio_slab_get(struct uaio_slab *slab);
void uaio_slab_put(struct uaio_slab *slab, void *object);

#ifdef UAIO_TESTING
/* atomic: how many objects of all slabs are in use */
extern uint64_t uaio_slabs_nr_out;
#endif

#endif /* UAIO_BASE_SLAB_H */
