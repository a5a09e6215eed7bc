/* SPDX-License-Identifier: MIT */
/*
 * Inodes: one object for each open file, however often that is open
 *
 * If a file is opened twice, both have the same inode here. It has what is
 * known of the file, and the order of its requests. A heading above its members
 * says which part of the library keeps them.
 *
 *   I1  There is at most one for a device and inode number, and it exists as
 *       long as it has a reference.
 *   I2  Inodes are never unmapped (slab.h): a thread that reads one without a
 *       reference reads an inode, though perhaps another file's by now.
 *
 * Thread-safety: any thread; one lock for the table.
 *
 * Tested by src/wait/test-order.c.
 */
#ifndef UAIO_FILE_INODE_H
#define UAIO_FILE_INODE_H

#include <stdint.h>

#include "base/atomic.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/slab.h"

/* How fast the file's reads are: trust.h's. Zero: nothing is known. */
struct uaio_trust {
	/* atomic, relaxed throughout */
	uint32_t nr_fast;  /* fast reads in a row */
	uint32_t nr_ended; /* how often trust has ended */
	uint32_t nr_close; /* how many more reads are watched closely */
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
	 * order.h's, atomic, written under lock: what in the list keeps other
	 * requests from being executed inline. Both counts are in one word,
	 * because a write needs both.
	 */
	uint64_t in_way;     /* ordered writes; reads, UAIO_A_READ each */
	uint32_t nr_direct;  /* requests that the device is executing */
	uint32_t nr_held_up; /* requests that wait */

	/* atomic */
	uint32_t nr_slow;        /* writes in a row that were seen to block */
	int64_t slow_until_ns;   /* writes go to workers until then */
	struct uaio_trust trust; /* of its plain reads */
	/*
	 * How many requests are being executed inline; counted where a request
	 * may have to be exclusive. It is never reset, since a slow thread may
	 * still have counted a request of the inode that was here before.
	 */
	uint32_t nr_inline;

	/* order.h's, under lock */
	struct uaio_lock lock; /* rank INODE */
	struct list requests;
	uint32_t nr_writes; /* on the list, of either sort */
};

/* Called when the library comes up: there are no inodes. */
void uaio_inodes_init(void);

/* Return: the inode, with a reference; NULL if memory is refused. */
struct uaio_inode *uaio_inode_get(uint64_t dev, uint64_t ino);
void uaio_inode_put(struct uaio_inode *inode);

/*
 * A write inside the submitting call took long. The clock cannot tell whether it slept
 * or was preempted; so after the first slow write, the caller counts how often its
 * thread sleeps in each.
 */
void uaio_inode_judge_slow(struct uaio_inode *inode, bool has_slept);

/* Return: whether writes are left to workers for a while, as some were slow. */
bool uaio_inode_is_slow(struct uaio_inode *inode);

/* Forget what was known. */
static inline void uaio_trust_forget(struct uaio_trust *trust)
{
	/* relaxed: advice */
	store_relaxed(&trust->nr_fast, 0);
	store_relaxed(&trust->nr_ended, 0);
	store_relaxed(&trust->nr_close, 0);
}

#endif /* UAIO_FILE_INODE_H */
