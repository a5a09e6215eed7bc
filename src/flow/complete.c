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
	return req->native == UAIO_KERNEL_HAS_EXECUTED ? UAIO_BY_KERNEL
	       : worker                                ? UAIO_BY_WORKER
	       : uaio_is_own_thread()                  ? UAIO_BY_READY
						       : UAIO_BY_WAITER;
}

static void count_times(struct uaio_live_block *stats,
			const struct uaio_req *req, uint64_t now)
{
	uaio_stats_time(stats,
			req->was_paged ? UAIO_TIME_PAGES : UAIO_TIME_WAIT,
			req->handed_over, req->started ? req->started : now,
			req->weight);
	if (req->started)
		uaio_stats_time(stats, UAIO_TIME_SERVICE, req->started, now,
				req->weight);
	uaio_stats_time(stats, UAIO_TIME_TOTAL, req->submitted, now,
			req->weight);
}

/*
 * Add nr completions to the statistics.
 * Return: the thread's block of counts; NULL if statistics are off.
 */
static inline struct uaio_live_block *count(unsigned nr)
{
	struct uaio_live_block *stats = uaio_stats_mine();

	if (likely(!stats))
		return NULL;
	uaio_stats_add(stats, &stats->nr_completed, nr);
	return stats;
}

/*
 * Record the times of a request, and trace it. `worker`: the worker that executed it, or
 * NULL.
 */
static inline void record(struct uaio_live_block *stats,
			  const struct uaio_req *req, int64_t res,
			  const struct uaio_worker *worker)
{
	uint64_t now;

	if (!stats || likely(!req->weight && !uaio_stats_is_traced(stats)))
		return;
	now = uaio_cycles();
	if (req->weight)
		count_times(stats, req, now);
	if (uaio_stats_is_traced(stats))
		uaio_record(stats, req, res, uaio_req_by(req, worker), now);
}

static uint32_t flags_of(const struct uaio_req *req, int64_t res)
{
	if (likely(!req->in_chain && !req->found.rest))
		return 0;
	switch (req->in_chain) {
	case UAIO_CHAIN_UNBEGUN: return UAIO_COMPLETION_UNBEGUN;
	case UAIO_CHAIN_CUT: return UAIO_COMPLETION_CUT;
	case UAIO_CHAIN_CUT_QUIETLY:
		return UAIO_COMPLETION_CUT | UAIO_COMPLETION_QUIET;
	default: break;
	}
	return req->found.rest == UAIO_REST_THERE && res >= 0
		       ? UAIO_COMPLETION_LEAVES
		       : 0;
}

static struct uaio_completion completion_of(const struct uaio_req *req,
					    int64_t res)
{
	UAIO_PROBE(complete, req->sqe.data, req->sqe.op, res);
	return (struct uaio_completion){
		.data = req->sqe.data,
		.key = req->sqe.key,
		.res = (int32_t)res,
		.flags = flags_of(req, res),
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
	bool blocks = worker && uaio_wq_blocks(worker);

	uaio_page_next(device, ret_startable);
	if (blocks)
		uaio_wq_returned(worker);
}

/* Return: whether sqe asks for a worker (is_async), and workers execute its operation. */
static bool is_for_worker(const struct uaio_sqe *sqe)
{
	return sqe->is_async && uaio_optab[sqe->op].class != UAIO_CLASS_POLL &&
	       uaio_optab[sqe->op].class != UAIO_CLASS_TIMER;
}

/*
 * Requests of one queue, most often a single one, complete together. A read first
 * leaves the order of its inode (order.h). Then it leaves its group, in which
 * cancellers search for requests, and drops its file. Then the completions of all
 * requests are posted together, after which the queue may be freed. So when a client
 * sees the completion of a read, no write waits for this read any more. If the read had
 * the last reference to a pipe, the pipe is closed.
 *
 * When the system call of a write has returned, only syncs still wait for the write. The
 * write stays in the order of its inode, and keeps its file, until its completion is
 * posted. So no client sees a sync complete before a write for which the sync waited. After
 * the posting, the write's queue may be freed, so the memory of the request goes back to
 * the slab.
 */
struct ending {
	struct uaio_req *req;
	/*
	 * This member and the following are copies of members of req. The copies are used
	 * when the memory of req may already be reused.
	 */
	struct uaio_file *file;
	/*
	 * If this request was its device's oldest read of pages outside the page cache
	 * (page.h): the device, whose next such read may now start. Otherwise NULL.
	 */
	struct uaio_device *device;
	/* req is a write, whose memory is kept until its completion is posted */
	bool is_write;
	bool delayed_exit;
	bool breaks; /* the result of req cancels the later requests of its chain */
};

/* First part of completing req, while cancellers can still find req. */
static inline __attribute__((always_inline)) void
begin_end(struct ending *ending, struct uaio_req *req, int64_t res,
	  struct uaio_live_block *stats, struct uaio_worker *worker,
	  struct list *ret_startable)
{
	ending->req = req;
	ending->file = req->file;
	ending->device = req->is_oldest ? req->device : NULL;
	ending->is_write = uaio_order_is_write(req->order);
	ending->delayed_exit = uaio_req_delays_exit(req);
	ending->breaks = unlikely(req->sqe.links) && uaio_link_breaks(req, res);
	if (unlikely(req->owns_waitq))
		uaio_ready_returned(req);
	if (uaio_req_uses_number(req))
		uaio_file_unuse(req->file);
	record(stats, req, res, worker);
	uaio_copy_drop(req);
	if (!ending->is_write && req->order != UAIO_ORDER_NONE)
		uaio_order_return(req, ret_startable);
}

static inline __attribute__((always_inline)) void
leave_locked(const struct ending *ending, struct list *ret_startable)
{
	if (unlikely(ending->req->sqe.links))
		uaio_link_leave_locked(ending->req, ending->breaks,
				       ret_startable);
	uaio_req_leave_locked(ending->req, !ending->is_write);
}

/*
 * Second part of completing a request, after cancellers can no longer find it. A write
 * keeps its file, and from now on only syncs wait for it. Any other request drops its
 * file.
 */
static inline __attribute__((always_inline)) void
let_go_of_file(const struct ending *ending, struct list *ret_startable)
{
	if (ending->is_write)
		uaio_order_return(ending->req, ret_startable);
	else if (likely(ending->file))
		uaio_file_put(ending->file);
}

/*
 * Last part of completing a request, after its completion was posted. Its queue may
 * already be freed.
 */
static inline __attribute__((always_inline)) void
end_end(const struct ending *ending, struct uaio_worker *worker,
	struct list *ret_startable)
{
	if (ending->is_write) {
		uaio_order_leave(ending->req, ret_startable);
		uaio_req_free(ending->req);
		uaio_file_put(ending->file);
	}
	if (ending->delayed_exit)
		uaio_gate_delay_over();
	if (ending->device)
		uaio_req_read_next(ending->device, worker, ret_startable);
}

/*
 * Inlined: most often nr is the constant 1, for which the compiler makes simpler code.
 */
static inline __attribute__((always_inline)) void
end(struct uaio_req *const *reqs, const int64_t *results, unsigned nr,
    struct uaio_worker *worker, struct list *ret_startable)
{
	struct uaio_completion completions[UAIO_REQS_TOGETHER];
	struct ending endings[UAIO_REQS_TOGETHER];
	struct uaio_group *group = reqs[0]->group;
	struct uaio_live_block *stats = count(nr);
	struct uaio_post post = {
		.completions = completions,
		.nr = nr,
		.by_worker = worker || is_for_worker(&reqs[0]->sqe),
	};

	for (unsigned i = 0; i < nr; i++) {
		completions[i] = completion_of(reqs[i], results[i]);
		post.words |= completions[i].word;
		begin_end(&endings[i], reqs[i], results[i], stats, worker,
			  ret_startable);
	}
	uaio_lock(&group->lock, UAIO_RANK_GROUP);
	for (unsigned i = 0; i < nr; i++)
		leave_locked(&endings[i], ret_startable);
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);
	for (unsigned i = 0; i < nr; i++)
		let_go_of_file(&endings[i], ret_startable);
	uaio_queue_post_late(uaio_queue_of(group), &post, ret_startable);
	for (unsigned i = 0; i < nr; i++)
		end_end(&endings[i], worker, ret_startable);
}

void uaio_req_finish(struct uaio_req *req, int64_t res,
		     struct uaio_worker *worker, struct list *ret_startable)
{
	if (unlikely(req->fault) &&
	    uaio_late_hold(req, &res, worker, ret_startable))
		return;
	end(&req, &res, 1, worker, ret_startable);
}

/*
 * Return: how many of the first requests of the array can be posted together. These
 * requests must be of one queue, and is_for_worker() must return the same for all of
 * them. If faults are injected, the result is 1, as each completion may be delayed.
 */
static unsigned nr_together(struct uaio_req *const *reqs, unsigned nr)
{
	unsigned together = 1;

	if (unlikely(uaio_config.is_examined))
		return 1;
	while (together < nr && together < UAIO_REQS_TOGETHER &&
	       reqs[together]->group == reqs[0]->group &&
	       is_for_worker(&reqs[together]->sqe) ==
		       is_for_worker(&reqs[0]->sqe))
		together++;
	return together;
}

/*
 * Start requests that waited for requests which are now complete. is_last, worker: as for
 * uaio_req_complete_by().
 */
static void start_after(struct list *startable, bool is_last,
			struct uaio_worker *worker)
{
	struct uaio_handover handover;

	if (likely(list_is_empty(startable)))
		return;
	uaio_handover_init(&handover);
	handover.is_last = is_last;
	handover.worker = worker;
	uaio_req_start_and_hand_over(startable, &handover);
}

void uaio_req_complete_together(struct uaio_req *const *reqs,
				const int64_t *results, unsigned nr,
				struct uaio_worker *worker)
{
	struct list startable;

	list_init(&startable);
	while (nr) {
		unsigned part = nr_together(reqs, nr);

		if (part > 1)
			end(reqs, results, part, worker, &startable);
		else
			uaio_req_finish(reqs[0], results[0], worker,
					&startable);
		reqs += part;
		results += part;
		nr -= part;
	}
	start_after(&startable, false, worker);
}

void uaio_req_complete_by(struct uaio_req *req, int64_t res, bool is_last,
			  struct uaio_worker *worker)
{
	struct list startable;

	list_init(&startable);
	uaio_req_finish(req, res, worker, &startable);
	start_after(&startable, is_last, worker);
}
