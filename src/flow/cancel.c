/* SPDX-License-Identifier: MIT */
/*
 * Cancelling
 *
 * Exactly one thread completes a request: the one that moved it to RUNNING. So a canceller
 * first removes the requests from where they wait, under the lock of that module, and
 * completes only those that it removed.
 *
 *   I1  Of several requests the newest are removed first. Meanwhile an older request, for
 *       which these wait, may complete, so that the oldest of these starts, as if it had
 *       started before the call. But no request is executed if the same call cancels an older
 *       request of its file that had to be executed before it.
 *   I2  No request is completed while a lock is held, because a completion wakes clients and
 *       may start other requests. So all requests are removed before the first is completed.
 *   I3  A request that is being tried cannot be removed, and may keep waiting after the try.
 *       The canceller marks it, and waits without a lock until the trying thread reports what
 *       became of it (waits.h). So the result of the call is correct for each request, and no
 *       other thread has to wait.
 *   I4  A canceller cannot wait for a worker that executes a multishot request, after which
 *       the request would continue. The canceller marks the request unwanted, and it ends
 *       instead. A request that is about to sleep is marked, too (asleep.h, I2). If the
 *       front-end's aim says ends_unparked, the canceller also marks requests of any kind that
 *       are about to be parked or deferred. They end as cancelled, and count in the result as
 *       executed by other threads.
 *   I5  A worker that waits for the files of a splice is notified to end the wait, and the
 *       canceller does not wait for it. The request keeps its copy of the arguments until
 *       uaio_copy_drop() removes it under the group's lock.
 */
#include <errno.h>

#include "proc/endable.h"
#include "file/file.h"
#include "op/args.h"
#include "req/queue.h"
#include "req/waits.h"
#include "flow/cancel.h"
#include "flow/flow.h"

/* Which requests of a group are to be cancelled. */
struct aim {
	bool (*is_meant)(const struct uaio_req *req, const struct aim *aim);
	enum uaio_index_by by;               /* the index to search */
	uint64_t key;                        /* the key in that index */
	const struct uaio_file *file;        /* borrows */
	const struct uaio_cancel_aim *doors; /* borrows */
	bool is_one; /* only the oldest pending request */
};

/* What a search of the group has found. */
struct haul {
	struct uaio_cancelled cancelled; /* removed; RUNNING */
	/*
	 * borrows: where a front-end wants the cancelled requests to be listed instead; or
	 * NULL
	 */
	struct uaio_cancelled *later;
	/* is notified of requests that were being tried (I3) */
	struct uaio_canceller canceller;
	int nr_cancelled;
	/* how many requests are being tried, of which the canceller will be notified */
	int nr_asked;
	int nr_others; /* how many requests match but are owned by other threads */
	bool ends_unparked; /* copied from the front-end's aim */
};

static bool is_any(const struct uaio_req *req, const struct aim *aim)
{
	(void)req;
	(void)aim;
	return true;
}

/* Return: whether the request is in a state in which it may wait for ever. */
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
	/* If a request of a chain has not started, it ends when the requests before it end. */
	return uaio_req_state(req) != UAIO_REQ_HELD &&
	       aim->doors->is_meant(aim->doors, &req->sqe, req->file);
}

/* End the wait of a worker's splice, if it is not over (I5). */
static void end_call_locked(struct uaio_req *req)
{
	const struct uaio_args *copy = req->copy;

	if (copy && copy->endable)
		uaio_endable_end(copy->endable);
}

/*
 * Mark a request that is about to be parked or deferred, so that it ends instead. Return: if
 * the request has just been parked, the result of the function cancel of its row (waits.h).
 */
static enum uaio_cancel keep_from_parking_locked(struct uaio_req *req,
						 struct haul *haul)
{
	const struct uaio_wait_ops *ops;

	/* [MB:unwanted] seq_cst: set, then read the state. Pairs with uaio_ready_park(). */
	store_seq_cst(&req->is_unwanted, true);
	ops = uaio_waits[load_seq_cst(&req->state) & ~(uint32_t)UAIO_REQ_TRIED];
	return ops ? ops->cancel(req, &haul->canceller,
				 &haul->cancelled.startable)
		   : UAIO_CANCEL_NONE;
}

/* Try to remove req from where it waits. The lock of its group is held. */
static enum uaio_cancel take_locked(struct uaio_req *req, struct haul *haul)
{
	const struct uaio_wait_ops *ops = uaio_waits_of(req);
	enum uaio_cancel ret = UAIO_CANCEL_NONE;

	if (ops)
		ret = ops->cancel(req, &haul->canceller,
				  &haul->cancelled.startable);
	if (unlikely(req->sqe.is_multishot || uaio_optab[req->sqe.op].sleeps) &&
	    ret == UAIO_CANCEL_NONE)
		/* relaxed: read under the lock */
		store_relaxed(&req->is_unwanted, true);
	if (haul->ends_unparked && ret == UAIO_CANCEL_NONE &&
	    (uaio_req_state(req) == UAIO_REQ_PREPPED ||
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

/* Remove the oldest request that can be cancelled. */
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
	haul->canceller = (struct uaio_canceller){
		.marks_none = aim->doors && aim->doors->marks_none,
	};
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
 * Complete requests that were being tried before the other requests of their file, which are
 * newer.
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

/* If a try executed the only request found, search again: another one may match. */
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
	 * A descriptor without an entry has no requests. The reference keeps the entry from
	 * being reused for another file. It is held only briefly, because a thread that closes
	 * the descriptor waits for it.
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
