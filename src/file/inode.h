/* SPDX-License-Identifier: MIT */
/*
 * Inodes: one object for each file, however many descriptors it has
 *
 * All descriptors of one file share one struct uaio_inode. This object holds what the
 * library has learnt about the file, and the order of its requests. A comment above each
 * group of members names the module that owns them.
 *
 *   I1  There is at most one inode for each pair of device and inode number. An inode
 *       exists as long as it has a reference.
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

/*
 * How fast reads of the file are; owned by trust.h. All members are 0 if that is not known.
 */
struct uaio_trust {
	/* atomic, relaxed throughout */
	uint32_t nr_fast; /* how many reads in a row were fast */
	/*
	 * how often a slow read ended the assumption that reads are fast (trust.h, I2 and
	 * I3)
	 */
	uint32_t nr_ended;
	/*
	 * after a slow read: in how many more reads the library checks whether the thread
	 * slept (trust.h, I2)
	 */
	uint32_t nr_close;
};

struct uaio_inode {
	struct uaio_slab_node node;

	/* immutable after init */
	uint64_t dev;
	uint64_t ino;

	/* these members change under the table's lock */
	struct uaio_inode *next; /* the next inode in the same bucket */
	uint32_t refs;

	/*
	 * Owned by order.h; atomic, written under `lock`. in_way and nr_direct count
	 * the requests in the list `requests` that keep other requests from being
	 * executed inline (by the submitting thread). in_way is two counts in one word,
	 * so that one load reads both.
	 */
	/*
	 * sum of 1 for each ordered request (order.h, I1), and of UAIO_A_READ for each
	 * read through the page cache that is not ordered
	 */
	uint64_t in_way;
	/* how many direct requests the device is executing */
	uint32_t nr_direct;
	uint32_t nr_held_up; /* how many requests wait for older requests */

	/* atomic */
	/*
	 * how many slow writes submitting threads have made since workers last executed
	 * the file's writes; 0 after a second slow write in which the thread did not
	 * sleep
	 */
	uint32_t nr_slow;
	/* until this time workers execute the file's writes */
	int64_t slow_until_ns;
	struct uaio_trust trust; /* how fast reads without O_DIRECT are */
	/*
	 * How many writes are being executed inline; counted only where writes may have
	 * to be exclusive (order.h, I6). Never reset: when this memory is reused for
	 * another inode, a slow thread may still be counted for the old inode.
	 */
	uint32_t nr_inline;

	/* owned by order.h; these members change under the inode's lock */
	struct uaio_lock lock; /* rank INODE */
	struct list requests;
	/* number of writes in `requests`, ordered (order.h, I1) or direct */
	uint32_t nr_writes;
};

/* Called when the library starts: there are no inodes. */
void uaio_inodes_init(void);

/* Return: the inode, with a reference for the caller; NULL if memory is refused. */
struct uaio_inode *uaio_inode_get(uint64_t dev, uint64_t ino);
void uaio_inode_put(struct uaio_inode *inode);

/*
 * Called when a write inside the submitting call took long. The time does not show whether
 * the thread slept or was preempted. So after the first slow write, the caller counts the
 * thread's sleeps (voluntary context switches) during each write. has_slept: whether the
 * thread slept during this write.
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
