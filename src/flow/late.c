/* SPDX-License-Identifier: MIT */
#include "flow/late.h"

#include "base/check.h"
#include "base/sleep.h"
#include "check/check.h"
#include "req/queue.h"
#include "req/record.h"
#include "req/req.h"
#include "wait/order.h"
#include "ready/attend.h"
#include "ready/ready.h"
#include "ready/timer.h"
#include "flow/copy.h"
#include "flow/defer.h"
#include "flow/flow.h"
#include "flow/gate.h"
#include "flow/link.h"

/*
 * Release everything that a completing request releases, but keep the request in its
 * group (the requests of its queue).
 */
static void release_resources(struct uaio_req *req, struct uaio_worker *worker,
			      struct list *ret_startable)
{
	struct uaio_device *device = req->is_oldest ? req->device : NULL;
	bool is_write = uaio_order_is_write(req->order);
	bool delayed_exit = uaio_req_delays_exit(req);
	struct uaio_file *file = req->file;

	if (req->owns_waitq)
		uaio_ready_returned(req);
	if (uaio_req_uses_number(req))
		uaio_file_unuse(file);
	uaio_copy_drop(req);
	if (req->order != UAIO_ORDER_NONE)
		uaio_order_return(req, ret_startable);
	if (is_write)
		uaio_order_leave(req, ret_startable);
	uaio_lock(&req->group->lock, UAIO_RANK_GROUP);
	uaio_index_change_file(req, NULL);
	uaio_unlock(&req->group->lock, UAIO_RANK_GROUP);
	if (file)
		uaio_file_put(file);
	if (delayed_exit)
		uaio_gate_delay_over();
	if (device)
		uaio_req_read_next(device, worker, ret_startable);
}

/*
 * Turn req into a timer. What clients and front-ends see stays as it is: `key`, `word`
 * (sink.h), and the position in a chain.
 */
static void become_timer(struct uaio_req *req, int64_t res, bool breaks,
			 int64_t delay_ns)
{
	struct uaio_sqe *sqe = &req->sqe;

	uaio_lock(&req->group->lock, UAIO_RANK_GROUP);
	req->late.held = breaks ? UAIO_REQ_HOLDS_BREAK : UAIO_REQ_IS_HELD;
	sqe->op = UAIO_OP_TIMER;
	sqe->is_multishot = sqe->is_fixed = sqe->by_door = false;
	sqe->timer_flags = 0;
	sqe->len = 0;
	sqe->buf = NULL;
	req->order = UAIO_ORDER_NONE;
	req->next = UAIO_NEXT_WAIT_TIME;
	req->owns_waitq = req->is_oldest = req->is_unwanted = false;
	req->device = NULL;
	req->watch = NULL;
	req->done_bytes = res;
	req->until_ns = uaio_now_ns() + delay_ns;
	uaio_unlock(&req->group->lock, UAIO_RANK_GROUP);
}

/*
 * Save what a trace reports of req, before req becomes the timer that delays its
 * completion. If the request was executed in parts, sqe now has the length and offset of
 * the last part, and the trace reports these.
 */
static void record_for_traces(struct uaio_req *req,
			      const struct uaio_worker *worker)
{
	const struct uaio_op_def *op = &uaio_optab[req->sqe.op];
	bool has_place = op->class <= UAIO_CLASS_SYNC && !op->is_of_socket;

	req->late.op = req->sqe.op;
	req->late.fd = op->has_no_file ? -1 : req->sqe.fd;
	req->late.off = has_place && req->sqe.off >= 0 ? req->sqe.off : -1;
	req->late.len =
		has_place && !op->copies ? uaio_sqe_bytes(&req->sqe) : 0;
	if (req->file)
		req->late.file = uaio_record_file(req->file);
	if (req->late.by == UAIO_NR_BYS)
		req->late.by = (uint8_t)uaio_req_by(req, worker);
}

/* Return: how long the completion is to be held back; 0 if it is not. */
static int64_t delay_of(struct uaio_req *req)
{
	req->late.awaits_call = !req->late.delay_ns && req->late.record &&
				!uaio_check_is_over(req->late.record);
	return req->late.awaits_call ? UAIO_CHECK_HOLD_NS : req->late.delay_ns;
}

static bool hold(struct uaio_req *req, int64_t res, struct uaio_worker *worker,
		 struct list *ret_startable)
{
	struct uaio_group *group = req->group;
	int64_t delay_ns = delay_of(req);
	bool breaks, is_held;

	if (!delay_ns || uaio_gate_is_closed())
		return false;
	breaks = req->sqe.links && uaio_link_breaks(req, res);
	record_for_traces(req, worker);
	uaio_ready_pin(&group->ready);
	release_resources(req, worker, ret_startable);
	if (req->sqe.is_signalled)
		uaio_attend_note(uaio_queue_of(group));
	become_timer(req, res, breaks, delay_ns);
	is_held = uaio_req_park(req) == 0;
	uaio_ready_unpin(&group->ready);
	return is_held;
}

bool uaio_late_hold(struct uaio_req *req, int64_t *res,
		    struct uaio_worker *worker, struct list *ret_startable)
{
	if (unlikely(req->late.held == UAIO_REQ_DEFERRED)) {
		/*
		 * The request was deferred, and a canceller has cancelled it before it
		 * started. So release the descriptor that the library kept for it, if its
		 * file is a stream.
		 */
		if (req->file && !uaio_req_inode(req))
			uaio_file_unuse(req->file);
		uaio_defer_is_over(req);
	} else if (req->late.held)
		*res = req->done_bytes;
	else if (hold(req, *res, worker, ret_startable))
		return true;
	uaio_check_complete(req->late.record, *res);
	return false;
}
