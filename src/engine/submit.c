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
#include <linux/fs.h>
#include <poll.h>

#include "base/sys.h"
#include "file/identity.h"
#include "engine/attend.h"
#include "engine/ctx.h"
#include "engine/engine.h"
#include "engine/exit.h"
#include "engine/extent.h"
#include "engine/page.h"
#include "engine/ready.h"
#include "engine/retry.h"
#include "engine/stats.h"

enum {
	/*
	 * Short requests are queued so many at a time: a worker that is awake
	 * begins while the rest is being submitted.
	 */
	SHORT_TOGETHER = 16,
};

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
		batch->nr_completions = 0;
		batch->words = 0;
		batch->nr_unused = (uint32_t)room;
		batch->has_parked = false;
		uaio_kick_init(&batch->kick);
		batch->stats = uaio_stats_mine();
		if (unlikely(batch->stats))
			batch->nr_inline = batch->nr_handed_over = 0;
	}
	return room;
}

static void flush(struct uaio_batch *batch)
{
	const struct uaio_post post = {
		.completions = batch->completions,
		.nr = batch->nr_completions,
		.is_inline = true,
		.words = batch->words,
	};

	if (!batch->nr_completions)
		return;
	uaio_queue_post(&batch->ctx->queue, &post);
	batch->nr_completions = 0;
	batch->words = 0;
}

static void add_completion(struct uaio_batch *batch, const struct uaio_sqe *sqe,
			   int64_t res)
{
	batch->completions[batch->nr_completions++] = (struct uaio_completion){
		.data = sqe->data,
		.key = sqe->key,
		.res = res,
		.word = sqe->word,
	};
	batch->words |= sqe->word;
	batch->nr_unused--;
	if (unlikely(batch->nr_completions == UAIO_BATCH_COMPLETIONS))
		flush(batch);
}

static void count_inline(struct uaio_batch *batch, const struct uaio_sqe *sqe,
			 const struct uaio_outcome *outcome)
{
	struct uaio_stats *stats = batch->stats;

	uaio_stats_add(&stats->nr_accepted[sqe->op][UAIO_WAY_INLINE], 1);
	if (!batch->nr_inline && !batch->nr_handed_over)
		batch->start = outcome->start;
	if (batch->nr_inline++)
		uaio_stats_time(stats, UAIO_TIME_SERVICE, outcome->start,
				outcome->end, 1);
	else {
		batch->first_start = outcome->start;
		batch->first_end = outcome->end;
	}
	batch->end = outcome->end;
}

static void count_handed_over(struct uaio_batch *batch, struct uaio_req *req,
			      enum uaio_issue issue,
			      const struct uaio_outcome *outcome)
{
	enum uaio_way way = issue == UAIO_ISSUE_RETRY_READY && !req->file->inode
				    ? UAIO_WAY_PARKED
				    : UAIO_WAY_QUEUED;

	if (likely(!batch->stats))
		return;
	req->handed_over = uaio_cycles();
	/* It may have been tried first, or not. */
	if (!batch->nr_inline && !batch->nr_handed_over)
		batch->start =
			outcome->start ? outcome->start : req->handed_over;
	batch->nr_handed_over++;
	uaio_stats_add(&batch->stats->nr_accepted[req->sqe.op][way], 1);
	uaio_stats_in_flight();
	req->submitted = batch->start;
	req->started = 0;
}

/*
 * The time of a call is that of each request made in it, too. Reading the clock
 * is the dearest part of counting, so what is made inline is timed once, around
 * the system call.
 */
static void count_call(const struct uaio_batch *batch)
{
	struct uaio_stats *stats = batch->stats;
	uint64_t end = batch->end;

	if (batch->nr_inline == 1 && !batch->nr_handed_over) {
		uaio_stats_time(stats, UAIO_TIME_ALONE, batch->start, end, 1);
		return;
	}
	if (batch->nr_handed_over)
		end = uaio_cycles();
	uaio_stats_time(stats, UAIO_TIME_SUBMIT, batch->start, end, 1);
	if (!batch->nr_inline)
		return;
	uaio_stats_time(stats, UAIO_TIME_SERVICE, batch->first_start,
			batch->first_end, 1);
	uaio_stats_time(stats, UAIO_TIME_TOTAL, batch->start, end,
			batch->nr_inline);
}

static void complete(struct uaio_batch *batch, const struct uaio_sqe *sqe,
		     const struct uaio_outcome *outcome)
{
	if (unlikely(batch->stats))
		count_inline(batch, sqe, outcome);
	add_completion(batch, sqe, outcome->res);
}

/*
 * The request goes on without us; part of it may be done.
 * Return: 0 or -errno, refused.
 */
static int hand_over(struct uaio_batch *batch, const struct uaio_sqe *sqe,
		     enum uaio_issue issue, const struct uaio_outcome *outcome)
{
	int64_t done_bytes = outcome->res;
	struct uaio_ctx *ctx = batch->ctx;
	struct uaio_req *req;
	int ret = 0;

	uaio_exit_gate(&batch->kick);
	if (issue == UAIO_ISSUE_RETRY_READY)
		ret = uaio_ready_expect(&ctx->queue.group);
	if (ret == 0) {
		ret = uaio_req_new(&ctx->queue, sqe,
				   issue == UAIO_ISSUE_RETRY_READY, &req);
		if (ret < 0 && issue == UAIO_ISSUE_RETRY_READY)
			uaio_ready_unexpect(&ctx->queue.group);
	}
	if (ret < 0) {
		if (!done_bytes)
			return ret;
		/* Part of it is on its way: that is the result then. */
		complete(batch, sqe, outcome);
		return 0;
	}
	batch->nr_unused--;
	count_handed_over(batch, req, issue, outcome);
	if (done_bytes)
		uaio_req_advance(req, (uint64_t)done_bytes);
	/* A poll waits for no write. */
	if (uaio_req_inode(req) &&
	    uaio_optab[sqe->op].class != UAIO_CLASS_POLL) {
		/* The file may have been a stream when it was tried. */
		if (issue == UAIO_ISSUE_RETRY_READY)
			uaio_ready_unexpect(&ctx->queue.group);
		req->order = uaio_order_of(req->file, &req->sqe, &req->range);
		/* The events of writes made inline come before a sync's. */
		if (req->order == UAIO_ORDER_SYNC)
			flush(batch);
		if (!uaio_order_enter(req))
			return 0;
		if (issue == UAIO_ISSUE_RETRY_PAGE)
			uaio_page_expect(req);
	} else if (issue != UAIO_ISSUE_RETRY_READY) {
		/* And the other way round: closing it must not wait. */
		if (req->file)
			(void)uaio_file_make_private(req->file);
		req->is_blocking = true;
	}
	if (issue == UAIO_ISSUE_RETRY_READY) {
		req->edges = outcome->edges;
		req->until_ns = outcome->until_ns;
		if (!batch->has_parked)
			uaio_ready_pin(&ctx->queue.group.ready);
		batch->has_parked = true;
		if (sqe->is_signalled)
			uaio_attend_note(&ctx->queue);
	}
	uaio_req_start(req, &batch->kick);
	if (unlikely(uaio_optab[sqe->op].never_blocks) &&
	    batch->kick.nr[UAIO_BOUNDED] >= SHORT_TOGETHER)
		uaio_req_kick(&batch->kick);
	return 0;
}

/*
 * Requests with flags that not any worker can honour at any time. Made here:
 * the kernel's refusal is then a refusal to submit.
 */
static enum uaio_issue try_flags(struct uaio_file *file,
				 const struct uaio_sqe *sqe, int *ret_error,
				 struct uaio_outcome *ret)
{
	struct uaio_inode *inode = load_relaxed(&file->inode);

	*ret_error = 0;
	if (!inode || uaio_begin_inline(file, inode, sqe)) {
		*ret_error = uaio_try_flags(file, sqe, ret);
		if (inode)
			uaio_inode_end_inline(inode);
		return uaio_done_unless_bounced(file, sqe, ret);
	}
	/* Nothing overtakes what is queued. */
	if (!(sqe->rw_flags & RWF_NOWAIT))
		return UAIO_ISSUE_RETRY_WORKER;
	ret->res = -EAGAIN;
	ret->start = ret->end = uaio_stats_now();
	return UAIO_ISSUE_DONE;
}

/*
 * The policy is not asked about a request that its client wants elsewhere. A
 * poll is never a worker's: it waits where all do.
 */
static enum uaio_issue send_away(const struct uaio_op_def *op)
{
	return op->class == UAIO_CLASS_POLL ? UAIO_ISSUE_RETRY_READY
					    : UAIO_ISSUE_RETRY_WORKER;
}

/* On no file, so there is no policy to ask. */
static enum uaio_issue make_call(const struct uaio_op_def *op,
				 const struct uaio_sqe *sqe,
				 struct uaio_outcome *ret)
{
	if (!op->never_blocks)
		return UAIO_ISSUE_RETRY_WORKER;
	ret->start = uaio_stats_now();
	ret->res = op->run(sqe, -1, false, 0);
	ret->end = uaio_stats_now();
	return UAIO_ISSUE_DONE;
}

bool uaio_is_misplaced(const struct uaio_file *file, const struct uaio_sqe *sqe)
{
	return uaio_is_replaced(file, sqe->fd);
}

enum uaio_issue uaio_try_anew(const struct uaio_sqe *sqe,
			      struct uaio_outcome *ret)
{
	struct uaio_file *file;

	uaio_file_closed(sqe->fd);
	if (uaio_file_open(sqe->fd, &file) < 0)
		return UAIO_ISSUE_DONE;
	*ret = (struct uaio_outcome){ .res = 0 };
	return uaio_policy[uaio_file_kind(file)][uaio_optab[sqe->op].class](
		file, sqe, ret);
}

int uaio_batch_add(struct uaio_batch *batch, struct uaio_file *file,
		   const struct uaio_sqe *sqe)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	struct uaio_outcome outcome = { .res = 0 };
	enum uaio_issue issue;
	int ret;

	ret = op->prep(sqe, file);
	if (unlikely(ret < 0))
		return ret;

	if (unlikely(sqe->is_async))
		issue = send_away(op);
	else if (unlikely(op->has_no_file))
		issue = make_call(op, sqe, &outcome);
	else if (unlikely(sqe->rw_flags & ~(uint32_t)UAIO_RWF_DEFERRABLE))
		issue = try_flags(file, sqe, &ret, &outcome);
	else
		issue = uaio_policy[uaio_file_kind(file)][op->class](file, sqe,
								     &outcome);
	if (unlikely(ret < 0))
		return ret;
	if (unlikely(outcome.res == -ESPIPE) && issue == UAIO_ISSUE_DONE &&
	    uaio_file_kind(file) < UAIO_KIND_STREAM)
		/* A regular file has places: the number is a stream now. */
		issue = uaio_try_anew(sqe, &outcome);
	if (likely(issue == UAIO_ISSUE_DONE)) {
		complete(batch, sqe, &outcome);
		return 0;
	}
	return hand_over(batch, sqe, issue, &outcome);
}

static int64_t make_to_end(const struct uaio_op_def *op,
			   const struct uaio_sqe *sqe, bool is_stream)
{
	int64_t res = op->run(sqe, sqe->fd, is_stream, 0);
	struct pollfd slot = { .fd = sqe->fd, .events = (short)sqe->events };

	while (op->class == UAIO_CLASS_POLL && res == -EAGAIN) {
		(void)sys_ppoll(&slot, 1, NULL, NULL, 0);
		res = op->run(sqe, sqe->fd, is_stream, 0);
	}
	return res;
}

/* Requests of others that were accepted before are made before. */
static void await_inode(const struct uaio_file *file)
{
	enum { SOON_NS = 50000 };
	uint32_t word = 0;

	while (file->inode && uaio_inode_is_busy(file->inode))
		(void)uaio_sleep(&word, 0, uaio_now_ns() + SOON_NS);
}

/* One that its thread makes itself, whatever it takes (table.h). */
static int make_parted(struct uaio_file *file, const struct uaio_sqe *sqe,
		       struct uaio_outcome *ret)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];

	if (op->has_no_file) {
		ret->res = op->run(sqe, -1, false, 0);
		return 0;
	}
	if (op->class != UAIO_CLASS_POLL)
		await_inode(file);
	if (sqe->rw_flags & ~(uint32_t)UAIO_RWF_DEFERRABLE)
		return uaio_try_flags(file, sqe, ret);
	ret->res =
		make_to_end(op, sqe, uaio_file_has(file, UAIO_FILE_F_STREAM));
	return 0;
}

int uaio_batch_add_parted(struct uaio_batch *batch, struct uaio_file *file,
			  const struct uaio_sqe *sqe)
{
	struct uaio_outcome outcome = { .start = uaio_stats_now() };
	struct uaio_completion completion = {
		.data = sqe->data,
		.key = sqe->key,
		.word = sqe->word,
	};
	const struct uaio_post post = {
		.completions = &completion,
		.nr = 1,
		.is_inline = true,
		.words = sqe->word,
	};
	int ret = uaio_optab[sqe->op].prep(sqe, file);

	if (ret == 0)
		ret = make_parted(file, sqe, &outcome);
	if (ret < 0)
		return ret;
	outcome.end = uaio_stats_now();
	if (unlikely(batch->stats))
		count_inline(batch, sqe, &outcome);
	completion.res = outcome.res;
	batch->nr_unused--;
	uaio_queue_post_parted(&batch->ctx->queue, &post);
	return 0;
}

void uaio_batch_end(struct uaio_batch *batch)
{
	struct uaio_ctx *ctx = batch->ctx;
	uint32_t nr_unused = batch->nr_unused;

	/*
	 * What is done is posted before workers are woken. The last of our
	 * tickets holds the context, or, where something was parked, a pin.
	 */
	flush(batch);
	if (unlikely(nr_unused))
		uaio_ctx_return_tickets(ctx, nr_unused);
	uaio_req_kick(&batch->kick);
	if (batch->has_parked) {
		uaio_ready_submitted(&ctx->queue.group);
		uaio_ready_unpin(&ctx->queue.group.ready);
	}
	if (unlikely(batch->stats) && batch->nr_inline + batch->nr_handed_over)
		count_call(batch);
}
