/* SPDX-License-Identifier: MIT */
#include "ready/timed.h"

#include <errno.h>

#include "base/check.h"
#include "ready/readyint.h"

static struct {
	uint32_t nr; /* atomic, written under lock */

	struct uaio_lock lock; /* rank TIMED */
	struct list reqs;      /* under lock: the first to end first */
} timed;

static struct uaio_req *req_of(struct list *node)
{
	return container_of(node, struct uaio_req, in_timed);
}

void uaio_timed_init(void)
{
	timed.lock = (struct uaio_lock){ 0 };
	list_init(&timed.reqs);
	store_relaxed(&timed.nr, 0);
}

static void lock(void)
{
	uaio_lock(&timed.lock, UAIO_RANK_TIMED);
}

static void unlock(void)
{
	uaio_unlock(&timed.lock, UAIO_RANK_TIMED);
}

bool uaio_timed_add_locked(struct uaio_req *req)
{
	struct list *pos;
	bool is_first;

	if (likely(!req->until_ns))
		return false;
	lock();
	/* Mostly all have the same time limit, so the place is the last. */
	for (pos = timed.reqs.prev; pos != &timed.reqs; pos = pos->prev)
		if (req_of(pos)->until_ns <= req->until_ns)
			break;
	list_add_head(pos, &req->in_timed);
	/* relaxed: the thread that relies on it is woken */
	store_relaxed(&timed.nr, load_relaxed(&timed.nr) + 1);
	is_first = timed.reqs.next == &req->in_timed;
	unlock();
	return is_first;
}

void uaio_timed_remove_locked(struct uaio_req *req)
{
	if (likely(!req->until_ns))
		return;
	lock();
	list_remove(&req->in_timed);
	store_relaxed(&timed.nr, load_relaxed(&timed.nr) - 1);
	unlock();
}

int64_t uaio_timed_next(void)
{
	int64_t next = UAIO_FOREVER;

	if (likely(!load_relaxed(&timed.nr)))
		return next;
	lock();
	if (!list_is_empty(&timed.reqs))
		next = req_of(timed.reqs.next)->until_ns;
	unlock();
	return next;
}

/*
 * Return: the file of a request whose time is over, with a reference; or NULL.
 */
static struct uaio_file *get_next(int64_t now)
{
	struct uaio_file *file = NULL;

	lock();
	if (!list_is_empty(&timed.reqs)) {
		struct uaio_req *req = req_of(timed.reqs.next);

		if (req->until_ns <= now && uaio_file_try_get(req->file))
			file = req->file;
	}
	unlock();
	return file;
}

static void take_locked(struct uaio_file *file, enum uaio_waitq_id id,
			int64_t now, struct list *ret_over)
{
	struct uaio_waitq *waitq = &file->waitqs[id];
	struct list *first = waitq->parked.next;

	list_for_each_safe (pos, &waitq->parked) {
		struct uaio_req *req = container_of(pos, struct uaio_req, link);

		if (!req->until_ns || req->until_ns > now ||
		    uaio_req_state(req) != UAIO_REQ_PARKED)
			continue;
		uaio_req_move(req, UAIO_REQ_PARKED, UAIO_REQ_RUNNING);
		list_remove(&req->link);
		uaio_timed_remove_locked(req);
		uaio_waitq_count_out(waitq, req);
		list_add_tail(ret_over, &req->link);
	}
	/* The next may need less, and has not been tried. */
	if (waitq->parked.next != first && !waitq->is_running)
		uaio_waitq_kick_locked(file, id, NULL);
}

void uaio_timed_end(void)
{
	int64_t now = uaio_now_ns();
	struct uaio_file *file;
	bool has_ended = true;

	if (likely(!load_relaxed(&timed.nr)))
		return;
	while (has_ended && (file = get_next(now))) {
		struct list over, *node;

		list_init(&over);
		uaio_lock(&file->lock, UAIO_RANK_FILE);
		take_locked(file, UAIO_WAITQ_READ, now, &over);
		take_locked(file, UAIO_WAITQ_WRITE, now, &over);
		uaio_unlock(&file->lock, UAIO_RANK_FILE);
		has_ended = !list_is_empty(&over);
		while ((node = list_pop(&over))) {
			struct uaio_req *req =
				container_of(node, struct uaio_req, link);

			uaio_flow->complete(req,
					    req->done_bytes ? req->done_bytes
							    : -EAGAIN,
					    NULL);
		}
		uaio_file_put(file);
	}
}
