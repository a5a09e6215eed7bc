/* SPDX-License-Identifier: MIT */
#include "issue/place.h"

#include "op/args.h"
#include "req/queue.h"
#include "req/req.h"
#include "wait/order.h"
#include "ready/ready.h"
#include "flow/link.h"
#include "issue/extent.h"

/* Polls, and requests without an inode, are not ordered. */
static bool is_in_order(const struct uaio_req *req)
{
	return uaio_req_inode(req) &&
	       uaio_optab[req->sqe.op].class != UAIO_CLASS_POLL;
}

/*
 * Take references to the two files of a splice.
 * Return: 0; -EBADF if a file is not open; -EMFILE if no descriptor is left; -EAGAIN if
 * memory is refused.
 */
static __attribute__((noinline)) int fix_ends(struct uaio_req *req)
{
	struct uaio_queue *queue = uaio_queue_of(req->group);

	return uaio_args_fix(req->sqe.args, req->sqe.fd, queue,
			     queue->sink->get_fixed);
}

/* Decide what a request that is not ordered has to wait for. */
static enum uaio_next place_by_itself(const struct uaio_req *req,
				      enum uaio_next next)
{
	if (uaio_next_parks(next))
		return next;
	/*
	 * A worker's call on a stream may block for ever, and close() waits for calls on
	 * its descriptor. So let the worker use a private duplicate of the descriptor,
	 * for which close() need not wait.
	 */
	if (req->file)
		(void)uaio_file_make_private(req->file);
	return UAIO_NEXT_WORKER;
}

static enum uaio_next place_in_order(struct uaio_req *req, enum uaio_next next,
				     uint64_t end)
{
	/*
	 * When the submitting thread tried the request, the descriptor referred to a
	 * stream. Now it refers to a regular file, so the request is not parked.
	 */
	if (uaio_next_parks(next))
		uaio_ready_unexpect(req->group);
	/*
	 * Set req->next before the request enters the order of its inode: from then on
	 * other threads may start the request.
	 */
	req->next = UAIO_NEXT_WORKER;
	req->order =
		(uint8_t)uaio_order_of(req->file, &req->sqe, end, &req->range);
	if (uaio_has_order(req) && !uaio_order_enter(req))
		return UAIO_NEXT_WAIT_ORDER;
	return uaio_next_parks(next) ? UAIO_NEXT_WORKER : next;
}

int uaio_place(struct uaio_req *req, enum uaio_next next,
	       const struct uaio_outcome *outcome, enum uaio_next *ret_next)
{
	bool parks = uaio_next_parks(next);
	int ret;

	if (unlikely(uaio_optab[req->sqe.op].has_ends) &&
	    (ret = fix_ends(req)) < 0)
		return ret;
	if (outcome->res)
		uaio_req_advance(req, (uint64_t)outcome->res);
	if (parks) {
		req->edges = outcome->edges;
		req->until_ns = outcome->until_ns;
		/*
		 * looker: this thread, which has just polled the file. An edge (an event
		 * of epoll) that this thread stores later came after the poll, so the
		 * file is ready. Exception: a thread that runs wait queues (ready/run.c)
		 * may have got the edge from epoll before the poll. Its looker is NULL.
		 */
		if (uaio_optab[req->sqe.op].class == UAIO_CLASS_POLL)
			req->looker = uaio_entry.run ? NULL : &uaio_entry;
	}
	if (unlikely(req->sqe.links))
		uaio_link_goes(req);
	*ret_next = is_in_order(req)
			    ? place_in_order(req, next,
					     parks ? 0 : outcome->file_end)
			    : place_by_itself(req, next);
	if (*ret_next != UAIO_NEXT_WAIT_ORDER)
		req->next = (uint8_t)*ret_next;
	return 0;
}
