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
 *   I3  A request that is being tried is nobody's to take, and may wait on after
 *       that. The canceller marks it, and waits, with no lock held, until it is
 *       told what became of it (waits.h). So an answer is true of each request
 *       that it is about, and no other is held up.
 */
#include <errno.h>

#include "file/file.h"
#include "engine/cancel.h"
#include "engine/ctx.h"
#include "engine/engine.h"
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
	struct uaio_canceller canceller; /* is told of those tried (I3) */
	int nr_cancelled;
	int nr_asked;  /* tried: it is told of them */
	int nr_others; /* meant, but others have them */
};

static bool is_any(const struct uaio_req *req, const struct aim *aim)
{
	(void)req;
	(void)aim;
	return true;
}

/* Whether it may wait for ever. */
static bool is_endless(const struct uaio_req *req, const struct aim *aim)
{
	const struct uaio_wait_ops *ops;

	(void)aim;
	/*
	 * [MB:closing] seq_cst: closed, then looked. Pairs with
	 * uaio_ready_park().
	 */
	ops = uaio_waits[load_seq_cst(&req->state) & ~(uint32_t)UAIO_REQ_TRIED];
	return ops && ops->close_group;
}

static bool is_obj(const struct uaio_req *req, const struct aim *aim)
{
	return req->sqe.key == aim->obj;
}

static bool is_on_file(const struct uaio_req *req, const struct aim *aim)
{
	return aim->file && req->file == aim->file;
}

static enum uaio_cancel take(struct uaio_req *req, struct haul *haul)
{
	const struct uaio_wait_ops *ops = uaio_waits_of(req);
	enum uaio_cancel ret = UAIO_CANCEL_NONE;

	if (ops)
		ret = ops->cancel(req, &haul->canceller, &haul->startable);
	haul->nr_cancelled += ret == UAIO_CANCEL_TAKEN;
	haul->nr_asked += ret == UAIO_CANCEL_ASKED;
	haul->nr_others += ret == UAIO_CANCEL_NONE;
	return ret;
}

/* The oldest that is pending. */
static void take_one_locked(struct uaio_group *group, const struct aim *aim,
			    struct haul *haul)
{
	list_for_each (pos, &group->requests) {
		struct uaio_req *req =
			container_of(pos, struct uaio_req, in_group);
		enum uaio_cancel ret;

		if (!aim->is_meant(req, aim))
			continue;
		ret = take(req, haul);
		if (ret == UAIO_CANCEL_TAKEN)
			list_add_tail(&haul->cancelled, &req->link);
		if (ret != UAIO_CANCEL_NONE)
			return;
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

		if (aim->is_meant(req, aim) &&
		    take(req, haul) == UAIO_CANCEL_TAKEN)
			list_add_head(&haul->cancelled, &req->link);
	}
}

static void collect(struct uaio_group *group, const struct aim *aim,
		    struct haul *haul)
{
	haul->canceller = (struct uaio_canceller){ 0 };
	haul->nr_cancelled = haul->nr_asked = haul->nr_others = 0;
	list_init(&haul->cancelled);
	list_init(&haul->startable);
	uaio_lock(&group->lock, UAIO_RANK_GROUP);
	if (aim->is_one)
		take_one_locked(group, aim, haul);
	else
		take_all_locked(group, aim, haul);
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);
}

/* What was tried is complete first: it is older than what waited behind it. */
static void complete(struct haul *haul)
{
	struct list *node;

	if (haul->nr_asked)
		haul->nr_cancelled +=
			(int)uaio_canceller_await(&haul->canceller);
	while ((node = list_pop(&haul->cancelled))) {
		struct uaio_req *req =
			container_of(node, struct uaio_req, link);

		uaio_req_complete(req, uaio_req_cancelled_res(req));
	}
	uaio_req_start_all(&haul->startable);
}

/* If the one was made by who tried it, there may be another that is meant. */
static void cancel(struct uaio_group *group, const struct aim *aim,
		   struct haul *haul)
{
	do {
		collect(group, aim, haul);
		complete(haul);
	} while (aim->is_one && haul->nr_asked && !haul->nr_cancelled);
}

void uaio_group_close(struct uaio_group *group)
{
	static const struct aim aim = { .is_meant = is_endless };
	struct haul haul;

	uaio_waits_close_group(group);
	cancel(group, &aim, &haul);
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
	cancel(&ctx->queue.group, &aim, &haul);
	uaio_ctx_unuse(ctx);
	return haul.nr_cancelled ? -EINPROGRESS : -EINVAL;
}

/* Return: how many were cancelled, or why none. */
static int answer(const struct haul *haul)
{
	return haul->nr_cancelled ? haul->nr_cancelled
	       : haul->nr_others  ? -EALREADY
				  : -ENOENT;
}

static int cancel_in(uint64_t handle, const struct aim *aim)
{
	struct uaio_ctx *ctx = uaio_ctx_use(handle);
	struct haul haul;

	if (!ctx)
		return -EINVAL;
	cancel(&ctx->queue.group, aim, &haul);
	uaio_ctx_unuse(ctx);
	return answer(&haul);
}

int uaio_ctx_cancel_one(uint64_t handle, uint64_t obj)
{
	const struct aim aim = {
		.is_meant = is_obj,
		.obj = obj,
		.is_one = true,
	};
	int ret = cancel_in(handle, &aim);

	return ret > 0 ? 0 : ret;
}

int uaio_ctx_cancel_fd(uint64_t handle, int fd)
{
	struct aim aim = { .is_meant = is_on_file };
	struct uaio_ctx *ctx = uaio_ctx_use(handle);
	struct uaio_file *file = NULL;
	struct haul haul;

	if (!ctx)
		return -EINVAL;
	/*
	 * A number of which nothing is known has no requests. The reference
	 * keeps the entry from becoming another file's; it is short, because
	 * who closes the number waits for it.
	 */
	if (uaio_file_find(fd) && uaio_file_get(fd, &file) < 0)
		file = NULL;
	aim.file = file;
	collect(&ctx->queue.group, &aim, &haul);
	if (file)
		uaio_file_put(file);
	complete(&haul);
	uaio_ctx_unuse(ctx);
	return answer(&haul);
}

int uaio_ctx_cancel_all(uint64_t handle)
{
	static const struct aim aim = { .is_meant = is_any };

	return cancel_in(handle, &aim);
}
