/* SPDX-License-Identifier: MIT */
#include "wait/order.h"

#include <limits.h>

#include "base/check.h"
#include "base/sleep.h"
#include "req/req.h"
#include "req/waits.h"

/* atomic: how many requests wait for older ones, in all inodes */
static uint32_t nr_held_up;

bool uaio_inode_note_inline(struct uaio_inode *inode)
{
	/*
	 * [MB:inline] seq_cst: this thread counts its write, then reads in_way. Pairs
	 * with count_in_locked() and uaio_inode_await_inline(): either this thread sees
	 * the exclusive write (order.h, I6), or that write waits for this thread's
	 * write.
	 */
	add_seq_cst(&inode->nr_inline, 1);
	if (likely(!(uint32_t)load_seq_cst(&inode->in_way)))
		return true;
	uaio_inode_unnote_inline(inode);
	return false;
}

void uaio_inode_unnote_inline(struct uaio_inode *inode)
{
	/*
	 * [MB:inline] seq_cst: the write has returned. Pairs with
	 * uaio_inode_await_inline().
	 */
	if (sub_seq_cst(&inode->nr_inline, 1) == 1 &&
	    (uint32_t)load_seq_cst(&inode->in_way))
		uaio_wake(&inode->nr_inline, INT_MAX);
}

void uaio_inode_await_inline(struct uaio_inode *inode)
{
	uint32_t nr;

	/*
	 * [MB:inline] seq_cst: in_way already counts the exclusive write. Pairs with
	 * uaio_inode_note_inline().
	 */
	while ((nr = load_seq_cst(&inode->nr_inline)))
		(void)uaio_sleep(&inode->nr_inline, nr, UAIO_FOREVER);
}

/*
 * Counts
 */

/*
 * An order is a kind of request, such as a direct read.
 * Return: what a request of this order adds to in_way, a member of its inode that
 * counts requests (order.h).
 */
static uint64_t in_way(enum uaio_order order)
{
	return uaio_order_is_ordered(order) ? 1
	       : order == UAIO_ORDER_READ   ? UAIO_A_READ
					    : 0;
}

static void count_in_locked(struct uaio_inode *inode, enum uaio_order order)
{
	uint64_t sum = load_relaxed(&inode->in_way) + in_way(order);

	inode->nr_writes += uaio_order_is_write(order);
	/*
	 * relaxed: if two threads submit at the same time, their requests may be
	 * executed in either order. So other threads may see the new count late
	 */
	if (uaio_order_is_direct(order))
		store_relaxed(&inode->nr_direct,
			      load_relaxed(&inode->nr_direct) + 1);
	else if (order == UAIO_ORDER_WRITE_EXCLUSIVE)
		/*
		 * [MB:inline] seq_cst: count this exclusive write before reading the
		 * count of inline writes. Pairs with uaio_inode_note_inline().
		 */
		store_seq_cst(&inode->in_way, sum);
	else
		/*
		 * relaxed: if two threads submit at the same time, their requests may
		 * be executed in either order. So other threads may see the new in_way
		 * late
		 */
		store_relaxed(&inode->in_way, sum);
}

/*
 * A request of this order (kind) has returned, or will not be executed: count it no
 * longer.
 */
static void count_out_locked(struct uaio_inode *inode, enum uaio_order order)
{
	/*
	 * [MB:ordered] release, both: the read or write has returned. Pairs with
	 * uaio_inode_in_way() and uaio_inode_has_direct().
	 */
	if (uaio_order_is_direct(order))
		store_release(&inode->nr_direct,
			      load_relaxed(&inode->nr_direct) - 1);
	else
		store_release(&inode->in_way,
			      load_relaxed(&inode->in_way) - in_way(order));
}

/*
 * relaxed, both counts: a thread that removes a request, or closes the file, reads the
 * counts without the lock, and checks again under the lock
 */
static void hold_up_locked(struct uaio_inode *inode, struct uaio_req *req)
{
	uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_ORDERED);
	store_relaxed(&inode->nr_held_up, inode->nr_held_up + 1);
	add_relaxed(&nr_held_up, 1);
}

static void let_go_locked(struct uaio_inode *inode, struct uaio_req *req,
			  enum uaio_req_state state)
{
	uaio_req_move(req, UAIO_REQ_ORDERED, state);
	store_relaxed(&inode->nr_held_up, inode->nr_held_up - 1);
	sub_relaxed(&nr_held_up, 1);
}

/* Which requests wait */

static struct uaio_req *req_at(struct list *node)
{
	return container_of(node, struct uaio_req, in_order);
}

/*
 * Return: whether a request of the order `order` must wait for an older request of the
 * order `before`, if their ranges overlap (I4, I5). An order is a kind of request, such
 * as a direct read.
 */
static bool is_after(enum uaio_order order, enum uaio_order before)
{
	switch (before) {
	case UAIO_ORDER_READ: return uaio_order_is_write(order);
	case UAIO_ORDER_READ_DIRECT: return uaio_order_is_ordered(order);
	case UAIO_ORDER_WRITE_INPLACE:
		return uaio_order_is_ordered(order) || order == UAIO_ORDER_READ;
	default: return false;
	}
}

/*
 * Return: whether the inode's list may have a request for which a request of this order
 * (kind) must wait (is_after()).
 */
static bool may_be_after_locked(const struct uaio_inode *inode,
				enum uaio_order order)
{
	/*
	 * relaxed, both: these counts change only under the lock, which the caller
	 * holds
	 */
	return (load_relaxed(&inode->in_way) >= UAIO_A_READ &&
		is_after(order, UAIO_ORDER_READ)) ||
	       (load_relaxed(&inode->nr_direct) &&
		is_after(order, UAIO_ORDER_WRITE_INPLACE));
}

/*
 * Return: whether an older request (before `end` in the inode's list) has an
 * overlapping range, and a request of this order (kind) must wait for it (is_after()).
 */
static bool is_range_awaited_locked(struct uaio_inode *inode,
				    enum uaio_order order,
				    const struct uaio_range *range,
				    const struct list *end)
{
	if (!may_be_after_locked(inode, order))
		return false;
	for (struct list *pos = inode->requests.next; pos != end;
	     pos = pos->next)
		if (is_after(order, req_at(pos)->order) &&
		    uaio_ranges_meet(&req_at(pos)->range, range))
			return true;
	return false;
}

bool uaio_inode_is_range_awaited(struct uaio_inode *inode,
				 enum uaio_order order,
				 const struct uaio_range *range)
{
	bool is_awaited;

	uaio_lock(&inode->lock, UAIO_RANK_INODE);
	is_awaited =
		is_range_awaited_locked(inode, order, range, &inode->requests);
	uaio_unlock(&inode->lock, UAIO_RANK_INODE);
	return is_awaited;
}

/*
 * Return: whether req must wait for older requests (I1-I6), which are the requests
 * before `end` in the inode's list. `after_ordered` says whether one of the older
 * requests is ordered, `after_write` whether one of them is a write.
 */
static bool must_wait_locked(struct uaio_inode *inode,
			     const struct uaio_req *req, const struct list *end,
			     bool after_ordered, bool after_write)
{
	if (req->order == UAIO_ORDER_SYNC)
		return after_write;
	if (after_ordered ||
	    (req->order == UAIO_ORDER_WRITE_EXCLUSIVE && after_write))
		return true;
	return is_range_awaited_locked(inode, req->order, &req->range, end);
}

static bool is_read(enum uaio_order order)
{
	return order == UAIO_ORDER_READ || order == UAIO_ORDER_READ_DIRECT;
}

static bool has_place(enum uaio_order order)
{
	return uaio_order_is_write(order) || is_read(order);
}

bool uaio_order_enter(struct uaio_req *req)
{
	struct uaio_inode *inode = req->file->inode;
	bool waits;

	uaio_lock(&inode->lock, UAIO_RANK_INODE);
	waits = must_wait_locked(inode, req, &inode->requests,
				 (uint32_t)load_relaxed(&inode->in_way) > 0,
				 inode->nr_writes > 0);
	if (waits || has_place(req->order))
		list_add_tail(&inode->requests, &req->in_order);
	count_in_locked(inode, req->order);
	if (waits)
		hold_up_locked(inode, req);
	uaio_unlock(&inode->lock, UAIO_RANK_INODE);
	return !waits;
}

/*
 * Start the requests that need not wait any longer. Every request after the first
 * ordered write must wait, so the loop ends there.
 */
static void start_locked(struct uaio_inode *inode, struct list *ret_startable)
{
	bool after_write = false;

	/* relaxed: the count changes only under the lock, which the caller holds */
	if (!load_relaxed(&inode->nr_held_up))
		return;
	list_for_each_safe (pos, &inode->requests) {
		struct uaio_req *req = req_at(pos);

		if (uaio_req_state(req) == UAIO_REQ_ORDERED &&
		    !must_wait_locked(inode, req, pos, false, after_write)) {
			let_go_locked(inode, req, UAIO_REQ_PREPPED);
			list_add_tail(ret_startable, &req->link);
			if (!has_place(req->order))
				list_remove(&req->in_order);
		}
		after_write |= uaio_order_is_write(req->order);
		if (uaio_order_is_ordered(req->order))
			break;
	}
}

/*
 * A write has returned, or will not be executed: from now on only syncs wait for it,
 * until it leaves the inode's list.
 */
static void release_locked(struct uaio_inode *inode, struct uaio_req *req,
			   struct list *ret_startable)
{
	if (!uaio_order_is_write(req->order))
		return;
	count_out_locked(inode, req->order);
	req->order = UAIO_ORDER_WRITE_RETURNED;
	start_locked(inode, ret_startable);
}

/*
 * Return: whether an older write is on the inode's list. If so, a sync that waits for
 * req also waits for the older write, and cannot start yet.
 */
static bool is_behind_write(const struct uaio_inode *inode,
			    const struct uaio_req *req)
{
	for (struct list *pos = req->in_order.prev; pos != &inode->requests;
	     pos = pos->prev)
		if (uaio_order_is_write(req_at(pos)->order))
			return true;
	return false;
}

/* Remove req (a read, a sync, or a write that has returned) from its inode's list. */
static void remove_locked(struct uaio_inode *inode, struct uaio_req *req,
			  struct list *ret_startable)
{
	bool is_write = uaio_order_is_write(req->order);
	bool starts = !is_write || !is_behind_write(inode, req);

	list_remove(&req->in_order);
	inode->nr_writes -= is_write;
	if (is_read(req->order))
		count_out_locked(inode, req->order);
	if (starts)
		start_locked(inode, ret_startable);
}

void uaio_order_return(struct uaio_req *req, struct list *ret_startable)
{
	struct uaio_inode *inode = uaio_req_inode(req);

	if (!inode || !has_place(req->order))
		return;
	uaio_lock(&inode->lock, UAIO_RANK_INODE);
	if (is_read(req->order))
		remove_locked(inode, req, ret_startable);
	else
		release_locked(inode, req, ret_startable);
	uaio_unlock(&inode->lock, UAIO_RANK_INODE);
}

void uaio_order_leave(struct uaio_req *req, struct list *ret_startable)
{
	struct uaio_inode *inode = uaio_req_inode(req);

	if (!inode || !uaio_order_is_write(req->order))
		return;
	uaio_lock(&inode->lock, UAIO_RANK_INODE);
	remove_locked(inode, req, ret_startable);
	uaio_unlock(&inode->lock, UAIO_RANK_INODE);
}

static bool may_await(const struct uaio_req *req)
{
	/*
	 * If req is the oldest cold read (page.h) of its device, cold reads of other
	 * files may wait for req. Requests on those files may in turn wait for their
	 * cold reads. So requests of all inodes may wait for req.
	 */
	return uaio_order_is_write(req->order) ||
	       (is_read(req->order) &&
		(load_relaxed(&req->file->inode->nr_held_up) ||
		 (req->is_oldest && load_relaxed(&nr_held_up))));
}

static enum uaio_cancel cancel(struct uaio_req *req,
			       struct uaio_canceller *canceller,
			       struct list *ret_startable)
{
	struct uaio_inode *inode = uaio_req_inode(req);
	enum uaio_cancel ret = UAIO_CANCEL_NONE;

	(void)canceller;
	uaio_lock(&inode->lock, UAIO_RANK_INODE);
	if (uaio_req_state(req) == UAIO_REQ_ORDERED) {
		let_go_locked(inode, req, UAIO_REQ_RUNNING);
		release_locked(inode, req, ret_startable);
		remove_locked(inode, req, ret_startable);
		req->order = UAIO_ORDER_NONE;
		ret = UAIO_CANCEL_TAKEN;
	}
	uaio_unlock(&inode->lock, UAIO_RANK_INODE);
	return ret;
}

void uaio_order_init(void)
{
	static const struct uaio_wait_ops ordered = {
		.cancel = cancel,
		.may_await = may_await,
	};

	store_relaxed(&nr_held_up, 0);
	uaio_waits_register(UAIO_REQ_ORDERED, &ordered);
}
