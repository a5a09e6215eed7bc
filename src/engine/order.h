/* SPDX-License-Identifier: MIT */
/*
 * Order of requests on one inode
 *
 * The kernel makes buffered requests inside io_submit, so their order is the
 * order of submission, and programs rely on it. Where we hand requests to
 * workers this file keeps what of it can be observed:
 *
 *   I1  Ordered writes (buffered, appending, size-extending) of one inode, and
 *       whatever is made at a position (UAIO_OFF_POSITION), reads as well, take
 *       effect one at a time, in the order they were submitted.
 *   I2  While one of them waits or runs, everything later on that inode, reads
 *       included, waits behind it, and nothing is made inline.
 *   I3  A sync starts only after every write submitted before it, of either
 *       sort, has returned.
 *   I4  No write, of either sort, starts while a read through the page cache
 *       that was submitted before it has not got its data, if it is to change
 *       what that reads: bytes of its range, or where the file ends.
 *   I5  Direct reads, and direct writes in place, which the kernel hands to the
 *       device inside io_submit, are free to overlap. What it makes there itself
 *       comes after them: an ordered write after those whose bytes it changes, a
 *       read through the page cache after such writes of its bytes.
 *   I6  A write that has to be alone (bounce.h) starts only after every write
 *       submitted before it, as a sync, and is waited for as an ordered one;
 *       and it waits until none is being made inline.
 *
 * All accepted writes that have not returned, all reads and all requests that
 * wait are on the inode's list in submission order. The first of the list
 * has always been started: it would have no reason to wait. So a request only
 * ever waits for older ones, and no two for each other.
 *
 * The key is the inode, not the descriptor: the same file opened twice is one
 * file. Requests made inline are never on the list; they run while it holds no
 * ordered write, and nothing of I4 and I5 over their bytes, and two threads that
 * submit at the same moment have no order.
 *
 * Thread-safety: any thread; a lock per inode.
 */
#ifndef UAIO_ENGINE_ORDER_H
#define UAIO_ENGINE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "options/config.h"
#include "file/inode.h"

struct uaio_req;

enum uaio_order {
	UAIO_ORDER_NONE, /* has no place: neither waits nor is waited for */
	UAIO_ORDER_READ_DIRECT,    /* all wait for ordered writes */
	UAIO_ORDER_READ,           /* through the page cache */
	UAIO_ORDER_WRITE_INPLACE,  /* direct */
	UAIO_ORDER_WRITE,          /* an ordered write, or at a position */
	UAIO_ORDER_WRITE_ALONE,    /* an ordered write that waits for all */
	UAIO_ORDER_WRITE_RETURNED, /* a write that only syncs still wait for */
	UAIO_ORDER_SYNC,           /* waits for all writes; not waited for */
};

/* Bytes of a file: those a request reads, or those whose reader it changes. */
struct uaio_range {
	uint64_t begin;
	uint64_t end;
};

static inline bool uaio_ranges_meet(const struct uaio_range *a,
				    const struct uaio_range *b)
{
	return a->begin < b->end && b->begin < a->end;
}

/* Return: whether everything later on its inode waits for it. */
static inline bool uaio_order_is_ordered(enum uaio_order order)
{
	return order == UAIO_ORDER_WRITE || order == UAIO_ORDER_WRITE_ALONE;
}

static inline bool uaio_order_is_write(enum uaio_order order)
{
	return uaio_order_is_ordered(order) ||
	       order == UAIO_ORDER_WRITE_INPLACE ||
	       order == UAIO_ORDER_WRITE_RETURNED;
}

/* Return: whether the device makes it, whenever that is (I5). */
static inline bool uaio_order_is_direct(enum uaio_order order)
{
	return order == UAIO_ORDER_READ_DIRECT ||
	       order == UAIO_ORDER_WRITE_INPLACE;
}

#define UAIO_A_READ (UINT64_C(1) << 32)

/* From nothing. */
void uaio_order_init(void);

static inline uint64_t uaio_inode_in_way(const struct uaio_inode *inode)
{
	/*
	 * [MB:ordered] acquire: what was counted has returned. Pairs with
	 * count_out_locked().
	 */
	return load_acquire(&inode->in_way);
}

/* Return: whether requests must queue rather than be made inline (I2). */
static inline bool uaio_inode_is_busy(const struct uaio_inode *inode)
{
	return (uint32_t)uaio_inode_in_way(inode) != 0;
}

static inline bool uaio_inode_has_direct(const struct uaio_inode *inode)
{
	/* [MB:ordered] acquire: as above. */
	return load_acquire(&inode->nr_direct) != 0;
}

/* Return: whether writes must look what is under way before them (I4, I5). */
static inline bool uaio_inode_minds_writes(const struct uaio_inode *inode)
{
	return uaio_inode_in_way(inode) >= UAIO_A_READ ||
	       uaio_inode_has_direct(inode);
}

/*
 * Return: whether a request of this order and range comes after one that was
 * submitted before and has not returned (I4, I5). The caller has a reference.
 */
bool uaio_inode_is_range_awaited(struct uaio_inode *inode,
				 enum uaio_order order,
				 const struct uaio_range *range);

/* The same where writes may have to be alone. */
bool uaio_inode_note_inline(struct uaio_inode *inode);
void uaio_inode_unnote_inline(struct uaio_inode *inode);

/*
 * Around a write that is made inline: whether it may be, or has to queue; and
 * its end, if it may. inode is borrowed under I2 of file.h.
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

/* For a write that is alone otherwise: sleep until nothing is made inline. */
void uaio_inode_await_inline(struct uaio_inode *inode);

/*
 * Put req in its place among its inode's requests.
 * Return: true if it may start at once, false if it waits.
 */
bool uaio_order_enter(struct uaio_req *req);

/*
 * req, a read or a write, has returned, or was cancelled after it had started:
 * reads and writes need not wait for it any more. ret_startable is appended the
 * requests (by their link) that may start now, oldest first.
 */
void uaio_order_return(struct uaio_req *req, struct list *ret_startable);

/* A write, and its event is posted: nor need syncs. ret_startable as above. */
void uaio_order_leave(struct uaio_req *req, struct list *ret_startable);

#endif /* UAIO_ENGINE_ORDER_H */
