/* SPDX-License-Identifier: MIT */
/*
 * Order of requests on one inode
 *
 * The kernel executes buffered requests inside io_submit. So they take effect in the
 * order of submission, and programs rely on that. The library gives some of them to
 * workers, which could change the order. This module keeps the order wherever a program
 * can observe it:
 *
 *   I1  Ordered requests of an inode take effect one at a time, in the order of
 *       submission. These are the buffered, appending and extending writes, and all
 *       requests at the file's own position (UAIO_OFF_POSITION), including reads.
 *   I2  While an ordered request waits or runs, every later request on its inode waits
 *       for it, including reads. The submitting thread then executes no request on the
 *       inode itself (inline).
 *   I3  A sync starts only after every write submitted before it, ordered or direct, has
 *       returned.
 *   I4  A write may change what an older read through the page cache returns: bytes of
 *       the read's range, or where the file ends. Such a write, ordered or direct, does
 *       not start before the read has got its data.
 *   I5  Direct (O_DIRECT) reads, and direct writes that do not extend the file ("in
 *       place"), may overlap each other: inside io_submit the kernel only hands them to
 *       the device. The kernel executes all other requests inside io_submit, so these
 *       may have to wait for direct requests. An ordered write waits for older direct
 *       requests whose bytes it changes. A read through the page cache waits for older
 *       direct writes in place to its bytes.
 *   I6  Like a sync, an exclusive write (bounce.h) starts only after every older write
 *       has returned. Later requests wait for it as for an ordered write. Before it
 *       writes, it waits until no write is executed inline.
 *
 * Each inode has a list of its requests, in the order of submission. A request that
 * waits is always on this list. A read that has started stays on the list until its
 * system call has returned; a write stays until its event is posted. A request waits
 * only for older requests. So the first request of the list has always been started,
 * and no two requests wait for each other.
 *
 * The list belongs to the inode, not to a descriptor: a file that was opened twice has
 * one list. Requests that are executed inline (by the submitting thread) are never on
 * the list. A request is executed inline only if the list has no ordered request (I1),
 * and no older request for which it must wait (I4, I5). If two threads submit at the
 * same moment, their requests may be executed in either order.
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

/* Called each time the engine starts, also in a child of fork(): resets all state. */
void uaio_order_init(void);

/*
 * Return: how many ordered requests (I1) are on the list, in the low half; and how many
 * buffered reads, in the high half.
 */
static inline uint64_t uaio_inode_in_way(const struct uaio_inode *inode)
{
	/*
	 * [MB:ordered] acquire: requests that are no longer counted have returned.
	 * Pairs with count_out_locked().
	 */
	return load_acquire(&inode->in_way);
}

/*
 * Return: whether the list has ordered requests, so that new requests must wait (I2).
 */
static inline bool uaio_inode_is_busy(const struct uaio_inode *inode)
{
	return (uint32_t)uaio_inode_in_way(inode) != 0;
}

static inline bool uaio_inode_has_direct(const struct uaio_inode *inode)
{
	/*
	 * [MB:ordered] acquire: direct requests that are no longer counted have
	 * returned. Pairs with count_out_locked().
	 */
	return load_acquire(&inode->nr_direct) != 0;
}

/*
 * Return: whether buffered reads or direct requests on the inode have not returned yet.
 * Then a write must compare its range with the ranges of these requests (I4, I5).
 */
static inline bool uaio_inode_minds_writes(const struct uaio_inode *inode)
{
	return uaio_inode_in_way(inode) >= UAIO_A_READ ||
	       uaio_inode_has_direct(inode);
}

/*
 * Return: whether a request of this order (kind) and range must wait for an older
 * request that has not returned (I4, I5). The caller has a reference to inode.
 */
bool uaio_inode_is_range_awaited(struct uaio_inode *inode,
				 enum uaio_order order,
				 const struct uaio_range *range);

/*
 * The slow paths of uaio_inode_begin_inline() and uaio_inode_end_inline(): used only if
 * uaio_config.bounces is set, because then some writes may be exclusive (I6).
 */
bool uaio_inode_note_inline(struct uaio_inode *inode);
void uaio_inode_unnote_inline(struct uaio_inode *inode);

/*
 * A thread calls uaio_inode_begin_inline() before it executes a write inline (in its
 * own submission), and uaio_inode_end_inline() after the write. If the first function
 * returns false, the write must wait in the list, and the second is not called. The
 * caller needs no reference to inode (file.h, I2).
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
 * Sleep until no thread executes a write of the inode inline. Called for an exclusive
 * write after in_way has counted this write, so no further inline write begins. After
 * this call no other write on the inode is executed (I6).
 */
void uaio_inode_await_inline(struct uaio_inode *inode);

/*
 * Place req after the earlier requests of its inode.
 * Return: whether req may start at once; if false, it waits in the state ORDERED.
 */
bool uaio_order_enter(struct uaio_req *req);

/*
 * Called when the system call of req, a read or a write, has returned; or when req was
 * cancelled after it had started. Requests that waited only for req become startable.
 * They are appended to ret_startable (by link), oldest first.
 */
void uaio_order_return(struct uaio_req *req, struct list *ret_startable);

/*
 * Called when the event of req is posted. If req is a write, syncs that waited only for
 * req become startable, and are appended to ret_startable (by link), oldest first.
 */
void uaio_order_leave(struct uaio_req *req, struct list *ret_startable);

#endif /* UAIO_WAIT_ORDER_H */
