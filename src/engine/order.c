/* SPDX-License-Identifier: MIT */
#include "engine/order.h"

#include <limits.h>

#include "base/check.h"
#include "base/sleep.h"
#include "engine/req.h"

enum { NR_BUCKETS = 1024 };

static struct {
	struct uaio_lock lock;
	struct uaio_inode *buckets[NR_BUCKETS]; /* under lock */
	struct uaio_slab slab;
} inodes;

void uaio_order_init(void)
{
	inodes.lock = (struct uaio_lock){ 0 };
	for (unsigned i = 0; i < NR_BUCKETS; i++)
		inodes.buckets[i] = NULL;
	uaio_slab_init(&inodes.slab, sizeof(struct uaio_inode), 16384);
}

static struct uaio_inode **bucket_of(uint64_t dev, uint64_t ino)
{
	uint64_t hash = (ino ^ dev << 32) * 0x9e3779b97f4a7c15;

	return &inodes.buckets[hash >> 54]; /* 10 bits */
}

static_assert(NR_BUCKETS == 1 << 10, "bucket_of() takes ten bits");

struct uaio_inode *uaio_inode_get(uint64_t dev, uint64_t ino)
{
	struct uaio_inode **bucket = bucket_of(dev, ino), *inode;

	uaio_lock(&inodes.lock, UAIO_RANK_INODES);
	for (inode = *bucket; inode; inode = inode->next)
		if (inode->dev == dev && inode->ino == ino)
			break;
	if (!inode) {
		inode = uaio_slab_get(&inodes.slab);
		if (!inode)
			goto out;
		/* relaxed: readers without a reference take any advice */
		store_relaxed(&inode->dev, dev);
		store_relaxed(&inode->ino, ino);
		inode->refs = 0;
		list_init(&inode->requests);
		/* relaxed: nobody else has it yet */
		store_relaxed(&inode->nr_ordered, 0);
		store_relaxed(&inode->nr_closers, 0);
		store_relaxed(&inode->nr_slow, 0);
		store_relaxed(&inode->slow_until_ns, 0);
		inode->next = *bucket;
		*bucket = inode;
	}
	inode->refs++;
out:
	uaio_unlock(&inodes.lock, UAIO_RANK_INODES);
	return inode;
}

void uaio_inode_put(struct uaio_inode *inode)
{
	struct uaio_inode **link;
	bool is_last;

	uaio_lock(&inodes.lock, UAIO_RANK_INODES);
	is_last = --inode->refs == 0;
	if (is_last) {
		UAIO_CHECK(list_is_empty(&inode->requests));
		link = bucket_of(inode->dev, inode->ino);
		while (*link != inode)
			link = &(*link)->next;
		*link = inode->next;
	}
	uaio_unlock(&inodes.lock, UAIO_RANK_INODES);
	if (is_last)
		uaio_slab_put(&inodes.slab, inode);
}

bool uaio_inode_note_inline(struct uaio_inode *inode)
{
	/*
	 * [MB:inline] seq_cst: announced before the look. Pairs with
	 * count_ordered_locked() and uaio_inode_await_inline(): either we see
	 * who is to be alone, or he waits for us.
	 */
	add_seq_cst(&inode->nr_inline, 1);
	if (likely(!load_seq_cst(&inode->nr_ordered)))
		return true;
	uaio_inode_unnote_inline(inode);
	return false;
}

void uaio_inode_unnote_inline(struct uaio_inode *inode)
{
	/* [MB:inline] seq_cst: as above; the write comes before it. */
	if (sub_seq_cst(&inode->nr_inline, 1) == 1 &&
	    load_seq_cst(&inode->nr_ordered))
		uaio_wake(&inode->nr_inline, INT_MAX);
}

void uaio_inode_await_inline(struct uaio_inode *inode)
{
	uint32_t nr;

	/* [MB:inline] seq_cst: after the count of ordered ones was raised. */
	while ((nr = load_seq_cst(&inode->nr_inline)))
		(void)uaio_sleep(&inode->nr_inline, nr, UAIO_FOREVER);
}

/* What stands before a request decides whether it has to wait (I1-I3, I5). */
static bool must_wait(enum uaio_order order, bool after_ordered,
		      bool after_write)
{
	return order == UAIO_ORDER_SYNC || order == UAIO_ORDER_WRITE_ALONE
		       ? after_write
		       : after_ordered;
}

static void count_ordered_locked(struct uaio_inode *inode,
				 enum uaio_order order)
{
	uint32_t nr = load_relaxed(&inode->nr_ordered) + 1;

	if (order == UAIO_ORDER_WRITE_ALONE)
		/*
		 * [MB:inline] seq_cst: before who is made inline is looked at.
		 * Pairs with uaio_inode_note_inline().
		 */
		store_seq_cst(&inode->nr_ordered, nr);
	else
		/* relaxed: advice to others until we return to our client */
		store_relaxed(&inode->nr_ordered, nr);
}

bool uaio_order_enter(struct uaio_req *req)
{
	struct uaio_inode *inode = req->file->inode;
	bool waits;

	uaio_lock(&inode->lock, UAIO_RANK_INODE);
	/* A list that is not empty begins with a write, see the header. */
	waits = must_wait(req->order, load_relaxed(&inode->nr_ordered) > 0,
			  !list_is_empty(&inode->requests));
	if (waits || uaio_order_is_write(req->order))
		list_add_tail(&inode->requests, &req->in_order);
	if (uaio_order_is_ordered(req->order))
		count_ordered_locked(inode, req->order);
	if (waits)
		uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_ORDERED);
	uaio_unlock(&inode->lock, UAIO_RANK_INODE);
	return !waits;
}

/*
 * Start what has nothing to wait for any more. Nothing behind the first
 * ordered write can be startable, so the walk ends there.
 */
static void start_locked(struct uaio_inode *inode, struct list *ret_startable)
{
	bool after_write = false;

	list_for_each_safe (pos, &inode->requests) {
		struct uaio_req *req =
			container_of(pos, struct uaio_req, in_order);

		if (uaio_req_state(req) == UAIO_REQ_ORDERED &&
		    !must_wait(req->order, false, after_write)) {
			uaio_req_move(req, UAIO_REQ_ORDERED, UAIO_REQ_PREPPED);
			list_add_tail(ret_startable, &req->link);
			if (!uaio_order_is_write(req->order))
				list_remove(&req->in_order);
		}
		after_write |= uaio_order_is_write(req->order);
		if (uaio_order_is_ordered(req->order))
			break;
	}
}

/* An ordered write has returned, or will not be made: only syncs mind it. */
static void release_locked(struct uaio_inode *inode, struct uaio_req *req,
			   struct list *ret_startable)
{
	if (!uaio_order_is_ordered(req->order))
		return;
	req->order = UAIO_ORDER_WRITE_INPLACE;
	/*
	 * [MB:ordered] release: the write has returned. Pairs with
	 * uaio_inode_is_busy().
	 */
	store_release(&inode->nr_ordered, load_relaxed(&inode->nr_ordered) - 1);
	start_locked(inode, ret_startable);
}

static void remove_locked(struct uaio_inode *inode, struct uaio_req *req,
			  struct list *ret_startable)
{
	bool was_first = inode->requests.next == &req->in_order;

	list_remove(&req->in_order);
	/* The first is a started write: a sync behind it waits for it, too. */
	if (was_first)
		start_locked(inode, ret_startable);
}

void uaio_order_return(struct uaio_req *req, struct list *ret_startable)
{
	struct uaio_inode *inode = req->file->inode;

	if (!inode || !uaio_order_is_ordered(req->order))
		return;
	uaio_lock(&inode->lock, UAIO_RANK_INODE);
	release_locked(inode, req, ret_startable);
	uaio_unlock(&inode->lock, UAIO_RANK_INODE);
}

void uaio_order_leave(struct uaio_req *req, struct list *ret_startable)
{
	struct uaio_inode *inode = req->file->inode;

	if (!inode || !uaio_order_is_write(req->order))
		return;
	uaio_lock(&inode->lock, UAIO_RANK_INODE);
	remove_locked(inode, req, ret_startable);
	uaio_unlock(&inode->lock, UAIO_RANK_INODE);
}

bool uaio_order_cancel(struct uaio_req *req, struct list *ret_startable)
{
	struct uaio_inode *inode = req->file->inode;
	bool waited = false;

	if (!inode)
		return false;
	uaio_lock(&inode->lock, UAIO_RANK_INODE);
	if (uaio_req_state(req) == UAIO_REQ_ORDERED) {
		uaio_req_move(req, UAIO_REQ_ORDERED, UAIO_REQ_RUNNING);
		release_locked(inode, req, ret_startable);
		remove_locked(inode, req, ret_startable);
		req->order = UAIO_ORDER_READ; /* it has no place any more */
		waited = true;
	}
	uaio_unlock(&inode->lock, UAIO_RANK_INODE);
	return waited;
}
