/* SPDX-License-Identifier: MIT */
/*
 * Order of requests on one inode
 *
 * The kernel makes buffered requests inside io_submit, so their order is the
 * order of submission, and programs rely on it. Where we hand requests to
 * workers this file keeps what of it can be observed:
 *
 *   I1  Ordered writes (buffered, appending, size-extending) of one inode take
 *       effect one at a time, in the order they were submitted.
 *   I2  While one of them waits or runs, everything later on that inode, reads
 *       included, waits behind it, and nothing is made inline.
 *   I3  A sync starts only after every write submitted before it, of either
 *       sort, has returned.
 *   I4  Reads and in-place direct writes are otherwise free to overlap.
 *   I5  A write that has to be alone (bounce.h) starts only after every write
 *       submitted before it, as a sync, and is waited for as an ordered one;
 *       and it waits until none is being made inline.
 *
 * All accepted writes that have not returned, and all requests that wait, are
 * on the inode's list in submission order. The first of the list is always a
 * write that has been started: anything else there would have no reason to
 * wait.
 *
 * The key is the inode, not the descriptor: the same file opened twice is one
 * file. Requests made inline are never on the list; they run while it holds no
 * ordered write, and two threads that submit at the same moment have no order.
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
#include "engine/config.h"
#include "engine/slab.h"

struct uaio_req;

enum uaio_order {
	UAIO_ORDER_READ,          /* waits for ordered writes; not waited for */
	UAIO_ORDER_WRITE_INPLACE, /* waits for ordered writes */
	UAIO_ORDER_WRITE,         /* an ordered write */
	UAIO_ORDER_WRITE_ALONE,   /* an ordered write that waits for all */
	UAIO_ORDER_SYNC,          /* waits for all writes; not waited for */
};

/* Return: whether everything later on its inode waits for it. */
static inline bool uaio_order_is_ordered(enum uaio_order order)
{
	return order == UAIO_ORDER_WRITE || order == UAIO_ORDER_WRITE_ALONE;
}

static inline bool uaio_order_is_write(enum uaio_order order)
{
	return uaio_order_is_ordered(order) ||
	       order == UAIO_ORDER_WRITE_INPLACE;
}

struct uaio_inode {
	struct uaio_slab_node node;

	/* immutable after init */
	uint64_t dev;
	uint64_t ino;

	/* under the table's lock */
	struct uaio_inode *next; /* in the same bucket */
	uint32_t refs;

	/* atomic */
	uint32_t
		nr_ordered; /* ordered writes on the list; written under lock */
	uint32_t nr_slow;   /* writes in a row that were seen to block */
	int64_t slow_until_ns; /* writes go to workers until then */
	uint32_t nr_closers;   /* threads that wait for requests of it */
	/*
	 * Requests that are being made inline, where some may have to be alone.
	 * Never reset: who was slow may still count one of the last inode here.
	 */
	uint32_t nr_inline;

	/* under lock */
	struct uaio_lock lock;
	struct list requests;
};

/* From nothing. */
void uaio_order_init(void);

/* Return: the inode, with a reference, or NULL if memory is refused. */
struct uaio_inode *uaio_inode_get(uint64_t dev, uint64_t ino);
void uaio_inode_put(struct uaio_inode *inode);

/* Return: whether requests must queue rather than be made inline (I2). */
static inline bool uaio_inode_is_busy(const struct uaio_inode *inode)
{
	/*
	 * [MB:ordered] acquire: the writes that were counted have returned.
	 * Pairs with uaio_order_leave().
	 */
	return load_acquire(&inode->nr_ordered) != 0;
}

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
 * req, if it is a write, has returned, or was cancelled after it had started:
 * reads and writes need not wait for it any more. ret_startable is appended the
 * requests (by their link) that may start now, oldest first.
 */
void uaio_order_return(struct uaio_req *req, struct list *ret_startable);

/* And its event is posted: nor need syncs. ret_startable as above. */
void uaio_order_leave(struct uaio_req *req, struct list *ret_startable);

/*
 * Take req out if it still waits.
 * Return: true if it did; it is the caller's then. Others may start:
 * ret_startable as above.
 */
bool uaio_order_cancel(struct uaio_req *req, struct list *ret_startable);

#endif /* UAIO_ENGINE_ORDER_H */
