/* SPDX-License-Identifier: MIT */
/*
 * Order of requests on one inode
 *
 * The kernel executes buffered requests inside io_submit, so they take effect
 * in the order of submission, and programs rely on it. Where the library gives
 * requests to workers, this file keeps the part of that order that a program
 * can observe:
 *
 *   I1  Ordered writes (buffered, appending, size-extending) of one inode, and
 *       every request at the file's own position (UAIO_OFF_POSITION), reads
 *       included, take effect one at a time, in the order they were submitted.
 *   I2  While one of them waits or runs, every later request on that inode,
 *       reads included, waits behind it, and nothing is executed inline.
 *   I3  A sync starts only after every write submitted before it, ordered or
 *       direct, has returned.
 *   I4  A write, ordered or direct, does not start while a read through the
 *       page cache that was submitted before it has yet to get its data, if the
 *       write would change what that read returns: bytes of its range, or where
 *       the file ends.
 *   I5  Direct reads, and direct writes in place, which the kernel hands to the
 *       device inside io_submit, may overlap each other. What the kernel
 *       executes inside io_submit itself comes after them: an ordered write
 *       after those direct requests whose bytes it changes, a read through the
 *       page cache after the direct writes in place of its bytes.
 *   I6  A write that has to be exclusive (bounce.h) starts only after every
 *       write submitted before it, as a sync does; later requests wait for it
 *       as they do for an ordered write; and before it writes it waits until no
 *       write is being executed inline.
 *
 * The inode's list has, in the order of submission, accepted reads until they
 * have returned, accepted writes until their event is posted, and all requests
 * that wait. The first of the list has always been started: there is nothing it
 * could wait for. So a request only ever waits for older ones, and no two wait
 * for each other.
 *
 * The key is the inode, not the descriptor: a file that is opened twice is one
 * file. Requests that are executed inline are never on the list. They are
 * executed only while the list has no ordered write, and nothing that I4 and I5
 * make them wait for. Two threads that submit at the same moment have no order.
 *
 * Thread-safety: any thread; a lock per inode.
 */
#ifndef UAIO_WAIT_ORDER_H
#define UAIO_WAIT_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/list.h"
#include "options/config.h"
#include "file/inode.h"
#include "req/place.h"

struct uaio_req;

#define UAIO_A_READ (UINT64_C(1) << 32)

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_order_init(void);

static inline uint64_t uaio_inode_in_way(const struct uaio_inode *inode)
{
	/*
	 * [MB:ordered] acquire: what was counted has returned. Pairs with
	 * count_out_locked().
	 */
	return load_acquire(&inode->in_way);
}

/* Return: whether requests must queue rather than be executed inline (I2). */
static inline bool uaio_inode_is_busy(const struct uaio_inode *inode)
{
	return (uint32_t)uaio_inode_in_way(inode) != 0;
}

static inline bool uaio_inode_has_direct(const struct uaio_inode *inode)
{
	/* [MB:ordered] acquire: as above. */
	return load_acquire(&inode->nr_direct) != 0;
}

/*
 * Return: whether a write has to compare its range with requests that have not
 * returned (I4, I5).
 */
static inline bool uaio_inode_minds_writes(const struct uaio_inode *inode)
{
	return uaio_inode_in_way(inode) >= UAIO_A_READ ||
	       uaio_inode_has_direct(inode);
}

/*
 * Return: whether a request of this order and range has to come after one that
 * was submitted before it and has not returned (I4, I5). The caller has a
 * reference to the inode.
 */
bool uaio_inode_is_range_awaited(struct uaio_inode *inode,
				 enum uaio_order order,
				 const struct uaio_range *range);

/*
 * What uaio_inode_begin_inline() and uaio_inode_end_inline() do where writes
 * may have to be exclusive.
 */
bool uaio_inode_note_inline(struct uaio_inode *inode);
void uaio_inode_unnote_inline(struct uaio_inode *inode);

/*
 * Begin and end a write that is executed inline. begin returns false if the
 * write has to queue instead; otherwise the caller calls end after the write.
 * inode is borrowed under I2 of file.h.
 */
static inline bool uaio_inode_begin_inline(struct uaio_inode *inode)
{
	return likely(!uaio_config.bounces) ? !uaio_inode_is_busy(inode)
					    : uaio_inode_note_inline(inode);
}

static inline void uaio_inode_end_inline(struct uaio_inode *inode)
{
	if (unlikely(uaio_config.bounces))
		uaio_inode_unnote_inline(inode);
}

/*
 * Sleep until nothing is being executed inline. For an exclusive write that has
 * started: then nothing else on the inode is executed (I6).
 */
void uaio_inode_await_inline(struct uaio_inode *inode);

/*
 * Give req its place among the requests of its inode.
 * Return: true if it may start at once; false if it waits, as ORDERED.
 */
bool uaio_order_enter(struct uaio_req *req);

/*
 * req, a read or a write, has returned, or was cancelled after it had started:
 * other reads and writes need not wait for it any more. Those that may start
 * now are appended to ret_startable (by their link), oldest first.
 */
void uaio_order_return(struct uaio_req *req, struct list *ret_startable);

/*
 * The event of req is posted. If it is a write, syncs need not wait for it any
 * more: those that may start now are appended to ret_startable, as above.
 */
void uaio_order_leave(struct uaio_req *req, struct list *ret_startable);

#endif /* UAIO_WAIT_ORDER_H */
