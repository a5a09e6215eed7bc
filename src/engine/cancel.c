/* SPDX-License-Identifier: MIT */
/*
 * Cancelling
 *
 * Exactly one party completes a request: who moved it to RUNNING. So a
 * canceller first takes it out of wherever it waits, under the lock of that
 * place, and only completes what it took; everything else is left alone.
 */
#include <errno.h>

#include "engine/cancel.h"
#include "engine/ctx.h"
#include "engine/engine.h"
#include "engine/ready.h"

void uaio_group_close(struct uaio_group *group)
{
	struct list startable, cancelled, *node;

	list_init(&startable);
	list_init(&cancelled);
	/* What is being tried or submitted just now is not parked after this. */
	uaio_ready_close_group(group);
	uaio_lock(&group->lock, UAIO_RANK_GROUP);
	list_for_each (pos, &group->requests) {
		struct uaio_req *req =
			container_of(pos, struct uaio_req, in_group);

		if (uaio_req_state(req) == UAIO_REQ_PARKED &&
		    uaio_req_cancel_locked(req, &startable))
			list_add_tail(&cancelled, &req->link);
	}
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);
	while ((node = list_pop(&cancelled))) {
		struct uaio_req *req =
			container_of(node, struct uaio_req, link);

		uaio_req_complete(req, uaio_req_cancelled_res(req));
	}
}

static struct uaio_req *take_by_obj(struct uaio_group *group, uint64_t obj,
				    struct list *ret_startable)
{
	struct uaio_req *found = NULL;

	uaio_lock(&group->lock, UAIO_RANK_GROUP);
	list_for_each (pos, &group->requests) {
		struct uaio_req *req =
			container_of(pos, struct uaio_req, in_group);

		if (req->sqe.obj == obj &&
		    uaio_req_cancel_locked(req, ret_startable)) {
			found = req;
			break;
		}
	}
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);
	return found;
}

int uaio_ctx_cancel(uint64_t handle, uint64_t obj)
{
	struct uaio_ctx *ctx = uaio_ctx_use(handle);
	struct list startable;
	struct uaio_req *req;

	if (!ctx)
		return -EINVAL;
	list_init(&startable);
	req = take_by_obj(&ctx->group, obj, &startable);
	if (req)
		uaio_req_complete(req, uaio_req_cancelled_res(req));
	uaio_req_start_all(&startable);
	uaio_ctx_unuse(ctx);
	return req ? -EINPROGRESS : -EINVAL;
}
