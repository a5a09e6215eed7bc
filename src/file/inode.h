/* SPDX-License-Identifier: MIT */
/*
 * Inodes: one object for each file, however often it is open
 *
 * Two descriptors of one file share one struct uaio_inode. It holds what the library has learnt
 * about the file, and the order of its requests. A comment above each group of members names
 * the module that owns them.
 *
 *   I1  There is at most one inode for each pair of device and inode number. It exists as long
 *       as it has a reference.
 *   I2  The memory of an inode is never unmapped (slab.h). A thread that reads an inode without
 *       a reference reads valid memory, but perhaps another file's inode.
 *
 * Thread-safety: any thread; one lock protects the table.
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

/* How fast reads of the file are; owned by trust.h. All members 0: not known. */
struct uaio_trust {
	/* atomic, relaxed throughout */
	uint32_t nr_fast;  /* fast reads in a row */
	uint32_t nr_ended; /* how often a slow read has ended the trust */
	uint32_t
		nr_close; /* how many more reads are checked closely (trust.h, I2) */
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
	 * owned by order.h; atomic, written under lock: counts of the requests on the list
	 * that keep other requests from being executed inline. in_way has two counts in one
	 * word, so that one load reads both.
	 */
	uint64_t
		/* the sum of: 1 for each ordered write, UAIO_A_READ for each read */
		in_way;
	uint32_t nr_direct;  /* direct requests that the device is executing */
	uint32_t nr_held_up; /* requests that wait for older ones */

	/* atomic */
	uint32_t nr_slow;        /* writes in a row that were seen to block */
	int64_t slow_until_ns;   /* until this time writes go to workers */
	struct uaio_trust trust; /* about reads without O_DIRECT */
	/*
	 * How many requests are being executed inline; only counted for files whose requests
	 * may have to be exclusive. Never reset: when this memory is reused for another inode,
	 * a slow thread may still be counted for the old inode.
	 */
	uint32_t nr_inline;

	/* owned by order.h, under lock */
	struct uaio_lock lock; /* rank INODE */
	struct list requests;
	uint32_t nr_writes; /* number of writes on the list, ordered or not */
};

/* Called when the library starts: there are no inodes. */
void uaio_inodes_init(void);

/* Return: the inode, with a reference for the caller; NULL if memory is refused. */
struct uaio_inode *uaio_inode_get(uint64_t dev, uint64_t ino);
void uaio_inode_put(struct uaio_inode *inode);

/*
 * Called when a write inside the submitting call took long. The time does not show whether the
 * thread slept or was preempted. So after the first slow write, the caller counts the thread's
 * sleeps (voluntary context switches) during each write; has_slept says whether there was one.
 */
void uaio_inode_judge_slow(struct uaio_inode *inode, bool has_slept);

/* Return: whether recent writes were slow, so that workers execute writes for a while. */
bool uaio_inode_is_slow(struct uaio_inode *inode);

static inline void uaio_trust_forget(struct uaio_trust *trust)
{
	/* relaxed: advice */
	store_relaxed(&trust->nr_fast, 0);
	store_relaxed(&trust->nr_ended, 0);
	store_relaxed(&trust->nr_close, 0);
}

#endif /* UAIO_FILE_INODE_H */
