/* SPDX-License-Identifier: MIT */
/*
 * Submission: from a front-end (kernel AIO, io_uring or POSIX AIO) to the system call
 *
 * issue_one() chooses the function that issues a request. Most often this is a function
 * of the policy, which may make the system call at once. If the request is then complete,
 * its completion goes to an array in the batch. The array is posted when it is full and
 * when the batch ends. So a request that completes inline allocates nothing, and seldom
 * takes a lock. Any other request is created and started (flow.h).
 */
#include "issue/submit.h"

#include <errno.h>
#include <linux/fs.h>

#include "base/check.h"
#include "base/probe.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "trace/trace.h"
#include "options/config.h"
#include "file/inspect.h"
#include "check/check.h"
#include "req/record.h"
#include "req/req.h"
#include "req/stats.h"
#include "ready/attend.h"
#include "ready/ready.h"
#include "ready/timer.h"
#include "flow/defer.h"
#include "flow/flow.h"
#include "flow/gate.h"
#include "flow/post.h"
#include "issue/chain.h"
#include "issue/count.h"
#include "issue/extent.h"
#include "issue/fault.h"
#include "issue/place.h"
#include "issue/policy.h"

enum {
	/*
	 * This many work items that never block are collected, then given to the work queue
	 * together. A worker that is awake begins with them while this thread submits more.
	 */
	SHORT_TOGETHER = 16,
};

void uaio_batch_begin(struct uaio_batch *batch, struct uaio_queue *queue)
{
	batch->by = uaio_queue_submitter(queue);
	batch->nr_completions = 0;
	batch->words = 0;
	batch->has_parked = batch->has_multishot = batch->has_size = false;
	uaio_handover_init(&batch->handover);
	batch->stats = uaio_stats_mine();
	if (unlikely(batch->stats)) {
		batch->nr_inline = batch->nr_handed_over = 0;
		batch->weight = uaio_sample_begin(batch->stats);
	}
}

static __attribute__((noinline)) void post_all(struct uaio_batch *batch,
					       bool by_worker)
{
	const struct uaio_post post = {
		.completions = batch->completions,
		.nr = batch->nr_completions,
		.is_inline = true,
		.by_worker = by_worker,
		.words = batch->words,
	};

	if (!batch->nr_completions)
		return;
	uaio_queue_post(batch->by.queue, &post);
	batch->nr_completions = 0;
	batch->words = 0;
}

void uaio_batch_post(struct uaio_batch *batch)
{
	post_all(batch, false);
}

/*
 * sqe is complete. Post the batch now if the next request may start only after this
 * completion (posts_at_once). Also post it if the client asked for a worker: the client
 * may have an eventfd that signals only completions of such requests (sink.h).
 */
static inline void post_if_due(struct uaio_batch *batch,
			       const struct uaio_sqe *sqe)
{
	/* A timer does not count as executed by a worker, as no thread executes it. */
	if (unlikely(sqe->posts_at_once || sqe->is_async))
		post_all(batch, sqe->is_async && uaio_optab[sqe->op].class !=
							 UAIO_CLASS_TIMER);
}

static void add_completion(struct uaio_batch *batch, const struct uaio_sqe *sqe,
			   int64_t res, struct uaio_found found)
{
	uint32_t nr = batch->nr_completions++;
	struct uaio_completion *completion = &batch->completions[nr];

	completion->data = sqe->data;
	completion->key = sqe->key;
	completion->res = (int32_t)res;
	completion->flags = unlikely(found.rest == UAIO_REST_THERE)
				    ? UAIO_COMPLETION_LEAVES
				    : 0;
	completion->word = sqe->word;
	batch->words |= sqe->word;
	UAIO_PROBE(complete, sqe->data, sqe->op, res);
	if (unlikely(nr + 1 == UAIO_BATCH_COMPLETIONS))
		uaio_batch_post(batch);
}

static inline __attribute__((always_inline)) void
complete(struct uaio_batch *batch, struct uaio_file *file,
	 const struct uaio_sqe *sqe, const struct uaio_outcome *outcome)
{
	if (unlikely(batch->stats))
		uaio_batch_count(batch, file, sqe, outcome);
	add_completion(batch, sqe, outcome->res, outcome->found);
}

/*
 * Close a descriptor on which no requests were in flight a moment ago. Other threads may
 * have submitted requests since. The close waits for those requests, which may wait for
 * requests of this batch. So this batch's requests are handed over first.
 * Return: whether the descriptor is closed.
 */
static __attribute__((noinline)) bool close_here(struct uaio_batch *batch,
						 const struct uaio_sqe *sqe)
{
	struct uaio_outcome outcome = { .res = 0 };

	if (sqe->is_async || uaio_config.force_worker)
		return false;
	uaio_batch_post(batch);
	uaio_req_hand_over(&batch->handover);
	outcome.start = uaio_sample_now();
	outcome.res =
		uaio_optab[sqe->op].run(sqe, -1, &outcome.found, RWF_NOWAIT);
	outcome.end = uaio_sample_now();
	if (outcome.res == UAIO_OP_BLOCKS)
		return false;
	complete(batch, NULL, sqe, &outcome);
	return true;
}

/*
 * Create and start a request that completes after its submission. Part of it may be
 * executed already. plan: its injected faults; or NULL.
 * Return: 0; or -errno if the request is refused.
 */
static __attribute__((noinline)) int
hand_over(struct uaio_batch *batch, struct uaio_file *file,
	  const struct uaio_sqe *sqe, enum uaio_next next,
	  struct uaio_outcome *outcome, const struct uaio_fault_plan *plan)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	bool parks = uaio_next_parks(next);
	struct uaio_queue *queue = batch->by.queue;
	struct uaio_req *req;
	int ret = 0;

	if (unlikely(op->is_closing) && !plan && close_here(batch, sqe))
		return 0;
	uaio_gate_pass(&batch->handover);
	if (parks)
		ret = uaio_ready_expect(&queue->group);
	if (ret == 0) {
		ret = uaio_req_new(&batch->by, file, sqe, parks, &req);
		if (ret < 0 && parks)
			uaio_ready_unexpect(&queue->group);
	}
	if (ret < 0) {
		if (plan)
			uaio_check_drop(plan->record);
		if (!outcome->res)
			return ret;
		/* A part was executed already: its length is the request's result. */
		complete(batch, file, sqe, outcome);
		return 0;
	}
	req->found = outcome->found;
	uaio_batch_count_handed_over(batch, req, next, outcome);
	if (unlikely(plan))
		uaio_fault_keep(req, plan);
	/* Post inline writes before another thread can post the sync's event. */
	if (op->class == UAIO_CLASS_SYNC && !uaio_sqe_rules(sqe)->has_no_order)
		uaio_batch_post(batch);
	/* The descriptor now refers to another file, whose size was not queried. */
	if (!parks && req->file != file)
		outcome->file_end = 0;
	ret = uaio_place(req, next, outcome, &next);
	if (unlikely(ret < 0)) {
		uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_RUNNING);
		uaio_req_complete(req, ret);
		return 0;
	}
	if (next == UAIO_NEXT_WAIT_ORDER)
		return 0;
	if (uaio_next_parks(next)) {
		if (!batch->has_parked)
			uaio_ready_pin(&queue->group.ready);
		batch->has_parked = true;
		batch->has_multishot |= sqe->is_multishot;
		if (sqe->is_signalled)
			uaio_attend_note(queue);
	}
	uaio_req_start(req, &batch->handover);
	if (unlikely(op->never_blocks) &&
	    batch->handover.nr[UAIO_BOUNDED] >= SHORT_TOGETHER)
		uaio_req_hand_over(&batch->handover);
	return 0;
}

/* A timer waits, except one that has expired already and is not multishot. */
static __attribute__((noinline)) enum uaio_next
set_timer(const struct uaio_sqe *sqe, struct uaio_outcome *ret)
{
	int64_t now = uaio_now_ns();

	ret->until_ns = uaio_timer_due(sqe, now);
	if (ret->until_ns > now || sqe->is_multishot)
		return UAIO_NEXT_WAIT_TIME;
	ret->res = -ETIME;
	ret->start = ret->end = uaio_sample_now();
	return UAIO_NEXT_DONE;
}

/*
 * The client wants a worker (is_async). Timers and polls need none. A request on a stream
 * begins as its row in the operation table says. All other requests go to a worker.
 */
static __attribute__((noinline)) enum uaio_next
send_away(struct uaio_file *file, const struct uaio_sqe *sqe,
	  struct uaio_outcome *ret)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];

	if (op->class == UAIO_CLASS_TIMER)
		return set_timer(sqe, ret);
	if (op->class == UAIO_CLASS_POLL)
		return UAIO_NEXT_WAIT_FILE;
	return file ? uaio_send_untried(file, sqe, ret) : UAIO_NEXT_WORKER;
}

/* Make a system call that can block. If it would block now, leave it to a worker. */
static __attribute__((noinline)) enum uaio_next
try_call(const struct uaio_op_def *op, const struct uaio_sqe *sqe,
	 struct uaio_outcome *ret)
{
	if (op->is_closing || uaio_config.force_worker)
		return UAIO_NEXT_WORKER;
	if (op->has_ends)
		return uaio_try_ends(sqe, ret);
	ret->start = uaio_sample_now();
	ret->res = op->run(sqe, -1, &ret->found, RWF_NOWAIT);
	ret->end = uaio_sample_now();
	if (ret->res != UAIO_OP_BLOCKS)
		return UAIO_NEXT_DONE;
	*ret = (struct uaio_outcome){ .res = 0 };
	return UAIO_NEXT_WORKER;
}

/* Make the system call of an operation without a file. (The policy is for files.) */
static inline __attribute__((always_inline)) enum uaio_next
make_call(const struct uaio_op_def *op, const struct uaio_sqe *sqe,
	  struct uaio_outcome *ret)
{
	if (!op->never_blocks)
		return op->class == UAIO_CLASS_TIMER ? set_timer(sqe, ret)
						     : try_call(op, sqe, ret);
	ret->start = uaio_sample_now();
	ret->res = op->run(sqe, -1, &ret->found, 0);
	ret->end = uaio_sample_now();
	return UAIO_NEXT_DONE;
}

/*
 * Issue sqe.
 * Return: what it has to wait for. If *ret_error is not 0, sqe is refused instead.
 */
static inline __attribute__((always_inline)) enum uaio_next
issue_one(struct uaio_file *file, const struct uaio_sqe *sqe, int *ret_error,
	  struct uaio_outcome *ret)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	enum uaio_next next;

	*ret_error = 0;
	UAIO_PROBE(issue, sqe->data, sqe->op, sqe->fd);
	if (unlikely(sqe->is_async))
		next = send_away(file, sqe, ret);
	else if (unlikely(op->has_no_file))
		next = make_call(op, sqe, ret);
	else if (unlikely(sqe->rw_flags & ~(uint32_t)UAIO_RWF_DEFERRABLE))
		next = uaio_issue_flags(file, sqe, ret_error, ret);
	else
		next = uaio_policy[uaio_file_kind(file)][op->class](file, sqe,
								    ret);
	if (unlikely(*ret_error < 0))
		return next;
	if (unlikely(ret->res == -ESPIPE) && next == UAIO_NEXT_DONE &&
	    !op->has_no_file && uaio_file_kind(file) < UAIO_KIND_STREAM &&
	    !sqe->is_fixed)
		/*
		 * The entry says that this is a regular file, on which a call never fails
		 * with ESPIPE. So the descriptor now refers to a stream.
		 */
		next = uaio_try_reopened(sqe, ret);
	return next;
}

enum uaio_next uaio_issue(struct uaio_file *file, const struct uaio_sqe *sqe,
			  int *ret_error, struct uaio_outcome *ret)
{
	return issue_one(file, sqe, ret_error, ret);
}

/*
 * For adjacent direct writes within a file's size, a batch queries the size only once.
 * Another process may change the size before a later write. This adds no new race, as
 * the size may also change between a query and the write right after it.
 */
static __attribute__((noinline)) void use_size(const struct uaio_batch *batch,
					       const struct uaio_file *file,
					       const struct uaio_sqe *sqe,
					       struct uaio_outcome *ret)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];

	if (file == batch->sized && op->class == UAIO_CLASS_WRITE &&
	    !op->is_of_socket && uaio_file_kind(file) == UAIO_KIND_DIRECT)
		ret->file_end = batch->sized_end;
}

/*
 * sqe is about to be handed over: keep the queried file size for the batch's next write.
 */
static void note_size(struct uaio_batch *batch, const struct uaio_file *file,
		      const struct uaio_sqe *sqe,
		      const struct uaio_outcome *outcome)
{
	enum uaio_op_class class = uaio_optab[sqe->op].class;

	/* Keep the size that is stored, as a read does not change it. */
	if (class == UAIO_CLASS_READ)
		return;
	batch->has_size =
		class == UAIO_CLASS_WRITE &&
		uaio_file_kind(file) == UAIO_KIND_DIRECT &&
		(uint64_t)sqe->off + uaio_sqe_bytes(sqe) < outcome->file_end;
	batch->sized = file;
	batch->sized_end = outcome->file_end;
}

int uaio_batch_look_again(struct uaio_batch *batch, int fd,
			  struct uaio_file **ret_file)
{
	const struct uaio_file *file = uaio_file_find(fd);

	if (file && unlikely(uaio_is_reopened(file, fd))) {
		/* as in close_here(): the old file's requests are waited for */
		uaio_batch_post(batch);
		uaio_req_hand_over(&batch->handover);
		uaio_file_closed(fd);
	}
	return uaio_look_up(fd, ret_file);
}

/*
 * The entry *file does not allow the request. It may be outdated, or may have been reused
 * for another descriptor (file.h, I2).
 */
static __attribute__((noinline)) int check_again(struct uaio_batch *batch,
						 const struct uaio_sqe *sqe,
						 struct uaio_file **file)
{
	int ret;

	do {
		ret = uaio_batch_look_again(batch, sqe->fd, file);
		if (ret < 0)
			return ret;
		ret = uaio_optab[sqe->op].prep(sqe, *file);
	} while (ret < 0 && uaio_file_find(sqe->fd) != *file);
	return ret;
}

static inline __attribute__((always_inline)) int
check(struct uaio_batch *batch, const struct uaio_sqe *sqe,
      struct uaio_file **file)
{
	int ret = uaio_optab[sqe->op].prep(sqe, *file);
	/* a copy, so that the caller's variable can stay in a register */
	struct uaio_file *present = *file;

	if (unlikely(ret < 0) && present && !sqe->is_fixed) {
		ret = check_again(batch, sqe, &present);
		*file = present;
	}
	return ret;
}

int uaio_batch_check(struct uaio_batch *batch, const struct uaio_sqe *sqe,
		     struct uaio_file **file)
{
	return check(batch, sqe, file);
}

static __attribute__((noinline)) int add_by_policy(struct uaio_batch *batch,
						   struct uaio_file *file,
						   const struct uaio_sqe *sqe)
{
	struct uaio_outcome outcome = { .res = 0 };
	enum uaio_next next;
	int ret;

	ret = check(batch, sqe, &file);
	if (unlikely(ret < 0))
		return ret;
	if (unlikely(batch->has_size))
		use_size(batch, file, sqe, &outcome);
	next = issue_one(file, sqe, &ret, &outcome);
	if (unlikely(ret < 0))
		return ret;
	if (likely(next == UAIO_NEXT_DONE)) {
		batch->has_size = false;
		complete(batch, file, sqe, &outcome);
		post_if_due(batch, sqe);
		return 0;
	}
	if (file && !uaio_next_parks(next))
		note_size(batch, file, sqe, &outcome);
	return hand_over(batch, file, sqe, next, &outcome, NULL);
}

/*
 * The system call of sqe has returned, and its file may be closed. Create a request that
 * only delays the completion.
 */
static void complete_late(struct uaio_batch *batch, struct uaio_file *file,
			  const struct uaio_sqe *sqe,
			  const struct uaio_outcome *outcome,
			  const struct uaio_fault_plan *plan)
{
	struct uaio_req *req;

	uaio_gate_pass(&batch->handover);
	req = uaio_req_new_held(&batch->by, sqe);
	if (!req) {
		uaio_check_complete(plan->record, outcome->res);
		complete(batch, file, sqe, outcome);
		return;
	}
	req->found = outcome->found;
	uaio_batch_count_handed_over(batch, req, UAIO_NEXT_WAIT_TIME, outcome);
	uaio_fault_keep(req, plan);
	req->started = outcome->start;
	req->late.by = UAIO_BY_SUBMITTER;
	if (batch->stats && uaio_stats_is_traced(batch->stats))
		req->late.file = uaio_record_name(batch->stats, file, sqe->fd);
	uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_RUNNING);
	uaio_req_complete(req, outcome->res);
}

/*
 * A completion is held back until this batch ends: keep the queue from being freed until
 * then.
 */
static void note_held(struct uaio_batch *batch)
{
	if (!batch->has_parked)
		uaio_ready_pin(&batch->by.queue->group.ready);
	batch->has_parked = true;
}

/* Return: whether the fault plan changes the request or its completion. */
static bool changes(const struct uaio_fault_plan *plan)
{
	return plan->is_short || plan->delay_ns || plan->record;
}

/* As add_by_policy(), if faults are injected or memory is checked (is_examined). */
static __attribute__((noinline)) int add_faulty(struct uaio_batch *batch,
						struct uaio_file *file,
						const struct uaio_sqe *sqe)
{
	struct uaio_outcome outcome = { .res = 0 };
	enum uaio_next next = UAIO_NEXT_DONE;
	struct uaio_fault_plan plan;
	struct uaio_sqe own = *sqe;
	int ret;

	ret = check(batch, sqe, &file);
	if (ret < 0)
		return ret;
	if (file && uaio_file_kind(file) == UAIO_KIND_STREAM)
		uaio_defer_start_all(batch->by.queue);
	uaio_fault_plan(
		file, &own,
		uaio_check_submit(sqe, uaio_queue_tail(batch->by.queue), false),
		&plan);
	if (plan.record || plan.defer_ns)
		note_held(batch);
	if (plan.defer_ns && !plan.error &&
	    uaio_chain_defer(batch, file, &own, &plan))
		return 0;
	outcome.start = outcome.end = uaio_sample_now();
	outcome.res = plan.error;
	if (!plan.error)
		next = issue_one(file, &own, &ret, &outcome);
	if (ret < 0) {
		uaio_check_drop(plan.record);
		return ret;
	}
	if (next != UAIO_NEXT_DONE)
		return hand_over(batch, file, &own, next, &outcome,
				 changes(&plan) ? &plan : NULL);
	if (plan.delay_ns || plan.record)
		complete_late(batch, file, &own, &outcome, &plan);
	else
		complete(batch, file, &own, &outcome);
	post_if_due(batch, sqe);
	return 0;
}

/* Complete a no-op, without a system call and untimed. */
static __attribute__((noinline)) int add_empty(struct uaio_batch *batch,
					       const struct uaio_sqe *sqe)
{
	add_completion(batch, sqe, (int64_t)sqe->len,
		       (struct uaio_found){ .rest = UAIO_REST_UNKNOWN });
	return 0;
}

int uaio_batch_add(struct uaio_batch *batch, struct uaio_file *file,
		   const struct uaio_sqe *sqe)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];

	UAIO_PROBE(submit, sqe->data, sqe->op, sqe->fd);
	if (unlikely(uaio_config.is_examined))
		return add_faulty(batch, file, sqe);
	return !op->is_empty || sqe->is_async || unlikely(batch->stats)
		       ? add_by_policy(batch, file, sqe)
		       : add_empty(batch, sqe);
}

int uaio_batch_add_fixed(struct uaio_batch *batch, struct uaio_file *file,
			 const struct uaio_sqe *sqe)
{
	struct uaio_sqe own = *sqe;
	int ret;

	own.is_fixed = true;
	/* The descriptor stays open until uaio_file_unuse() (file.h I5). */
	own.fd = uaio_file_use(file);
	ret = uaio_batch_add(batch, file, &own);
	uaio_file_unuse(file);
	return ret;
}

/*
 * The submitting call ends: wake a thread to post the completions that were held back until
 * now (late.h).
 */
static void end_call(struct uaio_queue *queue)
{
	uaio_check_call_is_over();
	uaio_timer_tell_sleeper(uaio_ready_home(&queue->group.ready));
}

void uaio_batch_end(struct uaio_batch *batch)
{
	struct uaio_queue *queue = batch->by.queue;

	/*
	 * Post completions before waking workers. After the posting the queue may be
	 * freed, unless has_parked is set: then this thread has pinned the queue.
	 */
	if (batch->nr_completions)
		uaio_batch_post(batch);
	if (uaio_handover_is_due(&batch->handover))
		uaio_req_hand_over(&batch->handover);
	if (batch->has_parked) {
		if (unlikely(uaio_config.is_examined))
			end_call(queue);
		uaio_ready_submitted(&queue->group, batch->has_multishot);
		uaio_ready_unpin(&queue->group.ready);
	}
	if (unlikely(batch->stats) && batch->nr_inline + batch->nr_handed_over)
		uaio_batch_count_call(batch);
}
