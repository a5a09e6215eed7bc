/* SPDX-License-Identifier: MIT */
#include "flow/defer.h"

#include "base/atomic.h"
#include "base/check.h"
#include "base/sleep.h"
#include "req/index.h"
#include "req/queue.h"
#include "req/req.h"
#include "ready/ready.h"
#include "ready/timer.h"
#include "flow/flow.h"
#include "flow/link.h"

/* atomic: how many requests of all queues are deferred */
static uint32_t nr_deferred;

void uaio_defer_init(void)
{
	store_relaxed(&nr_deferred, 0);
}

/*
 * When the request starts, the client's descriptor may refer to another file. So replace
 * the request's descriptor by one that the library owns, as for a fixed file.
 * Return: false if no such descriptor can be made.
 */
static bool use_own_descriptor(struct uaio_req *req)
{
	struct uaio_file *old = req->file, *own;

	if (req->sqe.is_fixed)
		return true;
	if (uaio_file_fix(req->sqe.fd, &own) < 0)
		return false;
	uaio_lock(&req->group->lock, UAIO_RANK_GROUP);
	uaio_index_change_file(req, NULL);
	uaio_index_change_file(req, own);
	req->sqe.is_fixed = true;
	req->sqe.fd = uaio_file_use(own);
	uaio_unlock(&req->group->lock, UAIO_RANK_GROUP);
	uaio_file_put(old);
	return true;
}

bool uaio_defer(struct uaio_req *req, int64_t ns)
{
	if (uaio_ready_expect(req->group) < 0)
		return false;
	if (!use_own_descriptor(req)) {
		uaio_ready_unexpect(req->group);
		return false;
	}
	uaio_lock(&req->group->lock, UAIO_RANK_GROUP);
	req->late.held = UAIO_REQ_DEFERRED;
	uaio_unlock(&req->group->lock, UAIO_RANK_GROUP);
	req->late.awaits_call = false;
	req->next = UAIO_NEXT_WAIT_TIME;
	req->until_ns = uaio_now_ns() + ns;
	/* relaxed: only this thread must see the increment, in its next submission */
	add_relaxed(&nr_deferred, 1);
	return true;
}

void uaio_defer_is_over(struct uaio_req *req)
{
	uaio_lock(&req->group->lock, UAIO_RANK_GROUP);
	req->late.held = UAIO_REQ_NOT_HELD;
	req->until_ns = 0;
	uaio_unlock(&req->group->lock, UAIO_RANK_GROUP);
	sub_relaxed(&nr_deferred, 1);
}

void uaio_defer_start(struct uaio_req *req)
{
	struct list startable;

	list_init(&startable);
	uaio_lock(&req->group->lock, UAIO_RANK_GROUP);
	uaio_link_resume_locked(req, &startable);
	uaio_unlock(&req->group->lock, UAIO_RANK_GROUP);
	uaio_req_start_all(&startable);
}

void uaio_defer_start_all(struct uaio_queue *queue)
{
	struct uaio_group *group = &queue->group;
	struct list startable;

	/* relaxed: this thread need only see the requests that it has deferred itself */
	if (likely(!load_relaxed(&nr_deferred)))
		return;
	list_init(&startable);
	uaio_lock(&group->lock, UAIO_RANK_GROUP);
	list_for_each (pos, &group->requests) {
		struct uaio_req *req =
			container_of(pos, struct uaio_req, in_group);

		if (req->late.held == UAIO_REQ_DEFERRED &&
		    uaio_timer_cancel(req, NULL, NULL) == UAIO_CANCEL_TAKEN)
			uaio_link_resume_locked(req, &startable);
	}
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);
	uaio_req_start_all(&startable);
}
