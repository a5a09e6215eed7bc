/* SPDX-License-Identifier: MIT */
/*
 * Completing requests, one or some together. Tested by test-nop.c, test-cancel.c and all
 * other tests with requests that wait.
 */
#include "base/probe.h"
#include "options/config.h"
#include "req/record.h"
#include "req/req.h"
#include "req/stats.h"
#include "wait/order.h"
#include "wait/page.h"
#include "ready/ready.h"
#include "flow/copy.h"
#include "flow/flow.h"
#include "flow/gate.h"
#include "flow/late.h"
#include "flow/link.h"
#include "flow/post.h"

enum uaio_by uaio_req_by(const struct uaio_req *req,
			 const struct uaio_worker *worker)
{
	return req->is_native         ? UAIO_BY_KERNEL
	       : worker               ? UAIO_BY_WORKER
	       : uaio_is_own_thread() ? UAIO_BY_READY
				      : UAIO_BY_WAITER;
}

/* res: its result; by: who has executed it. */
static void count(const struct uaio_req *req, int64_t res, enum uaio_by by)
{
	struct uaio_live_block *stats = uaio_stats_mine();
	uint64_t now;

	if (likely(!stats))
		return;
	now = uaio_cycles();
	uaio_stats_add(stats, &stats->nr_completed, 1);
	uaio_stats_landed();
	uaio_stats_time(stats,
			req->was_paged ? UAIO_TIME_PAGES : UAIO_TIME_WAIT,
			req->handed_over, req->started ? req->started : now, 1);
	if (req->started)
		uaio_stats_time(stats, UAIO_TIME_SERVICE, req->started, now, 1);
	uaio_stats_time(stats, UAIO_TIME_TOTAL, req->submitted, now, 1);
	if (uaio_stats_is_traced(stats))
		uaio_record(stats, req, res, by, now);
}

static uint32_t flags_of(const struct uaio_sqe *sqe, int64_t res)
{
	if (likely(!sqe->is_cut)) {
		if (likely(!(sqe->leaves_more | sqe->is_unbegun)))
			return 0;
		return sqe->is_unbegun ? UAIO_COMPLETION_UNBEGUN
		       : res >= 0      ? UAIO_COMPLETION_LEAVES
				       : 0u;
	}
	return UAIO_COMPLETION_CUT |
	       (sqe->is_quiet ? UAIO_COMPLETION_QUIET : 0u);
}

static struct uaio_completion completion_of(const struct uaio_req *req,
					    int64_t res)
{
	UAIO_PROBE(complete, req->sqe.data, req->sqe.op, res);
	return (struct uaio_completion){
		.data = req->sqe.data,
		.key = req->sqe.key,
		.res = (int32_t)res,
		.flags = flags_of(&req->sqe, res),
		.word = req->sqe.word,
	};
}

bool uaio_req_post_more(struct uaio_req *req, int64_t res)
{
	struct uaio_completion completion = completion_of(req, res);

	completion.flags |= UAIO_COMPLETION_MORE;
	return uaio_queue_post_more(uaio_queue_of(req->group), &completion);
}

void uaio_req_read_next(struct uaio_device *device, struct uaio_worker *worker,
			struct list *ret_startable)
{
	if (worker)
		uaio_wq_blocks(worker);
	uaio_page_next(device, ret_startable);
	if (worker)
		uaio_wq_returned(worker);
}

/* Return: whether its client asked for a worker, and there is something to execute. */
static bool is_for_worker(const struct uaio_sqe *sqe)
{
	return sqe->is_async && uaio_optab[sqe->op].class != UAIO_CLASS_POLL &&
	       uaio_optab[sqe->op].class != UAIO_CLASS_TIMER;
}

/*
 * The end of a request. It leaves its group first, so that no canceller finds it.
 * Then it lets go of its file: a client that sees the event finds a pipe without
 * a reader closed. Then its event is posted, after which its queue may be gone.
 *
 * A read keeps no write waiting after it has its data, nor does a write keep reads
 * and other writes waiting after it has returned: a client that sees the event
 * finds the file idle. But a write keeps its place, and with it its file, until
 * its event is posted: no client must see a sync complete before the write that
 * the sync waited for. By then the queue of the write may be gone, so its memory
 * goes back to the slab.
 */
static void end(struct uaio_req *req, int64_t res, struct uaio_worker *worker,
		struct list *ret_startable)
{
	const struct uaio_completion completion = completion_of(req, res);
	const struct uaio_post post = {
		.completions = &completion,
		.nr = 1,
		.by_worker = worker || is_for_worker(&req->sqe),
		.words = completion.word,
	};
	struct uaio_group *group = req->group;
	struct uaio_file *file = req->file;
	bool is_write = uaio_order_is_write(req->order);
	bool delayed_exit = uaio_req_delays_exit(req);
	struct uaio_device *device = req->is_oldest ? req->device : NULL;
	bool breaks = unlikely(req->sqe.links) && uaio_link_breaks(req, res);

	if (unlikely(req->owns_waitq))
		uaio_ready_returned(req);
	if (uaio_req_uses_number(req))
		uaio_file_unuse(file);
	count(req, res, uaio_req_by(req, worker));
	uaio_copy_drop(req);
	if (!is_write && req->order != UAIO_ORDER_NONE)
		uaio_order_return(req, ret_startable);
	uaio_lock(&group->lock, UAIO_RANK_GROUP);
	if (unlikely(req->sqe.links))
		uaio_link_leave_locked(req, breaks, ret_startable);
	uaio_req_leave_locked(req, !is_write);
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);

	if (is_write)
		uaio_order_return(req, ret_startable);
	else if (likely(file))
		uaio_file_put(file);
	uaio_queue_post_late(uaio_queue_of(group), &post, ret_startable);
	if (is_write) {
		uaio_order_leave(req, ret_startable);
		uaio_req_free(req);
		uaio_file_put(file);
	}
	if (delayed_exit)
		uaio_gate_delay_over();
	if (device)
		uaio_req_read_next(device, worker, ret_startable);
}

void uaio_req_finish(struct uaio_req *req, int64_t res,
		     struct uaio_worker *worker, struct list *ret_startable)
{
	if (unlikely(req->is_faulty) &&
	    uaio_late_hold(req, &res, worker, ret_startable))
		return;
	end(req, res, worker, ret_startable);
}

unsigned uaio_reqs_unlink(struct uaio_group *group, struct list *items,
			  struct uaio_completion *ret_completions, unsigned max)
{
	unsigned nr = 0;

	uaio_lock(&group->lock, UAIO_RANK_GROUP);
	while (nr < max && !list_is_empty(items)) {
		struct uaio_req *req = uaio_req_of(
			container_of(items->next, struct uaio_work, link));

		if (req->group != group)
			break;
		list_remove(&req->work.link);
		count(req, req->done_bytes, UAIO_BY_WORKER);
		uaio_copy_put(req);
		ret_completions[nr++] = completion_of(req, req->done_bytes);
		uaio_req_leave_locked(req, true);
	}
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);
	return nr;
}

/*
 * Reads and writes of one queue that end together: their completions are posted
 * together. The steps are those of end(), each for all of them.
 */
struct together {
	struct uaio_req *const *reqs;
	struct uaio_file *files[UAIO_REQS_TOGETHER];
	uint32_t writes; /* a bit for each; their memory is theirs to the end */
	unsigned nr;
};

static bool is_write(const struct together *all, unsigned i)
{
	return all->writes >> i & 1;
}

static void return_all(struct together *all, struct list *ret_startable)
{
	struct uaio_group *group = all->reqs[0]->group;

	for (unsigned i = 0; i < all->nr; i++)
		if (!is_write(all, i))
			uaio_order_return(all->reqs[i], ret_startable);
	uaio_lock(&group->lock, UAIO_RANK_GROUP);
	for (unsigned i = 0; i < all->nr; i++)
		uaio_req_leave_locked(all->reqs[i], !is_write(all, i));
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);
	for (unsigned i = 0; i < all->nr; i++)
		if (is_write(all, i))
			uaio_order_return(all->reqs[i], ret_startable);
		else
			uaio_file_put(all->files[i]);
}

/* The events are posted, and the queue may be gone. */
static void let_go_of_writes(struct together *all, struct list *ret_startable)
{
	for (unsigned i = 0; i < all->nr; i++) {
		if (!is_write(all, i))
			continue;
		uaio_order_leave(all->reqs[i], ret_startable);
		uaio_req_free(all->reqs[i]);
		uaio_file_put(all->files[i]);
		uaio_gate_delay_over();
	}
}

static void finish_together(struct uaio_req *const *reqs,
			    const int64_t *results, unsigned nr,
			    struct list *ret_startable)
{
	struct uaio_completion completions[UAIO_REQS_TOGETHER];
	struct uaio_queue *queue = uaio_queue_of(reqs[0]->group);
	struct uaio_post post = { .completions = completions, .nr = nr };
	struct together all;

	all.reqs = reqs;
	all.writes = 0;
	all.nr = nr;
	for (unsigned i = 0; i < nr; i++) {
		struct uaio_req *req = reqs[i];

		completions[i] = completion_of(req, results[i]);
		post.words |= completions[i].word;
		all.files[i] = req->file;
		if (uaio_order_is_write(req->order))
			all.writes |= 1u << i;
		if (uaio_req_uses_number(req))
			uaio_file_unuse(req->file);
		count(req, results[i], uaio_req_by(req, NULL));
		uaio_copy_put(req);
	}
	return_all(&all, ret_startable);
	uaio_queue_post_late(queue, &post, ret_startable);
	if (all.writes)
		let_go_of_writes(&all, ret_startable);
}

void uaio_req_complete_together(struct uaio_req *const *reqs,
				const int64_t *results, unsigned nr)
{
	struct list startable;

	list_init(&startable);
	while (nr) {
		unsigned part = 1;

		while (part < nr && reqs[part]->group == reqs[0]->group)
			part++;
		/* Some of them may be late. */
		if (unlikely(uaio_config.has_faults))
			part = 1;
		if (part > 1)
			finish_together(reqs, results, part, &startable);
		else
			uaio_req_finish(reqs[0], results[0], NULL, &startable);
		reqs += part;
		results += part;
		nr -= part;
	}
	if (unlikely(!list_is_empty(&startable)))
		uaio_req_start_all(&startable);
}

void uaio_req_complete_by(struct uaio_req *req, int64_t res, bool is_last,
			  struct uaio_worker *worker)
{
	struct list startable;
	struct uaio_handover handover;

	list_init(&startable);
	uaio_req_finish(req, res, worker, &startable);
	if (list_is_empty(&startable))
		return;
	uaio_handover_init(&handover);
	handover.is_last = is_last;
	handover.worker = worker;
	uaio_req_start_and_hand_over(&startable, &handover);
}
