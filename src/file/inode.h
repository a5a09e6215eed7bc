/* SPDX-License-Identifier: MIT */
/*
 * Inodes: one for each file that is open, however often it is
 *
 * The same file, opened twice, is one: what is known of it, and the order of its
 * requests, are here. Who keeps which member says its heading.
 *
 *   I1  There is at most one of a device and number, and it stays as long as it
 *       has a reference.
 *   I2  Inodes are never unmapped (slab.h): who reads one without a reference
 *       reads an inode, though it may be another file's by now.
 *
 * Thread-safety: any thread; one lock for the table.
 */
#ifndef UAIO_FILE_INODE_H
#define UAIO_FILE_INODE_H

#include <stdint.h>

#include "base/atomic.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/slab.h"

/* How fast its reads are: trust.h's. Zero: nothing is known. */
struct uaio_trust {
	/* atomic, relaxed throughout */
	uint32_t nr_fast;  /* reads in a row */
	uint32_t nr_ended; /* how often trust has ended */
	uint32_t nr_close; /* reads that are looked at closely yet */
};

struct uaio_inode {
	struct uaio_slab_node node;

	/* immutable after init */
	uint64_t dev;
	uint64_t ino;

	/* under the table's lock */
	struct uaio_inode *next; /* in the same bucket */
	uint32_t refs;

	/*
	 * order.h's, atomic, written under lock: what of the list keeps others
	 * from being made inline. In one word, because a write asks for both.
	 */
	uint64_t in_way;     /* ordered writes; reads, UAIO_A_READ each */
	uint32_t nr_direct;  /* that the device is making */
	uint32_t nr_held_up; /* requests that wait */

	/* atomic */
	uint32_t nr_slow;        /* writes in a row that were seen to block */
	int64_t slow_until_ns;   /* writes go to workers until then */
	struct uaio_trust trust; /* of its plain reads */
	/*
	 * Requests that are being made inline, where some may have to be alone.
	 * Never reset: who was slow may still count one of the last inode here.
	 */
	uint32_t nr_inline;

	/* order.h's, under lock */
	struct uaio_lock lock; /* rank INODE */
	struct list requests;
	uint32_t nr_writes; /* on the list, of either sort */
};

/* From nothing. */
void uaio_inodes_init(void);

/* Return: the inode, with a reference, or NULL if memory is refused. */
struct uaio_inode *uaio_inode_get(uint64_t dev, uint64_t ino);
void uaio_inode_put(struct uaio_inode *inode);

/* Nothing is known any more. */
static inline void uaio_trust_forget(struct uaio_trust *trust)
{
	/* relaxed: advice */
	store_relaxed(&trust->nr_fast, 0);
	store_relaxed(&trust->nr_ended, 0);
	store_relaxed(&trust->nr_close, 0);
}

#endif /* UAIO_FILE_INODE_H */
