/* SPDX-License-Identifier: MIT */
/*
 * Cancelling
 *
 * Exactly one party completes a request: who moved it to RUNNING. So a
 * canceller first takes what is meant out of wherever it waits, under the lock
 * of that place, and completes only what it took; everything else is left
 * alone.
 *
 *   I1  Of several the newest are taken first. What they wait behind may end
 *       meanwhile, and lets the oldest start: that is then as if it had been
 *       started before. Never is one made when an older one of its file, that
 *       was to be made before it, is cancelled by the same call.
 *   I2  Nothing is completed with a lock held: a completion wakes clients, and
 *       starts what was held back and is not meant. So all is taken first.
 *   I3  What is parked, or waits for its pages, is tried now and then, and is
 *       nobody's to take while it is; but it would wait on after that. So
 *       nothing is tried while something is taken; io_cancel, whose answer
 *       promises nothing, asks for that only if it finds others at it.
 */
#include <errno.h>

#include "engine/cancel.h"
#include "engine/ctx.h"
#include "engine/engine.h"
#include "engine/page.h"
#include "engine/file.h"
#include "engine/ready.h"
#include "engine/waits.h"

/* Which requests of a group are meant. */
struct aim {
	bool (*is_meant)(const struct uaio_req *req, const struct aim *aim);
	uint64_t obj;
	const struct uaio_file *file; /* borrows */
	bool is_one;                  /* the oldest that is pending, no more */
};

struct haul {
	struct list cancelled; /* RUNNING, and ours */
	struct list startable;
	int nr_cancelled;
	int nr_others; /* meant, but others have them */
};

static bool is_any(const struct uaio_req *req, const struct aim *aim)
{
	(void)req;
	(void)aim;
	return true;
}

/* Return: the row of what req waits for, or NULL. */
static const struct uaio_wait_ops *row_of(const struct uaio_req *req)
{
	return uaio_waits[uaio_req_state(req)];
}

static bool is_endless(const struct uaio_req *req, const struct aim *aim)
{
	const struct uaio_wait_ops *ops = row_of(req);

	(void)aim;
	return ops && ops->close_group;
}

static bool is_obj(const struct uaio_req *req, const struct aim *aim)
{
	return req->sqe.obj == aim->obj;
}

static bool is_on_file(const struct uaio_req *req, const struct aim *aim)
{
	return aim->file && req->file == aim->file;
}

/* Return: whether it is ours now. */
static bool take(struct uaio_req *req, const struct aim *aim, struct haul *haul)
{
	const struct uaio_wait_ops *ops;

	if (!aim->is_meant(req, aim))
		return false;
	ops = row_of(req);
	if (!ops || !ops->cancel(req, &haul->startable)) {
		haul->nr_others++;
		return false;
	}
	haul->nr_cancelled++;
	return true;
}

/* The oldest that is pending. */
static void take_one_locked(struct uaio_group *group, const struct aim *aim,
			    struct haul *haul)
{
	list_for_each (pos, &group->requests) {
		struct uaio_req *req =
			container_of(pos, struct uaio_req, in_group);

		if (take(req, aim, haul)) {
			list_add_tail(&haul->cancelled, &req->link);
			return;
		}
	}
}

/* The newest first (I1); they will be completed the oldest first. */
static void take_all_locked(struct uaio_group *group, const struct aim *aim,
			    struct haul *haul)
{
	struct list *head = &group->requests;

	for (struct list *pos = head->prev; pos != head; pos = pos->prev) {
		struct uaio_req *req =
			container_of(pos, struct uaio_req, in_group);

		if (take(req, aim, haul))
			list_add_head(&haul->cancelled, &req->link);
	}
}

static void collect(struct uaio_group *group, const struct aim *aim,
		    struct haul *haul)
{
	haul->nr_cancelled = haul->nr_others = 0;
	list_init(&haul->cancelled);
	list_init(&haul->startable);
	uaio_lock(&group->lock, UAIO_RANK_GROUP);
	if (aim->is_one)
		take_one_locked(group, aim, haul);
	else
		take_all_locked(group, aim, haul);
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);
}

static void complete(struct haul *haul)
{
	struct list *node;

	while ((node = list_pop(&haul->cancelled))) {
		struct uaio_req *req =
			container_of(node, struct uaio_req, link);

		uaio_req_complete(req, uaio_req_cancelled_res(req));
	}
	uaio_req_start_all(&haul->startable);
}

void uaio_group_close(struct uaio_group *group)
{
	static const struct aim aim = { .is_meant = is_endless };
	struct haul haul;

	for (unsigned i = 0; i < UAIO_REQ_NR_STATES; i++)
		if (uaio_waits[i] && uaio_waits[i]->close_group)
			uaio_waits[i]->close_group(group);
	collect(group, &aim, &haul);
	complete(&haul);
}

int uaio_ctx_cancel(uint64_t handle, uint64_t obj)
{
	const struct aim aim = {
		.is_meant = is_obj,
		.obj = obj,
		.is_one = true,
	};
	struct uaio_ctx *ctx = uaio_ctx_use(handle);
	struct haul haul;

	if (!ctx)
		return -EINVAL;
	collect(&ctx->queue.group, &aim, &haul);
	if (!haul.nr_cancelled && haul.nr_others) {
		/* Perhaps it was only being tried (I3). */
		uaio_ready_hold();
		collect(&ctx->queue.group, &aim, &haul);
		uaio_ready_release();
	}
	complete(&haul);
	uaio_ctx_unuse(ctx);
	return haul.nr_cancelled ? -EINPROGRESS : -EINVAL;
}

/* Return: the context, in use until finish(), or NULL. */
static struct uaio_ctx *begin(uint64_t handle, const struct aim *aim,
			      struct haul *ret_haul)
{
	struct uaio_ctx *ctx = uaio_ctx_use(handle);

	if (!ctx)
		return NULL;
	uaio_ready_hold(); /* I3 */
	uaio_page_hold();
	collect(&ctx->queue.group, aim, ret_haul);
	uaio_page_release();
	uaio_ready_release();
	return ctx;
}

/* Return: how many, or why none. */
static int finish(struct uaio_ctx *ctx, struct haul *haul)
{
	if (!ctx)
		return -EINVAL;
	complete(haul);
	uaio_ctx_unuse(ctx);
	return haul->nr_cancelled ? haul->nr_cancelled
	       : haul->nr_others  ? -EALREADY
				  : -ENOENT;
}

int uaio_ctx_cancel_one(uint64_t handle, uint64_t obj)
{
	const struct aim aim = {
		.is_meant = is_obj,
		.obj = obj,
		.is_one = true,
	};
	struct haul haul;
	int ret = finish(begin(handle, &aim, &haul), &haul);

	return ret > 0 ? 0 : ret;
}

int uaio_ctx_cancel_fd(uint64_t handle, int fd)
{
	struct aim aim = { .is_meant = is_on_file };
	struct uaio_file *file = NULL;
	struct uaio_ctx *ctx;
	struct haul haul;

	/*
	 * A number of which nothing is known has no requests. The reference
	 * keeps the entry from becoming another file's; it is short, because
	 * who closes the number waits for it.
	 */
	if (uaio_file_find(fd) && uaio_file_get(fd, &file) < 0)
		file = NULL;
	aim.file = file;
	ctx = begin(handle, &aim, &haul);
	if (file)
		uaio_file_put(file);
	return finish(ctx, &haul);
}

int uaio_ctx_cancel_all(uint64_t handle)
{
	static const struct aim aim = { .is_meant = is_any };
	struct haul haul;

	return finish(begin(handle, &aim, &haul), &haul);
}
