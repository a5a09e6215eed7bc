/* SPDX-License-Identifier: MIT */
#include "issue/chain.h"

#include <errno.h>

#include "base/check.h"
#include "req/queue.h"
#include "req/req.h"
#include "req/stats.h"
#include "wait/order.h"
#include "ready/ready.h"
#include "flow/drain.h"
#include "flow/flow.h"
#include "flow/gate.h"
#include "flow/link.h"
#include "issue/extent.h"
#include "issue/policy.h"
#include "issue/submit.h"

/*
 * Starting a request that was held
 */

/* Look its descriptor up. Return: 0, or -errno. */
static int attach(struct uaio_req *req)
{
	struct uaio_file *file;
	int ret = uaio_file_get(req->sqe.fd, &file);

	if (ret < 0)
		return ret == -ENOMEM ? -EAGAIN : ret;
	uaio_lock(&req->group->lock, UAIO_RANK_GROUP);
	req->file = file;
	uaio_unlock(&req->group->lock, UAIO_RANK_GROUP);
	if (uaio_req_delays_exit(req))
		uaio_gate_delay();
	return uaio_file_has(file, UAIO_FILE_F_PATH) ? -EBADF : 0;
}

/* Expect to park. Return: 0, or -EAGAIN. */
static int expect(struct uaio_req *req)
{
	int ret = uaio_ready_expect(req->group);

	if (ret < 0 || !req->file)
		return ret;
	req->watch = uaio_watch_get(req->group, req->file);
	if (req->watch)
		return 0;
	uaio_ready_unexpect(req->group);
	return -EAGAIN;
}

/* Send req to where it waits. Return: which way it goes. */
static enum uaio_start send_on(struct uaio_req *req, enum uaio_issue issue)
{
	if (issue == UAIO_ISSUE_RETRY_READY)
		return UAIO_START_PARKS;
	if (uaio_req_inode(req)) {
		req->order = uaio_order_of(req->file, &req->sqe, &req->range);
		return uaio_order_enter(req) ? UAIO_START_GOES
					     : UAIO_START_WAITS;
	}
	if (req->file)
		(void)uaio_file_make_private(req->file);
	req->is_blocking = true;
	return UAIO_START_GOES;
}

/*
 * Only the thread that submits executes requests of regular files: others have
 * more to do, and the calls may take long.
 */
static enum uaio_issue issue_one(struct uaio_req *req, int *ret_error,
				 struct uaio_outcome *ret)
{
	bool is_poll = uaio_optab[req->sqe.op].class == UAIO_CLASS_POLL;
	enum uaio_issue issue;

	if (!uaio_req_inode(req) || is_poll)
		return uaio_issue(req->file, &req->sqe, ret_error, ret);
	if (!uaio_link_is_here(req) &&
	    !(req->sqe.rw_flags & ~(uint32_t)UAIO_RWF_DEFERRABLE))
		return UAIO_ISSUE_RETRY_WORKER;
	issue = uaio_issue(req->file, &req->sqe, ret_error, ret);
	return issue == UAIO_ISSUE_DONE ? issue : UAIO_ISSUE_RETRY_WORKER;
}

static enum uaio_start start(struct uaio_req *req, int64_t *ret_res)
{
	const struct uaio_op_def *op = &uaio_optab[req->sqe.op];
	struct uaio_outcome outcome = { .res = 0 };
	enum uaio_issue issue = UAIO_ISSUE_DONE;
	int ret = (int)req->done_bytes;

	/* If it was refused, that is its result now. */
	req->done_bytes = 0;
	if (ret == 0 && !op->has_no_file)
		ret = attach(req);
	if (ret == 0)
		ret = op->prep(&req->sqe, req->file);
	if (ret == 0)
		issue = issue_one(req, &ret, &outcome);
	if (ret == 0 && issue == UAIO_ISSUE_RETRY_READY) {
		ret = expect(req);
		/* Part of it may be done. */
		if (ret < 0 && outcome.res)
			ret = (int)outcome.res;
	}
	if (ret != 0 || issue == UAIO_ISSUE_DONE) {
		*ret_res = ret ? ret : outcome.res;
		return UAIO_START_DONE;
	}
	if (outcome.res)
		uaio_req_advance(req, (uint64_t)outcome.res);
	req->edges = outcome.edges;
	req->until_ns = outcome.until_ns;
	uaio_link_goes(req);
	return send_on(req, issue);
}

void uaio_chain_init(void)
{
	uaio_link_init(start);
}

/*
 * Building a chain
 */

void uaio_chain_begin(struct uaio_chain *chain, struct uaio_batch *batch)
{
	*chain = (struct uaio_chain){ .batch = batch };
}

/* Return: why the request can never be executed, as -errno; or 0. */
static int mistake(const struct uaio_chain *chain, const struct uaio_sqe *sqe)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	struct uaio_file *file = NULL;
	int ret = 0;

	if (sqe->op == UAIO_OP_LINK_TIMER &&
	    (!chain->last || chain->last->sqe.op == UAIO_OP_LINK_TIMER))
		return -EINVAL;
	if (!op->has_no_file)
		ret = uaio_look_up(sqe->fd, &file);
	return ret < 0 ? ret : op->prep(sqe, file);
}

static void count(struct uaio_batch *batch, struct uaio_req *req)
{
	struct uaio_stats *stats = batch->stats;

	req->submitted = req->handed_over = uaio_stats_now();
	req->started = 0;
	if (likely(!stats))
		return;
	uaio_stats_add(&stats->nr_accepted[req->sqe.op][UAIO_WAY_QUEUED], 1);
	uaio_stats_in_flight();
}

bool uaio_chain_takes(const struct uaio_chain *chain,
		      const struct uaio_sqe *sqe)
{
	return sqe->links || sqe->op == UAIO_OP_LINK_TIMER || chain->is_open ||
	       uaio_drain_is_on(&chain->batch->queue->group);
}

static bool has_next(const struct uaio_sqe *sqe)
{
	return sqe->links & (UAIO_LINK | UAIO_LINK_HARD);
}

int uaio_chain_add(struct uaio_chain *chain, const struct uaio_sqe *sqe)
{
	const struct uaio_sqe refused = {
		.op = UAIO_OP_NOP,
		.links = sqe->links,
		.fd = -1,
		.word = sqe->word,
		.data = sqe->data,
		.key = sqe->key,
	};
	int error = mistake(chain, sqe), ret;
	struct uaio_req *req;

	ret = uaio_link_new(chain->batch->queue, error ? &refused : sqe, &req);
	/* That a descriptor is not open is a result, when it is looked up. */
	chain->is_broken |= ret < 0 || (error && error != -EBADF);
	chain->is_open = has_next(sqe);
	if (ret == 0) {
		req->done_bytes = error;
		count(chain->batch, req);
		if (chain->last)
			uaio_link_append(chain->last, req);
		else
			chain->first = req;
		chain->last = req;
		/* Any of them makes the chain a drain. */
		chain->first->sqe.links |= sqe->links & UAIO_DRAIN;
	}
	if (!chain->is_open)
		uaio_chain_end(chain);
	return ret;
}

void uaio_chain_end(struct uaio_chain *chain)
{
	struct uaio_batch *batch = chain->batch;

	if (chain->first) {
		/* What completed before comes first. */
		uaio_batch_post(batch);
		uaio_link_begin(chain->first, chain->is_broken,
				&batch->handover);
	}
	uaio_chain_begin(chain, batch);
}
