/* SPDX-License-Identifier: MIT */
/*
 * From io_submit to the system call
 *
 * What a request completed on the spot needs: its ticket, taken for the whole
 * batch at once; the policy's try, which makes the system call; and a place in
 * the batch, whose events are posted together. Nothing is allocated and no
 * lock is taken until then.
 */
#include <errno.h>

#include "base/sys.h"
#include "engine/ctx.h"
#include "engine/engine.h"
#include "engine/retry.h"

long uaio_batch_begin(struct uaio_batch *batch, uint64_t handle, long nr)
{
	struct uaio_ctx *ctx = uaio_ctx_find(handle);
	long room;

	if (!ctx)
		return -EINVAL;
	if (nr == 0)
		/* relaxed: no ticket, nothing is done to it */
		return load_relaxed(&ctx->handle) == handle ? 0 : -EINVAL;
	room = uaio_ctx_take_tickets(ctx, handle, nr);
	if (room > 0) {
		batch->ctx = ctx;
		batch->nr_events = 0;
		batch->nr_unused = (uint32_t)room;
		batch->resfd = NULL;
		batch->nr_resfd = 0;
		batch->kick = (struct uaio_kick){ 0 };
	}
	return room;
}

static void signal_resfd(struct uaio_batch *batch)
{
	uint64_t count = batch->nr_resfd;
	int fd = uaio_file_use(batch->resfd);

	(void)sys_write(fd, &count, sizeof(count));
	uaio_file_unuse(batch->resfd);
	uaio_file_put(batch->resfd);
	batch->resfd = NULL;
	batch->nr_resfd = 0;
}

static void flush(struct uaio_batch *batch)
{
	if (batch->nr_events)
		uaio_ctx_post(batch->ctx, batch->events, batch->nr_events,
			      batch->nr_events);
	batch->nr_events = 0;
	if (unlikely(batch->resfd))
		signal_resfd(batch);
}

/* One write signals all events of a batch that go to the same eventfd. */
static int add_resfd(struct uaio_batch *batch, int fd)
{
	struct uaio_file *file;
	int ret;

	if (batch->resfd && batch->resfd != uaio_file_find(fd))
		flush(batch);
	if (!batch->resfd) {
		ret = uaio_file_get(fd, &file);
		if (ret < 0)
			return ret;
		batch->resfd = file;
	}
	batch->nr_resfd++;
	return 0;
}

static void add_event(struct uaio_batch *batch, const struct uaio_sqe *sqe,
		      int64_t res)
{
	batch->events[batch->nr_events++] = (struct uaio_event){
		.data = sqe->data,
		.obj = sqe->obj,
		.res = res,
	};
	batch->nr_unused--;
	/* A number that became another file meanwhile is not signalled. */
	if (unlikely(sqe->has_resfd))
		(void)add_resfd(batch, sqe->resfd);
	if (unlikely(batch->nr_events == UAIO_BATCH_EVENTS))
		flush(batch);
}

/* The request goes on without us. Return: 0 or -errno, refused. */
static int hand_over(struct uaio_batch *batch, const struct uaio_sqe *sqe,
		     enum uaio_issue issue, uint64_t done_bytes)
{
	struct uaio_ctx *ctx = batch->ctx;
	struct uaio_req *req;
	int ret;

	ret = uaio_req_new(&ctx->group, &ctx->sink, sqe, &req);
	if (ret < 0)
		return ret;
	batch->nr_unused--;
	if (done_bytes)
		uaio_req_advance(req, done_bytes);
	if (issue == UAIO_ISSUE_RETRY_WORKER && req->file->inode) {
		req->order = uaio_order_of(req->file, &req->sqe);
		if (!uaio_order_enter(req))
			return 0;
	}
	uaio_req_start(req, &batch->kick);
	return 0;
}

int uaio_batch_add(struct uaio_batch *batch, const struct uaio_sqe *sqe)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	struct uaio_file *file = uaio_file_find(sqe->fd);
	enum uaio_issue issue;
	int64_t res = 0;
	int ret;

	if (unlikely(!file)) {
		ret = uaio_file_open(sqe->fd, &file);
		if (ret < 0)
			return ret;
	}
	ret = op->prep(sqe, file);
	if (unlikely(ret < 0))
		return ret;

	if (unlikely(sqe->rw_flags & ~(uint32_t)UAIO_RWF_DEFERRABLE)) {
		ret = uaio_try_flags(file, sqe, &res);
		if (ret == 0)
			add_event(batch, sqe, res);
		return ret;
	}
	issue = uaio_policy[file->kind][op->class](file, sqe, &res);
	if (likely(issue == UAIO_ISSUE_DONE)) {
		add_event(batch, sqe, res);
		return 0;
	}
	return hand_over(batch, sqe, issue, (uint64_t)res);
}

void uaio_batch_end(struct uaio_batch *batch)
{
	struct uaio_ctx *ctx = batch->ctx;
	uint32_t nr_unused = batch->nr_unused;

	uaio_wq_kick(&batch->kick);
	if (unlikely(nr_unused)) {
		/* The last of our tickets, or events, holds the context. */
		flush(batch);
		uaio_ctx_return_tickets(ctx, nr_unused);
	} else {
		flush(batch);
	}
}
