/* SPDX-License-Identifier: MIT */
#include "flow/flow.h"

#include <errno.h>
#include <linux/fs.h>
#include <string.h>

#include "base/probe.h"
#include "base/sys.h"
#include "trace/trace.h"
#include "proc/entry.h"
#include "file/inode.h"
#include "req/record.h"
#include "req/req.h"
#include "req/stats.h"
#include "wait/order.h"
#include "wait/page.h"
#include "ready/ready.h"
#include "split/split.h"
#include "split/whole.h"
#include "flow/copy.h"
#include "flow/drain.h"
#include "flow/gate.h"
#include "flow/kernel.h"
#include "flow/late.h"
#include "flow/link.h"
#include "flow/post.h"

static struct uaio_slab slab; /* of requests */

void uaio_group_init(struct uaio_group *group)
{
	list_init(&group->requests);
	group->free = NULL;
	uaio_drain_init_group(group);
	uaio_ready_init_group(group);
	uaio_page_init_group(group);
}

void uaio_group_fini(struct uaio_group *group)
{
	struct uaio_req *req;

	UAIO_CHECK(list_is_empty(&group->requests));
	uaio_ready_fini_group(group);
	while ((req = group->free)) {
		group->free = req->next_free;
		uaio_slab_put(&slab, req);
	}
}

/* Take a reference to the file of sqe; NULL if its operation has none. */
static int get_file(const struct uaio_sqe *sqe, struct uaio_file *fixed,
		    struct uaio_file **ret_file)
{
	if (unlikely(sqe->is_fixed)) {
		*ret_file = fixed;
		return uaio_file_try_get(fixed) ? 0 : -EBADF;
	}
	if (!uaio_optab[sqe->op].has_no_file)
		return uaio_file_get(sqe->fd, ret_file);
	*ret_file = NULL;
	return 0;
}

static void put_file(struct uaio_file *file)
{
	if (likely(file))
		uaio_file_put(file);
}

/*
 * copy: memory that holds the bytes of arguments already, or NULL: they fit into
 * the request.
 */
static inline __attribute__((always_inline)) void
fill(struct uaio_req *req, const struct uaio_sqe *sqe, size_t bytes, void *copy)
{
	bool may_block = !uaio_optab[sqe->op].never_blocks;

	req->sqe = *sqe;
	/* Neighbours, which are set by one store. */
	req->next = UAIO_NEXT_DONE;
	req->is_oldest = false;
	req->owns_waitq = false;
	req->is_one_call = req->is_by_worker = req->was_paged = false;
	req->is_faulty = req->is_short = req->is_native = false;
	req->edges = 0;
	req->until_ns = 0;
	/* Callers that enter the request in an order set it afterwards. */
	req->order = UAIO_ORDER_NONE;
	req->is_unwanted = false;
	req->done_bytes = 0;
	req->work.may_block = may_block;
	req->work.is_public = req->work.is_held = false;
	req->work.is_part = false;
	req->work.slot = NULL;
	req->device = NULL;
	list_init(&req->link);
	req->is_late = false;
	list_init(&req->work.link);
	list_init(&req->in_order);
	list_init(&req->in_paged);
	req->copy = copy;
	if (bytes && !copy) {
		req->copy = req->inline_iov;
		memcpy(req->inline_iov, sqe->buf, bytes);
	}
	if (req->copy)
		uaio_copy_use(req);
}

static struct uaio_req *take_locked(struct uaio_group *group)
{
	struct uaio_req *req = group->free;

	if (req) {
		group->free = req->next_free;
		return req;
	}
	return uaio_slab_get(&slab);
}

/* Return: the crew that executes what the calling thread submits to the queue. */
static unsigned enlist(const struct uaio_queue *queue)
{
	if (likely(!uaio_identities_are_many()))
		return 0;
	if (!uaio_queue_is_anothers(queue))
		return uaio_wq_enlist();
	uaio_wq_enlist_in(queue->crew);
	return queue->crew;
}

static inline __attribute__((always_inline)) struct uaio_req *
create(struct uaio_group *group, const struct uaio_sqe *sqe,
       struct uaio_file *file, struct uaio_watch *watch)
{
	size_t bytes = uaio_sqe_copied_bytes(sqe);
	unsigned crew = enlist(uaio_queue_of(group));
	struct uaio_req *req;
	void *copy = NULL;

	if (unlikely(crew == UAIO_WQ_NO_CREW))
		return NULL;
	if (bytes > sizeof(req->inline_iov) &&
	    !(copy = uaio_copy_new(sqe, bytes))) {
		uaio_wq_delist(crew);
		return NULL;
	}
	uaio_lock(&group->lock, UAIO_RANK_GROUP);
	req = take_locked(group);
	if (req) {
		req->group = group;
		req->file = file;
		req->watch = watch;
		fill(req, sqe, bytes, copy);
		req->work.crew = (uint8_t)crew;
		req->since = uaio_former_now();
		uaio_req_move(req, UAIO_REQ_FREE, UAIO_REQ_PREPPED);
		list_add_tail(&group->requests, &req->in_group);
		group->nr_made++;
		if (uaio_req_delays_exit(req))
			uaio_gate_delay();
	}
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);
	if (!req) {
		uaio_wq_delist(crew);
		if (copy)
			uaio_copy_free(sqe, copy);
	}
	return req;
}

struct uaio_req *uaio_req_new_held(struct uaio_queue *queue,
				   const struct uaio_sqe *sqe)
{
	return create(&queue->group, sqe, NULL, NULL);
}

int uaio_req_new(struct uaio_queue *queue, struct uaio_file *fixed,
		 const struct uaio_sqe *sqe, bool parks,
		 struct uaio_req **ret_req)
{
	struct uaio_group *group = &queue->group;
	struct uaio_watch *watch = NULL;
	struct uaio_file *file;
	struct uaio_req *req;
	int ret;

	ret = get_file(sqe, fixed, &file);
	if (ret < 0)
		return ret == -ENOMEM ? -EAGAIN : ret;
	/*
	 * The file may have become a regular one since it was tried; on that
	 * only polls park, until they are tried again. A timer has no file.
	 */
	if (parks && likely(file) &&
	    (!file->inode || uaio_optab[sqe->op].class == UAIO_CLASS_POLL) &&
	    !(watch = uaio_watch_get(group, file)))
		goto err_file;
	req = create(group, sqe, file, watch);
	if (!req)
		goto err_file;
	if (uaio_req_uses_number(req))
		(void)uaio_file_use(file);
	*ret_req = req;
	return 0;

err_file:
	put_file(file);
	return -EAGAIN;
}

static void unlink_locked(struct uaio_req *req, bool is_reusable)
{
	struct uaio_group *group = req->group;

	uaio_req_move(req, UAIO_REQ_RUNNING, UAIO_REQ_FREE);
	uaio_wq_delist(req->work.crew);
	list_remove(&req->in_group);
	if (is_reusable) {
		req->next_free = group->free;
		group->free = req;
	}
}

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
	unlink_locked(req, !is_write);
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);

	if (!is_write)
		put_file(file);
	else
		uaio_order_return(req, ret_startable);
	uaio_queue_post_late(uaio_queue_of(group), &post, ret_startable);
	if (is_write) {
		uaio_order_leave(req, ret_startable);
		uaio_slab_put(&slab, req);
		uaio_file_put(file);
	}
	if (delayed_exit)
		uaio_gate_delay_over();
	if (device)
		uaio_req_read_next(device, worker, ret_startable);
}

static inline __attribute__((always_inline)) void
finish(struct uaio_req *req, int64_t res, struct uaio_worker *worker,
       struct list *ret_startable)
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
		unlink_locked(req, true);
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
		unlink_locked(all->reqs[i], !is_write(all, i));
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
		uaio_slab_put(&slab, all->reqs[i]);
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
			finish(reqs[0], results[0], NULL, &startable);
		reqs += part;
		results += part;
		nr -= part;
	}
	if (unlikely(!list_is_empty(&startable)))
		uaio_req_start_all(&startable);
}

void uaio_req_to_worker(struct uaio_req *req, struct uaio_handover *handover)
{
	enum uaio_account account = uaio_req_account(req);
	const struct uaio_inode *inode = uaio_req_inode(req);

	/* The kernel's numbers of devices have 32 bits. A block device is its own. */
	req->work.device = account != UAIO_BOUNDED || !inode ? 0
			   : inode->dev == UINT64_MAX ? (uint32_t)inode->ino
						      : (uint32_t)inode->dev;
	uaio_wq_add(account, &req->work, handover);
}

/*
 * Send a PREPPED request to its pages, to a worker or to its file.
 * Return: whether it went; false: it was to be parked, and must not be.
 */
static inline __attribute__((always_inline)) bool
route(struct uaio_req *req, struct uaio_handover *handover)
{
	UAIO_CHECK(req->next > UAIO_NEXT_WAIT_ORDER);
	if (uaio_next_parks(req->next))
		return uaio_ready_park(req);
	if (req->next == UAIO_NEXT_WAIT_PAGES && uaio_page_park(req))
		return true;
	req->next = UAIO_NEXT_WORKER;
	if (unlikely(uaio_kernel_line(req, handover)))
		return true;
	uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_QUEUED);
	uaio_req_to_worker(req, handover);
	return true;
}

/* Execute a request in this thread; a worker counts as blocked meanwhile. */
static int64_t execute_here(struct uaio_req *req, struct uaio_worker *worker)
{
	int64_t res;

	if (worker)
		uaio_wq_blocks(worker);
	res = uaio_req_execute(req);
	if (worker)
		uaio_wq_returned(worker);
	return res;
}

/*
 * End a request that could not be queued or parked. Bounded requests end by
 * themselves, so the calling thread executes them. An unbounded one fails with
 * EAGAIN if it needs a thread to block and there is none; otherwise it was to be
 * parked while its queue goes away, and is cancelled. A request of another identity
 * comes here only if its crew has no thread: it fails, too.
 */
static void end_here(struct uaio_req *req, struct uaio_worker *worker,
		     struct list *ret_startable)
{
	int64_t res;

	uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_RUNNING);
	if (uaio_next_parks(req->next))
		res = uaio_req_cancelled_res(req);
	else if (uaio_req_account(req) == UAIO_BOUNDED &&
		 uaio_wq_is_mine(&req->work))
		res = execute_here(req, worker);
	else
		res = -EAGAIN;
	finish(req, res, worker, ret_startable);
}

/*
 * Issue a request that was held. The pin is for when it parks.
 * Return: as route().
 */
static __attribute__((noinline)) bool start_held(struct uaio_req *req,
						 struct uaio_handover *handover,
						 struct list *ret_startable)
{
	struct uaio_group *group = req->group;
	enum uaio_next next;
	bool went = true;
	int64_t res;

	uaio_ready_pin(&group->ready);
	next = uaio_link_issue(req, &res);
	if (next == UAIO_NEXT_DONE) {
		uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_RUNNING);
		finish(req, res, handover->worker, ret_startable);
	} else if (next != UAIO_NEXT_WAIT_ORDER) {
		went = route(req, handover);
	}
	if (uaio_next_parks(next))
		uaio_ready_announce(group);
	/* What ends it may have come after starts(), before it could be cancelled. */
	if (next == UAIO_NEXT_WAIT_TIME && uaio_queue_of(group)->sink->act)
		uaio_queue_of(group)->sink->act(uaio_queue_of(group));
	uaio_ready_unpin(&group->ready);
	uaio_link_started();
	return went;
}

/* Start a request. Those that it lets start go to the end of the list. */
static void start_one(struct uaio_req *req, struct uaio_handover *handover,
		      struct list *ret_startable)
{
	bool went;

	if (unlikely(req->sqe.links) && uaio_link_was_held(req))
		went = start_held(req, handover, ret_startable);
	else
		went = route(req, handover);
	if (unlikely(!went))
		end_here(req, handover->worker, ret_startable);
}

/*
 * Start all requests of the list. Requests that they let start go to the end of
 * the same list: no recursion.
 */
static void start_list(struct list *startable, struct uaio_handover *handover)
{
	struct list *node;

	while ((node = list_pop(startable)))
		start_one(container_of(node, struct uaio_req, link), handover,
			  startable);
}

static struct uaio_req *refused_req(const struct uaio_work *work)
{
	struct uaio_req *req = uaio_req_of(work);

	uaio_req_move(req, UAIO_REQ_QUEUED, UAIO_REQ_PREPPED);
	return req;
}

/*
 * No recursion here either: a request that ends may let others start, which are
 * added to the handover again.
 */
void uaio_req_hand_over(struct uaio_handover *handover)
{
	while (uaio_handover_is_due(handover)) {
		struct list refused, startable, *node;

		uaio_kernel_hand_over(handover);
		list_init(&refused);
		list_init(&startable);
		uaio_wq_hand_over(handover, &refused);
		uaio_split_refuse_all(&refused);
		while ((node = list_pop(&refused))) {
			struct uaio_work *work =
				container_of(node, struct uaio_work, link);

			end_here(refused_req(work), handover->worker,
				 &startable);
		}
		start_list(&startable, handover);
	}
}

static void start_and_hand_over(struct list *startable,
				struct uaio_handover *handover)
{
	start_list(startable, handover);
	uaio_req_hand_over(handover);
}

/* Not inline, as it is rare. */
static __attribute__((noinline)) void
end_and_start(struct uaio_req *req, struct uaio_handover *handover)
{
	struct list startable;

	list_init(&startable);
	end_here(req, handover->worker, &startable);
	start_list(&startable, handover);
}

void uaio_req_start(struct uaio_req *req, struct uaio_handover *handover)
{
	if (uaio_kernel_add(req, handover))
		return;
	if (unlikely(!route(req, handover)))
		end_and_start(req, handover);
}

void uaio_req_start_list(struct list *startable, struct uaio_handover *handover)
{
	start_list(startable, handover);
}

void uaio_req_start_first(struct list *startable,
			  struct uaio_handover *handover)
{
	struct list *node = list_pop(startable);

	start_one(container_of(node, struct uaio_req, link), handover,
		  startable);
}

void uaio_req_start_all(struct list *startable)
{
	struct uaio_handover handover;

	uaio_handover_init(&handover);
	start_and_hand_over(startable, &handover);
}

void uaio_req_complete_by(struct uaio_req *req, int64_t res, bool is_last,
			  struct uaio_worker *worker)
{
	struct list startable;
	struct uaio_handover handover;

	list_init(&startable);
	finish(req, res, worker, &startable);
	if (list_is_empty(&startable))
		return;
	uaio_handover_init(&handover);
	handover.is_last = is_last;
	handover.worker = worker;
	start_and_hand_over(&startable, &handover);
}

static void complete(struct uaio_req *req, int64_t res,
		     struct uaio_worker *worker)
{
	uaio_req_complete_by(req, res, false, worker);
}

void uaio_flow_init(void)
{
	static const struct uaio_flow_ops ops = {
		.complete = complete,
		.complete_together = uaio_req_complete_together,
		.complete_native = uaio_req_complete_native,
		.post_more = uaio_req_post_more,
		.start_all = uaio_req_start_all,
		.expire = uaio_link_expire,
		.handover = uaio_req_hand_over,
	};

	uaio_slab_init(&slab, sizeof(struct uaio_req), 65536);
	uaio_copies_init();
	uaio_flow = &ops;
}
