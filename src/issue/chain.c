/* SPDX-License-Identifier: MIT */
#include "issue/chain.h"

#include <errno.h>

#include "base/check.h"
#include "base/probe.h"
#include "options/config.h"
#include "file/file.h"
#include "file/inspect.h"
#include "check/check.h"
#include "req/queue.h"
#include "req/record.h"
#include "req/req.h"
#include "req/stats.h"
#include "ready/ready.h"
#include "ready/timer.h"
#include "flow/defer.h"
#include "flow/drain.h"
#include "flow/flow.h"
#include "flow/gate.h"
#include "flow/link.h"
#include "issue/fault.h"
#include "issue/place.h"
#include "issue/policy.h"
#include "issue/submit.h"

/* Starting a request that was HELD, because it waited for an earlier request */

/*
 * Get the registered file at the index `place`, and a reference to it.
 * Return: 0; -EBADF if no file is registered there.
 */
static int get_fixed(struct uaio_queue *queue, int place,
		     struct uaio_file **ret_file)
{
	*ret_file = queue->sink->get_fixed(queue, place);
	return *ret_file ? 0 : -EBADF;
}

/* If a tracer is attached, record the name of the request's file for it. */
static void name_file(const struct uaio_req *req)
{
	struct uaio_live_block *stats = uaio_stats_mine();

	if (unlikely(stats) && uaio_stats_is_traced(stats))
		(void)uaio_record_name(stats, req->file, req->sqe.fd);
}

/*
 * The request polls a file that the front-end itself has made (UAIO_FILE_F_RING), for
 * example a ring. Let the request poll the file that the front-end names instead, if any,
 * such as the ring's bell.
 */
static __attribute__((noinline)) void replace_polled(struct uaio_req *req,
						     struct uaio_file **file)
{
	const struct uaio_sink *sink = uaio_queue_of(req->group)->sink;
	struct uaio_file *other = sink->polled ? sink->polled(&req->sqe) : NULL;

	if (!other)
		return;
	uaio_file_put(*file);
	*file = other;
	req->sqe.is_fixed = true;
}

/*
 * As uaio_file_get(). But if the entry for fd says that requests cannot use the file, the
 * program may have reopened fd. Then look up the descriptor again.
 */
static int get_current(int fd, struct uaio_file **ret_file)
{
	int ret = uaio_file_get(fd, ret_file);

	if (likely(ret < 0 ||
		   !uaio_file_has(*ret_file,
				  UAIO_FILE_F_PATH | UAIO_FILE_F_RING)) ||
	    !uaio_is_replaced(*ret_file, fd))
		return ret;
	uaio_file_put(*ret_file);
	uaio_file_closed(fd);
	return uaio_file_get(fd, ret_file);
}

/*
 * A held request has no file before it starts: look up its file now.
 * Return: 0; -EBADF if there is no such file; -EAGAIN if memory is refused.
 */
static int attach(struct uaio_req *req)
{
	struct uaio_file *file;
	int ret = req->sqe.is_fixed ? get_fixed(uaio_queue_of(req->group),
						req->sqe.fd, &file)
				    : get_current(req->sqe.fd, &file);

	if (ret < 0)
		return ret == -ENOMEM ? -EAGAIN : ret;
	if (unlikely(uaio_file_has(file, UAIO_FILE_F_RING)) &&
	    req->sqe.op == UAIO_OP_POLL)
		replace_polled(req, &file);
	/*
	 * For a registered file, the request uses a descriptor of the library, which
	 * stays open until the request completes. If the file is a stream, that
	 * descriptor stays open only until unuse_stream().
	 */
	if (req->sqe.is_fixed)
		req->sqe.fd = uaio_file_use(file);
	uaio_lock(&req->group->lock, UAIO_RANK_GROUP);
	uaio_index_change_file(req, file);
	uaio_unlock(&req->group->lock, UAIO_RANK_GROUP);
	name_file(req);
	if (uaio_req_delays_exit(req))
		uaio_gate_delay();
	return uaio_file_has(file, UAIO_FILE_F_PATH) ? -EBADF : 0;
}

/*
 * Called after a request on a registered file was issued. If the file is a stream, the
 * request no longer needs the library's descriptor of it.
 */
static void unuse_stream(struct uaio_req *req)
{
	if (req->sqe.is_fixed && req->file && !req->file->inode)
		uaio_file_unuse(req->file);
}

/*
 * Issue req in this thread, or leave it to a worker. If uaio_link_is_here() is false,
 * this may be any thread. In that case leave a request on a regular file to a worker,
 * because the request could delay this thread for long.
 */
static enum uaio_next issue_one(struct uaio_req *req, int *ret_error,
				struct uaio_outcome *ret)
{
	const struct uaio_op_def *op = &uaio_optab[req->sqe.op];
	bool is_poll = op->class == UAIO_CLASS_POLL;
	enum uaio_next next;

	/*
	 * This thread does not have the request's credentials. Leave the system calls
	 * to threads that have these credentials.
	 */
	if (unlikely(!uaio_req_is_mine(req)))
		return req->file && !uaio_req_inode(req) ? UAIO_NEXT_WAIT_FILE
							 : UAIO_NEXT_WORKER;
	if (op->has_ends && !uaio_link_is_here(req))
		return UAIO_NEXT_WORKER;
	if (!uaio_req_inode(req) || is_poll)
		return uaio_issue(req->file, &req->sqe, ret_error, ret);
	if (!uaio_link_is_here(req) && !uaio_has_odd_flags(op, &req->sqe))
		return UAIO_NEXT_WORKER;
	next = uaio_issue(req->file, &req->sqe, ret_error, ret);
	return next == UAIO_NEXT_DONE ? next : UAIO_NEXT_WORKER;
}

static void notify_start(struct uaio_req *req)
{
	struct uaio_queue *queue = uaio_queue_of(req->group);

	if (req->sqe.word && queue->sink->starts)
		queue->sink->starts(queue, &req->sqe);
}

/*
 * Decide which injected faults the request gets, and defer the request if a fault says
 * so.
 * Return: 0, or the -errno that a fault injects.
 */
static __attribute__((noinline)) int have_fault(struct uaio_req *req)
{
	struct uaio_fault_plan plan;

	uaio_fault_plan(req->file, &req->sqe, req->fault ? req->late.record : 0,
			&plan);
	uaio_fault_keep(req, &plan);
	if (plan.defer_ns && !plan.error)
		(void)uaio_defer(req, plan.defer_ns);
	return plan.error;
}

/*
 * Return: 0; or the -errno with which req completes, because it is refused or an
 * injected fault says so.
 */
static int prepare(struct uaio_req *req)
{
	const struct uaio_op_def *op = &uaio_optab[req->sqe.op];
	int ret = op->has_no_file ? 0 : attach(req);

	req->in_chain = ret == 0 ? UAIO_CHAIN_BEGINS : UAIO_CHAIN_UNBEGUN;
	if (ret == 0)
		ret = op->prep(&req->sqe, req->file);
	if (ret == 0 && op->class == UAIO_CLASS_TIMER)
		notify_start(req);
	/*
	 * Select a provided buffer for a read of a regular file now, without waiting, as
	 * the kernel does.
	 */
	if (ret == 0 && req->sqe.op == UAIO_OP_READ_SELECT &&
	    uaio_req_inode(req))
		ret = uaio_rw_select(&req->sqe);
	if (ret == 0 && unlikely(uaio_config.is_examined))
		ret = have_fault(req);
	return ret;
}

/*
 * Issue a poll that was changed while it waited (cancel.c, I6). It has its file already.
 */
static enum uaio_next look_again(struct uaio_req *req, struct uaio_outcome *ret)
{
	const struct uaio_sink *sink = uaio_queue_of(req->group)->sink;
	enum uaio_next next;

	if (sink->polled_again)
		sink->polled_again(&req->sqe);
	/* as in uaio_try_poll() */
	if (req->sqe.is_multishot || !uaio_req_is_mine(req))
		return UAIO_NEXT_WAIT_FILE;
	ret->edges = uaio_file_edges(req->file);
	next = uaio_req_try(req, uaio_file_use(req->file), false, &ret->res);
	uaio_file_unuse(req->file);
	return next;
}

static enum uaio_next start(struct uaio_req *req, int64_t *ret_res)
{
	struct uaio_outcome outcome = { .res = 0 };
	enum uaio_next next = UAIO_NEXT_DONE;
	bool has_waited = req->file;
	int ret = 0;

	if (unlikely(req->late.held)) {
		has_waited = false;
		uaio_defer_is_over(req);
	} else if (likely(!has_waited)) {
		ret = prepare(req);
		if (unlikely(req->late.held)) {
			uaio_link_goes(req);
			return UAIO_NEXT_WAIT_TIME;
		}
	}
	if (unlikely(has_waited)) {
		next = look_again(req, &outcome);
	} else {
		if (ret == 0)
			next = issue_one(req, &ret, &outcome);
		req->found = outcome.found;
		unuse_stream(req);
	}
	if (ret == 0 && uaio_next_parks(next)) {
		ret = uaio_ready_expect_req(req);
		/*
		 * If part of the request is executed, the result is the length of that
		 * part, not an error.
		 */
		if (ret < 0 && outcome.res)
			ret = (int)outcome.res;
	}
	if (ret == 0 && next != UAIO_NEXT_DONE)
		ret = uaio_place(req, next, &outcome, &next);
	if (ret == 0 && next != UAIO_NEXT_DONE)
		return next;
	*ret_res = ret ? ret : outcome.res;
	return UAIO_NEXT_DONE;
}

void uaio_chain_init(void)
{
	uaio_link_init(start);
}

/* Building a chain */

/*
 * Check sqe as if its file were open for reading and writing: the real file may not exist
 * before the request starts.
 */
static int mistake_on_any(const struct uaio_sqe *sqe)
{
	static const struct uaio_file any = {
		.kind = UAIO_KIND_CACHED,
		.flags = UAIO_FILE_F_READ | UAIO_FILE_F_WRITE,
	};
	const struct uaio_op_def *op = &uaio_optab[sqe->op];

	/*
	 * Polls and requests on sockets cannot be checked without their real file.
	 */
	return op->class == UAIO_CLASS_POLL || op->is_of_socket
		       ? 0
		       : op->prep(sqe, &any);
}

static int mistake_on_fixed(struct uaio_queue *queue,
			    const struct uaio_sqe *sqe)
{
	struct uaio_sqe own = *sqe;
	struct uaio_file *file;
	int ret;

	if (get_fixed(queue, sqe->fd, &file) < 0)
		return mistake_on_any(sqe);
	own.fd = uaio_file_use(file);
	ret = uaio_optab[sqe->op].prep(&own, file);
	uaio_file_unuse(file);
	uaio_file_put(file);
	return ret;
}

/* Return: 0, or the -errno with which the request would fail whenever it is executed. */
static int mistake(const struct uaio_chain *chain, const struct uaio_sqe *sqe)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	struct uaio_file *file = NULL;
	int ret = 0;

	if (sqe->op == UAIO_OP_LINK_TIMER &&
	    (!chain->last || chain->last->sqe.op == UAIO_OP_LINK_TIMER))
		return -EINVAL;
	/*
	 * The socket may not exist yet, as an earlier request of the chain may create it:
	 * check sqe without the socket.
	 */
	if (op->is_of_socket)
		return mistake_on_any(sqe);
	if (sqe->is_fixed)
		return mistake_on_fixed(chain->batch->by.queue, sqe);
	if (!op->has_no_file)
		ret = uaio_look_up(sqe->fd, &file);
	/*
	 * As in the kernel, an invalid request on the file of a ring fails only when it
	 * starts, not here.
	 */
	if (ret == -EBADF || (file && uaio_file_has(file, UAIO_FILE_F_RING)))
		return mistake_on_any(sqe);
	return ret < 0 ? ret : uaio_batch_check(chain->batch, sqe, &file);
}

static void count(struct uaio_batch *batch, struct uaio_req *req)
{
	struct uaio_live_block *stats = batch->stats;

	if (likely(!stats))
		return;
	req->weight = batch->weight;
	req->submitted = req->handed_over = uaio_sample_now();
	req->started = 0;
	uaio_stats_add(stats, &stats->nr_accepted[req->sqe.op][UAIO_WAY_QUEUED],
		       1);
}

static bool has_next(const struct uaio_sqe *sqe)
{
	return sqe->links & (UAIO_LINK | UAIO_LINK_HARD);
}

static void pass(struct uaio_batch *batch)
{
	uaio_gate_pass(&batch->handover);
	/*
	 * Post the completions of earlier requests now, because the chain may post its own
	 * completions before the submission ends.
	 */
	uaio_batch_post(batch);
}

/* All requests of the chain are added: begin it. */
static void begin(struct uaio_chain *chain)
{
	struct uaio_batch *batch = chain->batch;

	if (chain->first) {
		if (!chain->has_later)
			list_init(&chain->later);
		pass(batch);
		uaio_link_begin(chain->first, chain->is_broken, chain->is_late,
				&batch->handover, &chain->later);
		chain->has_later = !list_is_empty(&chain->later);
	}
	chain->first = chain->last = NULL;
	chain->is_open = chain->is_broken = chain->is_late = false;
}

/*
 * Create a request that starts later. Until then the client may close its descriptor,
 * so the request uses a descriptor of the library: sqe->fd and sqe->is_fixed are
 * changed.
 * Return: NULL if the request cannot be created.
 */
static struct uaio_req *new_deferred(struct uaio_batch *batch,
				     struct uaio_file *file,
				     struct uaio_sqe *sqe)
{
	bool is_shared = sqe->is_fixed;
	struct uaio_req *req;
	int ret;

	if (!is_shared) {
		if (uaio_file_fix(sqe->fd, &file) < 0)
			return NULL;
		sqe->is_fixed = true;
	}
	sqe->fd = uaio_file_use(file);
	ret = uaio_req_new(&batch->by, file, sqe, false, &req);
	/*
	 * If the file is a stream, the library's descriptor stays open until the
	 * request is issued (unuse_stream()). For a regular file, uaio_req_new() keeps
	 * it open.
	 */
	if (ret < 0 || uaio_req_inode(req))
		uaio_file_unuse(file);
	if (!is_shared)
		uaio_file_put(file);
	return ret < 0 ? NULL : req;
}

bool uaio_chain_defer(struct uaio_batch *batch, struct uaio_file *file,
		      const struct uaio_sqe *sqe,
		      const struct uaio_fault_plan *plan)
{
	struct uaio_sqe own = *sqe;
	struct uaio_req *req = new_deferred(batch, file, &own);
	int64_t res = -EAGAIN;

	if (!req)
		return false;
	count(batch, req);
	uaio_fault_keep(req, plan);
	if (uaio_defer(req, plan->defer_ns)) {
		if (uaio_timer_park(req, UAIO_REQ_PREPPED))
			return true;
		res = uaio_req_cancelled_res(req);
	} else {
		unuse_stream(req);
	}
	uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_RUNNING);
	uaio_req_complete(req, res);
	return true;
}

/* Let `uaio check` watch the request's memory from now on, even if it never starts. */
static __attribute__((noinline)) void check(struct uaio_req *req)
{
	const uintptr_t tail = uaio_queue_tail(uaio_queue_of(req->group));
	const struct uaio_fault_plan plan = {
		.record = uaio_check_submit(&req->sqe, tail, true),
	};

	uaio_fault_keep(req, &plan);
}

/*
 * Add sqe to the chain. `error`: 0, or the -errno with which sqe is refused. is_late:
 * report the error only when sqe starts.
 */
static int add(struct uaio_chain *chain, const struct uaio_sqe *sqe, int error,
	       bool is_late)
{
	const struct uaio_sqe refused = {
		.op = UAIO_OP_NOP,
		.links = sqe->links,
		.fd = -1,
		.word = sqe->word,
		/*
		 * The refused request is replaced by a no-op. If is_late, the no-op
		 * returns the error when it starts.
		 */
		.len = is_late ? (uint32_t)error : 0,
		.data = sqe->data,
		.key = sqe->key,
	};
	struct uaio_req *req;
	int ret;

	if (unlikely(uaio_config.is_examined) && sqe->op != UAIO_OP_LINK_TIMER)
		uaio_defer_start_all(chain->batch->by.queue);
	ret = uaio_link_new(&chain->batch->by, error ? &refused : sqe, &req);
	chain->is_broken |= ret < 0 || (error && !is_late);
	chain->is_open = has_next(sqe);
	UAIO_PROBE(submit, sqe->data, sqe->op, sqe->fd);
	if (ret == 0) {
		if (error && !is_late)
			req->in_chain = UAIO_CHAIN_UNBEGUN;
		req->done_bytes = is_late ? 0 : error;
		count(chain->batch, req);
		if (unlikely(uaio_config.is_examined) && !error)
			check(req);
		if (chain->last)
			uaio_link_append(chain->last, req);
		else
			chain->first = req;
		chain->last = req;
		/* If any request of a chain is a drain, the whole chain is a drain. */
		if (sqe->links & UAIO_DRAIN)
			chain->first->sqe.links |= UAIO_DRAIN;
	}
	if (!chain->is_open)
		begin(chain);
	return ret;
}

/*
 * Return: whether the request fails with this error only when it starts; otherwise the
 * error cancels the whole chain at once. True for errors that depend on the file: the
 * file is not open for this access, or does not support a flag or an offset.
 */
static bool is_result(const struct uaio_sqe *sqe, int error)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];

	return error == -EBADF || error == -EOPNOTSUPP ||
	       (error == -EINVAL && (op->class <= UAIO_CLASS_WRITE ||
				     op->class == UAIO_CLASS_POLL));
}

int uaio_chain_add(struct uaio_chain *chain, const struct uaio_sqe *sqe)
{
	int error = mistake(chain, sqe), ret;

	ret = add(chain, sqe, error, is_result(sqe, error));
	chain->mistake = error;
	return ret;
}

int uaio_chain_refuse(struct uaio_chain *chain, const struct uaio_sqe *sqe,
		      int error, bool is_late)
{
	return add(chain, sqe, error, is_late);
}

int uaio_chain_add_fixed(struct uaio_chain *chain, const struct uaio_sqe *sqe)
{
	struct uaio_sqe own = *sqe;

	own.is_fixed = !uaio_optab[sqe->op].has_no_file;
	return uaio_chain_add(chain, &own);
}

void uaio_chain_end_slowly(struct uaio_chain *chain)
{
	struct uaio_batch *batch = chain->batch;

	begin(chain);
	if (!chain->has_later)
		return;
	chain->has_later = false;
	pass(batch);
	uaio_link_start_later(&chain->later, &batch->handover);
}
