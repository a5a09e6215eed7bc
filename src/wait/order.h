/* SPDX-License-Identifier: MIT */
/*
 * Order of requests on one inode
 *
 * The kernel executes buffered requests inside io_submit, so they take effect in the order of
 * submission, and programs rely on it. The library gives some of them to workers. This module
 * keeps the part of the order that a program can observe:
 *
 *   I1  Ordered writes (buffered, appending, extending) of one inode, and all requests at
 *       the file's own position (UAIO_OFF_POSITION), including reads, take effect one at
 *       a time, in the order of submission.
 *   I2  While a request of I1 waits or runs, every later request on its inode, including
 *       reads, waits for it, and no request on the inode is executed inline.
 *   I3  A sync starts only after every write submitted before it, ordered or direct, has
 *       returned.
 *   I4  A write, ordered or direct, does not start while an older read through the page
 *       cache has yet to get its data, if the write would change what the read returns:
 *       bytes of its range, or where the file ends.
 *   I5  Direct (O_DIRECT) reads, and direct writes that do not extend the file ("in place"),
 *       may overlap each other, because the kernel only hands them to the device inside
 *       io_submit. Requests that the kernel would execute inside io_submit wait for these
 *       direct requests: an ordered write waits for older direct requests whose bytes it
 *       changes; a read through the page cache waits for older direct writes in place to its
 *       bytes.
 *   I6  An exclusive write (bounce.h) starts only after every older write, like a sync.
 *       Later requests wait for it as for an ordered write. Before it writes, it waits
 *       until no write is executed inline.
 *
 * Each inode has a list of requests, in the order of submission. A waiting request is always
 * on it. A read that has started stays on it until its system call has returned, a write until
 * its event is posted. A request waits only for older requests. So the first request of the
 * list has always been started, and no two requests wait for each other.
 *
 * The list belongs to the inode, not to a descriptor: a file that is opened twice is one file.
 * Requests that are executed inline are never on the list. They are executed only while the
 * list has no ordered write, and no request for which they would have to wait by I4 or I5. If
 * two threads submit at the same moment, their requests may be executed in either order.
 *
 * Thread-safety: any thread; each inode has a lock.
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

/*
 * Return: how many requests of I1 (low half) and how many buffered reads (high half) are on
 * the list.
 */
static inline uint64_t uaio_inode_in_way(const struct uaio_inode *inode)
{
	/*
	 * [MB:ordered] acquire: requests that are no longer counted have returned.
	 * Pairs with count_out_locked().
	 */
	return load_acquire(&inode->in_way);
}

/* Return: whether requests must queue instead of being executed inline (I2). */
static inline bool uaio_inode_is_busy(const struct uaio_inode *inode)
{
	return (uint32_t)uaio_inode_in_way(inode) != 0;
}

static inline bool uaio_inode_has_direct(const struct uaio_inode *inode)
{
	/* [MB:ordered] acquire: requests no longer counted have returned. */
	return load_acquire(&inode->nr_direct) != 0;
}

/*
 * Return: whether a write must compare its range with the ranges of requests that have not
 * returned (I4, I5).
 */
static inline bool uaio_inode_minds_writes(const struct uaio_inode *inode)
{
	return uaio_inode_in_way(inode) >= UAIO_A_READ ||
	       uaio_inode_has_direct(inode);
}

/*
 * Return: whether a request of this order and range must wait for an older one that has
 * not returned (I4, I5). The caller has a reference to the inode.
 */
bool uaio_inode_is_range_awaited(struct uaio_inode *inode,
				 enum uaio_order order,
				 const struct uaio_range *range);

/*
 * The slow paths of uaio_inode_begin_inline() and uaio_inode_end_inline(), for files on which
 * writes may have to be exclusive.
 */
bool uaio_inode_note_inline(struct uaio_inode *inode);
void uaio_inode_unnote_inline(struct uaio_inode *inode);

/*
 * Begin and end a write that is executed inline. begin returns false if the write must
 * queue; otherwise the caller calls end after the write. inode is borrowed under I2 of
 * file.h.
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
 * Sleep until no write of the inode is executed inline. Called by an exclusive write that has
 * started: so no other request on the inode is executed from then on (I6).
 */
void uaio_inode_await_inline(struct uaio_inode *inode);

/*
 * Add req to the order of its inode's requests.
 * Return: true if it may start at once; false if it waits, as ORDERED.
 */
bool uaio_order_enter(struct uaio_req *req);

/*
 * Called when the system call of req, a read or a write, has returned, or when req was
 * cancelled after it had started. Reads and writes that waited only for req become startable,
 * and are appended to ret_startable (by link), oldest first.
 */
void uaio_order_return(struct uaio_req *req, struct list *ret_startable);

/*
 * Called when the event of req is posted. If req is a write, syncs that waited only for it
 * become startable, and are appended to ret_startable (by link), oldest first.
 */
void uaio_order_leave(struct uaio_req *req, struct list *ret_startable);

#endif /* UAIO_WAIT_ORDER_H */
