/* SPDX-License-Identifier: MIT */
#include "issue/place.h"

#include "req/req.h"
#include "wait/order.h"
#include "wait/page.h"
#include "ready/ready.h"
#include "issue/extent.h"

/* Polls have no place in the order, nor has what is on no inode. */
static bool is_in_order(const struct uaio_req *req)
{
	return uaio_req_inode(req) &&
	       uaio_optab[req->sqe.op].class != UAIO_CLASS_POLL;
}

enum uaio_next uaio_place(struct uaio_req *req, enum uaio_next next,
			  uint64_t end)
{
	req->next = UAIO_NEXT_WORKER;
	if (!is_in_order(req)) {
		if (uaio_next_parks(next))
			req->next = (uint8_t)next;
		/*
		 * A blocking call on a stream may last for ever, and closing
		 * the descriptor must not wait for it.
		 */
		else if (req->file)
			(void)uaio_file_make_private(req->file);
		return req->next;
	}
	/* It was a stream when it was tried, and is not any more. */
	if (uaio_next_parks(next))
		uaio_ready_unexpect(req->group);
	req->order =
		(uint8_t)uaio_order_of(req->file, &req->sqe, end, &req->range);
	if (uaio_has_order(req) && !uaio_order_enter(req))
		return UAIO_NEXT_WAIT_ORDER;
	if (next == UAIO_NEXT_WAIT_PAGES && uaio_page_expect(req))
		req->next = (uint8_t)next;
	return req->next;
}
