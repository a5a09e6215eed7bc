/* SPDX-License-Identifier: MIT */
/*
 * Starting requests: each request waits, goes to a worker, or completes. Tested by
 * test-nop.c and all other tests with requests that wait.
 */
#include <errno.h>

#include "base/check.h"
#include "file/inode.h"
#include "req/queue.h"
#include "req/req.h"
#include "wait/page.h"
#include "ready/ready.h"
#include "ready/timer.h"
#include "split/split.h"
#include "split/whole.h"
#include "flow/copy.h"
#include "flow/defer.h"
#include "flow/flow.h"
#include "flow/kernel.h"
#include "flow/link.h"

void uaio_req_to_worker(struct uaio_req *req, struct uaio_handover *handover)
{
	enum uaio_account account = uaio_req_account(req);
	const struct uaio_inode *inode = uaio_req_inode(req);

	/*
	 * The work queue limits the workers of each device. The work queue knows a device
	 * by a number of 32 bits. If the file is a block device, inode->dev is
	 * UINT64_MAX, and inode->ino is the device number.
	 */
	req->work.device = account != UAIO_BOUNDED || !inode ? 0
			   : inode->dev == UINT64_MAX ? (uint32_t)inode->ino
						      : (uint32_t)inode->dev;
	uaio_wq_add(account, &req->work, handover);
}

/*
 * Send a request, which is PREPPED (about to be started), where req->next says: it waits
 * for its file, a time or its pages, or goes to the driver (io_uring) or to a worker.
 * Return: false if the request was to be parked, but its queue is being closed.
 */
static inline __attribute__((always_inline)) bool
route(struct uaio_req *req, struct uaio_handover *handover)
{
	UAIO_CHECK(req->next > UAIO_NEXT_WAIT_ORDER);
	if (uaio_next_parks(req->next))
		return uaio_ready_park(req, UAIO_REQ_PREPPED);
	if (req->next == UAIO_NEXT_WAIT_PAGES && uaio_page_park(req))
		return true;
	req->next = UAIO_NEXT_WORKER;
	if (unlikely(uaio_kernel_line(req, handover)))
		return true;
	uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_QUEUED);
	uaio_req_to_worker(req, handover);
	return true;
}

/*
 * Park a RUNNING request. First count the request, get its watch (which connects the
 * queue with the file), and keep its queue from being freed (uaio_ready_pin()). Then
 * announce the request to the threads that wait for events of that queue.
 * test/model/park.pml is a model of this function; test-park-steps.c stops it after each
 * instruction.
 */
int uaio_req_park(struct uaio_req *req)
{
	struct uaio_group *group = req->group;
	bool parks;

	if (uaio_ready_expect_req(req) < 0)
		return -EAGAIN;
	/* [step: PIN] */
	uaio_ready_pin(&group->ready);
	uaio_lock(&group->lock, UAIO_RANK_GROUP);
	/*
	 * [step: UNWANTED] A canceller that came before this step has set is_unwanted. A
	 * canceller that comes after it finds req parked.
	 */
	parks = !req->is_unwanted;
	if (likely(parks))
		parks = uaio_ready_park(req, UAIO_REQ_RUNNING);
	else
		uaio_ready_unexpect(group);
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);
	if (parks)
		uaio_ready_announce(group);
	/* [step: UNPIN] */
	uaio_ready_unpin(&group->ready);
	return parks ? 0 : -ECANCELED;
}

/*
 * Execute a request in this thread. Meanwhile `worker`, unless NULL, counts as blocked.
 */
static int64_t execute_here(struct uaio_req *req, struct uaio_worker *worker)
{
	bool blocks = worker && uaio_wq_blocks(worker);
	int64_t res;

	res = uaio_req_execute(req);
	if (blocks)
		uaio_wq_returned(worker);
	return res;
}

/*
 * End a request that could not be queued or parked. If it was to be parked, its queue is
 * being closed: it ends as cancelled. A bounded request (one that ends by itself) is
 * executed by the calling thread. All others fail with EAGAIN. These are unbounded requests
 * for which no thread can be created, and requests with other credentials than this
 * thread's, if no worker has those credentials.
 */
static void end_here(struct uaio_req *req, struct uaio_worker *worker,
		     struct list *ret_startable)
{
	int64_t res;

	uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_RUNNING);
	if (uaio_next_parks(req->next))
		res = uaio_req_cancelled_res(req);
	else if (uaio_req_account(req) == UAIO_BOUNDED &&
		 uaio_wq_is_mine(&req->work))
		res = execute_here(req, worker);
	else
		res = -EAGAIN;
	uaio_req_finish(req, res, worker, ret_startable);
}

/*
 * Issue a request that was HELD. Meanwhile keep its queue from being freed: if the
 * request parks, another thread may complete it.
 * Return: false if the request was to be parked, but its queue is being closed.
 */
static __attribute__((noinline)) bool start_held(struct uaio_req *req,
						 struct uaio_handover *handover,
						 struct list *ret_startable)
{
	struct uaio_group *group = req->group;
	enum uaio_next next;
	bool went = true;
	int64_t res;

	uaio_ready_pin(&group->ready);
	next = uaio_link_issue(req, &res);
	if (next == UAIO_NEXT_DONE) {
		uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_RUNNING);
		uaio_req_finish(req, res, handover->worker, ret_startable);
	} else if (unlikely(next == UAIO_NEXT_WAIT_TIME) && req->file) {
		went = uaio_timer_park(req, UAIO_REQ_PREPPED);
	} else if (next != UAIO_NEXT_WAIT_ORDER) {
		went = route(req, handover);
	}
	if (uaio_next_parks(next))
		uaio_ready_announce(group);
	/*
	 * A timer may also end after a number of completions (io_uring). These may be
	 * posted already, so let the front-end check (`act` in sink.h).
	 */
	if (next == UAIO_NEXT_WAIT_TIME && uaio_queue_of(group)->sink->act)
		uaio_queue_of(group)->sink->act(uaio_queue_of(group));
	uaio_ready_unpin(&group->ready);
	uaio_link_started();
	return went;
}

/* Start a request. Requests that may start as a result are appended to ret_startable. */
static void start_one(struct uaio_req *req, struct uaio_handover *handover,
		      struct list *ret_startable)
{
	bool went;

	if (unlikely(req->sqe.links) && uaio_link_was_held(req))
		went = start_held(req, handover, ret_startable);
	else
		went = route(req, handover);
	if (unlikely(!went))
		end_here(req, handover->worker, ret_startable);
}

/* Start all requests of a list, and those that may start as a result, without recursion. */
static void start_list(struct list *startable, struct uaio_handover *handover)
{
	struct list *node;

	while ((node = list_pop(startable)))
		start_one(container_of(node, struct uaio_req, link), handover,
			  startable);
}

static struct uaio_req *refused_req(const struct uaio_work *work)
{
	struct uaio_req *req = uaio_req_of(work);

	uaio_req_move(req, UAIO_REQ_QUEUED, UAIO_REQ_PREPPED);
	return req;
}

/*
 * Ending a refused request may start others, whose work items are added to the
 * handover. So repeat until the handover is empty, without recursion.
 */
void uaio_req_hand_over(struct uaio_handover *handover)
{
	while (uaio_handover_is_due(handover)) {
		struct list refused, startable, *node;

		uaio_kernel_hand_over(handover);
		list_init(&refused);
		list_init(&startable);
		uaio_wq_hand_over(handover, &refused);
		uaio_split_refuse_all(&refused);
		while ((node = list_pop(&refused))) {
			struct uaio_work *work =
				container_of(node, struct uaio_work, link);

			end_here(refused_req(work), handover->worker,
				 &startable);
		}
		start_list(&startable, handover);
	}
}

void uaio_req_start_and_hand_over(struct list *startable,
				  struct uaio_handover *handover)
{
	start_list(startable, handover);
	uaio_req_hand_over(handover);
}

static __attribute__((noinline)) void
end_and_start(struct uaio_req *req, struct uaio_handover *handover)
{
	struct list startable;

	list_init(&startable);
	end_here(req, handover->worker, &startable);
	start_list(&startable, handover);
}

void uaio_req_start(struct uaio_req *req, struct uaio_handover *handover)
{
	if (uaio_kernel_add(req, handover))
		return;
	if (unlikely(!route(req, handover)))
		end_and_start(req, handover);
}

void uaio_req_start_list(struct list *startable, struct uaio_handover *handover)
{
	start_list(startable, handover);
}

void uaio_req_start_first(struct list *startable,
			  struct uaio_handover *handover)
{
	struct list *node = list_pop(startable);

	start_one(container_of(node, struct uaio_req, link), handover,
		  startable);
}

void uaio_req_start_all(struct list *startable)
{
	struct uaio_handover handover;

	uaio_handover_init(&handover);
	uaio_req_start_and_hand_over(startable, &handover);
}

static void complete(struct uaio_req *req, int64_t res,
		     struct uaio_worker *worker)
{
	uaio_req_complete_by(req, res, false, worker);
}

static void expire(struct uaio_req *req)
{
	if (unlikely(req->late.held == UAIO_REQ_DEFERRED))
		uaio_defer_start(req);
	else
		uaio_link_expire(req);
}

void uaio_flow_init(void)
{
	static const struct uaio_flow_ops ops = {
		.complete = complete,
		.complete_together = uaio_req_complete_together,
		.complete_native = uaio_req_complete_native,
		.post_more = uaio_req_post_more,
		.start_all = uaio_req_start_all,
		.expire = expire,
		.handover = uaio_req_hand_over,
	};

	uaio_req_init_slab();
	uaio_copies_init();
	uaio_defer_init();
	uaio_flow = &ops;
}
