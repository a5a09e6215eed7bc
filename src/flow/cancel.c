/* SPDX-License-Identifier: MIT */
/*
 * Cancelling
 *
 * Exactly one thread completes a request: the thread that moved the request to RUNNING.
 * So a canceller first removes requests from the lists in which they wait, each under the
 * lock of the module that has the list. The canceller then completes only the requests
 * that it removed.
 *
 *   I1  If several requests are to be cancelled, the newest are removed first. So the
 *       removal of a request never starts another request that is to be cancelled. But an
 *       older request that is not cancelled may complete meanwhile, and start a request
 *       that is to be cancelled. That request then counts as started before the cancelling
 *       call.
 *   I2  No request is completed while a lock is held, because a completion wakes clients and
 *       may start other requests. So all requests are removed before the first is completed.
 *   I3  A request that another thread is trying cannot be removed, and may have to wait again
 *       after the try. The canceller marks the request, and waits without a lock until the
 *       trying thread reports whether the request was executed or cancelled (waits.h). So the
 *       cancelling call returns the right result for each request, and no other thread has to
 *       wait.
 *   I4  A worker that executes a multishot request would park the request again. A canceller
 *       cannot wait for that worker, so it marks the request unwanted, and the worker ends the
 *       request instead. A request whose call is about to sleep is marked, too (asleep.h, I2).
 *       If the front-end sets ends_unparked (cancel.h), the canceller also marks any request
 *       that is about to be parked or deferred. Such a request ends as cancelled, but the
 *       cancelling call counts it as executed, because it does not wait for this end.
 *   I5  If a worker waits for the files of a splice, the canceller ends that wait
 *       (endable.h), and does not wait for the worker. To end the wait, the canceller reads
 *       the request's copy of the arguments, so uaio_copy_drop() frees the copy under the
 *       queue's lock (group->lock).
 *   I6  To change a poll, a thread removes the poll as a canceller does, changes it, and
 *       makes it PREPPED (about to be started), all under the queue's lock. The front-end
 *       posts the completion of the change, and then starts the poll again. So the poll
 *       keeps its place in a chain, its linked timer and its registered file. Meanwhile
 *       other threads find the poll PREPPED: a canceller marks it unwanted (I4), and a
 *       linked timer waits a little longer. If the queue is being closed, the poll is
 *       cancelled when it is started.
 */
#include <errno.h>

#include "base/sleep.h"
#include "proc/endable.h"
#include "proc/entry.h"
#include "file/file.h"
#include "op/args.h"
#include "req/queue.h"
#include "req/waits.h"
#include "ready/ready.h"
#include "flow/cancel.h"
#include "flow/flow.h"
#include "flow/gate.h"
#include "flow/link.h"

/* Which requests of a queue are to be cancelled. */
struct aim {
	bool (*is_meant)(const struct uaio_req *req, const struct aim *aim);
	/* in which index of the queue's requests to search */
	enum uaio_index_by by;
	/* the key of matching requests in that index */
	uint64_t key;
	const struct uaio_file *file;        /* borrows */
	const struct uaio_cancel_aim *doors; /* borrows */
	bool is_one; /* cancel only the oldest pending request */
};

/* The result of a search for requests to cancel. */
struct haul {
	struct uaio_cancelled cancelled; /* removed; RUNNING */
	/*
	 * borrows: the list to which cancelled requests are added, for the front-end to
	 * complete; NULL: this file completes them
	 */
	struct uaio_cancelled *later;
	/* collects the reports of threads that were trying matching requests (I3) */
	struct uaio_canceller canceller;
	int nr_cancelled;
	/*
	 * how many matching requests other threads were trying; each of these threads
	 * reports the outcome to `canceller`
	 */
	int nr_asked;
	int nr_others; /* how many requests match but are owned by other threads */
	/* a request that is about to be parked ends as cancelled instead */
	bool ends_unparked;
};

static bool is_any(const struct uaio_req *req, const struct aim *aim)
{
	(void)req;
	(void)aim;
	return true;
}

/*
 * Return: whether the request may wait for ever in its present state. uaio_group_close()
 * cancels such requests.
 */
static bool is_endless(const struct uaio_req *req, const struct aim *aim)
{
	const struct uaio_wait_ops *ops;

	(void)aim;
	if (unlikely(uaio_optab[req->sqe.op].has_ends))
		return true;
	/*
	 * [MB:closing] [step: CLOSING_LOOK] seq_cst: set is_closing, then read the state.
	 * Pairs with uaio_ready_park().
	 */
	ops = uaio_waits[load_seq_cst(&req->state) & ~(uint32_t)UAIO_REQ_TRIED];
	return ops && ops->close_group;
}

static bool is_key(const struct uaio_req *req, const struct aim *aim)
{
	return req->sqe.key == aim->key;
}

static bool is_on_file(const struct uaio_req *req, const struct aim *aim)
{
	return aim->file && req->file == aim->file;
}

static bool is_meant_by_door(const struct uaio_req *req, const struct aim *aim)
{
	/*
	 * A HELD request (of a chain, not yet started) is not searched for: it is cancelled
	 * with the request before it.
	 */
	return uaio_req_state(req) != UAIO_REQ_HELD &&
	       aim->doors->is_meant(aim->doors, &req->sqe, req->file);
}

/* If req is a splice, and a worker waits for its files, end that wait (I5). */
static void end_call_locked(struct uaio_req *req)
{
	const struct uaio_args *copy = req->copy;

	if (copy && copy->endable)
		uaio_endable_end(copy->endable);
}

/*
 * Mark a request that is about to be parked or deferred, so that it ends instead. If
 * another thread has parked the request meanwhile, cancel it where it waits (waits.h).
 * Return: the result of that cancelling; UAIO_CANCEL_NONE if the request is not parked.
 */
static enum uaio_cancel keep_from_parking_locked(struct uaio_req *req,
						 struct haul *haul)
{
	const struct uaio_wait_ops *ops;

	/*
	 * [MB:unwanted] seq_cst: set is_unwanted, then read the state. Pairs with
	 * uaio_ready_park().
	 */
	store_seq_cst(&req->is_unwanted, true);
	ops = uaio_waits[load_seq_cst(&req->state) & ~(uint32_t)UAIO_REQ_TRIED];
	return ops ? ops->cancel(req, &haul->canceller,
				 &haul->cancelled.startable)
		   : UAIO_CANCEL_NONE;
}

/*
 * Try to remove req from where it waits, or mark it so that it ends. The queue's lock is
 * held.
 */
static enum uaio_cancel take_locked(struct uaio_req *req, struct haul *haul)
{
	/*
	 * Read the state once, because another thread may park the request meanwhile. A
	 * request that was PREPPED here is marked below, even if it is PARKED by then.
	 */
	uint32_t state = uaio_req_state(req) & ~(uint32_t)UAIO_REQ_TRIED;
	const struct uaio_wait_ops *ops = uaio_waits[state];
	enum uaio_cancel ret = UAIO_CANCEL_NONE;

	if (ops)
		ret = ops->cancel(req, &haul->canceller,
				  &haul->cancelled.startable);
	if (unlikely(req->sqe.is_multishot || uaio_optab[req->sqe.op].sleeps) &&
	    ret == UAIO_CANCEL_NONE)
		/* relaxed: other threads read is_unwanted under the queue's lock */
		store_relaxed(&req->is_unwanted, true);
	/* A multishot timer may be parked again without the queue's lock. */
	if (haul->ends_unparked && ret == UAIO_CANCEL_NONE &&
	    (state == UAIO_REQ_PREPPED || req->sqe.is_multishot ||
	     req->late.held == UAIO_REQ_DEFERRED))
		ret = keep_from_parking_locked(req, haul);
	if (unlikely(uaio_optab[req->sqe.op].has_ends) &&
	    ret == UAIO_CANCEL_NONE)
		end_call_locked(req);
	haul->nr_cancelled += ret == UAIO_CANCEL_TAKEN;
	haul->nr_asked += ret == UAIO_CANCEL_ASKED;
	haul->nr_others += ret == UAIO_CANCEL_NONE || ret == UAIO_CANCEL_MARKED;
	return ret;
}

/* Remove the oldest matching request that can be cancelled. */
static void take_one_locked(struct uaio_group *group, const struct aim *aim,
			    struct haul *haul)
{
	struct uaio_search search = uaio_index_search(group, aim->by, aim->key);

	list_for_each (pos, search.head) {
		struct uaio_req *req = uaio_search_at(&search, pos);
		enum uaio_cancel ret;

		if (!aim->is_meant(req, aim))
			continue;
		ret = take_locked(req, haul);
		if (ret == UAIO_CANCEL_TAKEN)
			list_add_tail(&haul->cancelled.requests, &req->link);
		if (ret != UAIO_CANCEL_NONE)
			return;
	}
}

/* Remove the newest requests first (I1), but list the requests for completion oldest first. */
static void take_all_locked(struct uaio_group *group, const struct aim *aim,
			    struct haul *haul)
{
	struct uaio_search search = uaio_index_search(group, aim->by, aim->key);

	for (struct list *pos = search.head->prev; pos != search.head;
	     pos = pos->prev) {
		struct uaio_req *req = uaio_search_at(&search, pos);

		if (aim->is_meant(req, aim) &&
		    take_locked(req, haul) == UAIO_CANCEL_TAKEN)
			list_add_head(&haul->cancelled.requests, &req->link);
	}
}

static void collect(struct uaio_group *group, const struct aim *aim,
		    struct haul *haul)
{
	haul->canceller = (struct uaio_canceller){ 0 };
	haul->ends_unparked = aim->doors && aim->doors->ends_unparked;
	haul->nr_cancelled = haul->nr_asked = haul->nr_others = 0;
	haul->later = aim->doors ? aim->doors->ret_later : NULL;
	uaio_cancelled_init(&haul->cancelled);
	uaio_lock(&group->lock, UAIO_RANK_GROUP);
	if (aim->is_one)
		take_one_locked(group, aim, haul);
	else
		take_all_locked(group, aim, haul);
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);
}

void uaio_cancelled_init(struct uaio_cancelled *cancelled)
{
	list_init(&cancelled->requests);
	list_init(&cancelled->startable);
}

void uaio_cancelled_complete(struct uaio_cancelled *cancelled)
{
	struct list *node;

	while ((node = list_pop(&cancelled->requests))) {
		struct uaio_req *req =
			container_of(node, struct uaio_req, link);

		uaio_req_complete(req, uaio_req_cancelled_res(req));
	}
	uaio_req_start_all(&cancelled->startable);
}

/*
 * First wait until the requests that other threads were trying are complete. These
 * requests are older than the removed requests of their file, and so must complete first.
 */
static void complete(struct haul *haul)
{
	if (haul->nr_asked)
		haul->nr_cancelled +=
			(int)uaio_canceller_await(&haul->canceller);
	if (haul->later) {
		list_splice_tail(&haul->later->requests,
				 &haul->cancelled.requests);
		list_splice_tail(&haul->later->startable,
				 &haul->cancelled.startable);
		return;
	}
	uaio_cancelled_complete(&haul->cancelled);
}

/*
 * Another thread may have executed the request that was found. If only one request is to be
 * cancelled, search again then, because another request may match.
 */
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

/* Return: how many requests were cancelled, or the error that says why none was. */
static int answer(const struct haul *haul)
{
	return haul->nr_cancelled ? haul->nr_cancelled
	       : haul->nr_others  ? -EALREADY
				  : -ENOENT;
}

int uaio_queue_cancel_one(struct uaio_queue *queue, uint64_t key)
{
	const struct aim aim = {
		.is_meant = is_key,
		.by = UAIO_INDEX_KEY,
		.key = key,
		.is_one = true,
	};
	struct haul haul;

	cancel(&queue->group, &aim, &haul);
	return haul.nr_cancelled ? 0 : answer(&haul);
}

int uaio_queue_cancel_fd(struct uaio_queue *queue, int fd)
{
	struct aim aim = { .is_meant = is_on_file, .by = UAIO_INDEX_FILE };
	struct uaio_file *file = NULL;
	struct haul haul;

	/*
	 * A descriptor without an entry has no requests. The reference keeps the entry
	 * from being reused for another file. A thread that closes the descriptor waits
	 * for this reference, but not long: this function drops it soon.
	 */
	if (uaio_file_find(fd) && uaio_file_get(fd, &file) < 0)
		file = NULL;
	aim.file = file;
	if (file)
		aim.key = uaio_index_key_of(file);
	collect(&queue->group, &aim, &haul);
	if (file)
		uaio_file_put(file);
	complete(&haul);
	return answer(&haul);
}

int uaio_queue_cancel_file(struct uaio_queue *queue, struct uaio_file *file)
{
	const struct aim aim = {
		.is_meant = is_on_file,
		.by = UAIO_INDEX_FILE,
		.key = uaio_index_key_of(file),
		.file = file,
	};
	struct haul haul;

	cancel(&queue->group, &aim, &haul);
	return answer(&haul);
}

int uaio_queue_cancel_all(struct uaio_queue *queue)
{
	static const struct aim aim = { .is_meant = is_any };
	struct haul haul;

	cancel(&queue->group, &aim, &haul);
	return answer(&haul);
}

int uaio_queue_cancel_meant(struct uaio_queue *queue,
			    const struct uaio_cancel_aim *doors,
			    int *ret_nr_others)
{
	const struct aim aim = {
		.is_meant = is_meant_by_door,
		.by = doors->by,
		.key = doors->key,
		.doors = doors,
		.is_one = doors->is_one,
	};
	struct haul haul;

	cancel(&queue->group, &aim, &haul);
	if (ret_nr_others)
		*ret_nr_others = haul.nr_others;
	return answer(&haul);
}

/* Changing a poll (I6) */

static void change_locked(struct uaio_req *poll,
			  const struct uaio_poll_change *change,
			  struct list *ret_changed)
{
	if (change->sets_events)
		poll->sqe.events = change->events;
	if (change->sets_data)
		uaio_index_change_data(poll, change->new_data);
	uaio_link_resume_locked(poll, ret_changed);
}

/* Return: as uaio_queue_change_poll(); -EAGAIN if a thread is trying the poll. */
static int find_and_change_locked(struct uaio_group *group,
				  const struct uaio_poll_change *change,
				  struct list *ret_changed)
{
	struct uaio_search search =
		uaio_index_search(group, UAIO_INDEX_DATA, change->data);
	struct uaio_canceller canceller = { .marks_none = true };
	int ret = -ENOENT;

	list_for_each (pos, search.head) {
		struct uaio_req *req = uaio_search_at(&search, pos);
		uint32_t state =
			uaio_req_state(req) & ~(uint32_t)UAIO_REQ_TRIED;
		enum uaio_cancel what = UAIO_CANCEL_NONE;

		if (req->sqe.op != UAIO_OP_POLL ||
		    req->sqe.data != change->data || state == UAIO_REQ_HELD)
			continue;
		/* A deferred poll (defer.h) is TIMED; it then starts now. */
		if (state == UAIO_REQ_PARKED || state == UAIO_REQ_TIMED)
			what = uaio_waits[state]->cancel(req, &canceller, NULL);
		if (what == UAIO_CANCEL_TAKEN) {
			change_locked(req, change, ret_changed);
			return 0;
		}
		if (what == UAIO_CANCEL_MARKED)
			return -EAGAIN;
		ret = -EALREADY;
	}
	return ret;
}

int uaio_queue_change_poll(struct uaio_queue *queue,
			   const struct uaio_poll_change *change,
			   struct list *ret_changed)
{
	enum { SOON_NS = 50000 };
	const struct uaio_entry_run *run = uaio_entry.run;
	uint32_t word = 0;
	int ret;

	for (;;) {
		uaio_lock(&queue->group.lock, UAIO_RANK_GROUP);
		ret = find_and_change_locked(&queue->group, change,
					     ret_changed);
		uaio_unlock(&queue->group.lock, UAIO_RANK_GROUP);
		if (likely(ret != -EAGAIN))
			break;
		/* Such a thread must not wait for a try (waits.h, I4). */
		if (run && run->posted)
			return -EALREADY;
		/* A try is short, so this thread rarely waits here. */
		(void)uaio_sleep(&word, 0, uaio_now_ns() + SOON_NS);
	}
	/*
	 * uaio_link_resume_locked() has counted the poll as delaying the exit. Count it
	 * only when it starts, because until then this thread may wait at the gate.
	 */
	if (ret == 0)
		uaio_gate_delay_over();
	return ret;
}

void uaio_changed_start(struct list *changed)
{
	const struct uaio_req *poll =
		container_of(changed->next, struct uaio_req, link);
	struct uaio_group *group = poll->group;
	bool is_multishot = poll->sqe.is_multishot;
	struct uaio_handover handover;

	uaio_handover_init(&handover);
	uaio_ready_pin(&group->ready);
	uaio_link_start_later(changed, &handover);
	uaio_req_hand_over(&handover);
	/* The epoll may already have the first event of a multishot poll. */
	uaio_ready_submitted(group, is_multishot);
	uaio_ready_unpin(&group->ready);
}
