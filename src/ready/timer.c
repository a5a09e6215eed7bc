/* SPDX-License-Identifier: MIT */
#include "ready/timer.h"

#include <errno.h>
#include <time.h>

#include "check/check.h"
#include "ready/readyint.h"

static struct uaio_req *req_of(const struct heap_node *node)
{
	return container_of(node, struct uaio_req, in_timed);
}

static bool is_before(const struct heap_node *a, const struct heap_node *b)
{
	return req_of(a)->until_ns < req_of(b)->until_ns;
}

static struct uaio_ready *home_of(const struct uaio_req *req)
{
	return &uaio_ready_home(&req->group->ready)->ready;
}

static void lock(struct uaio_ready *ready)
{
	uaio_lock(&ready->lock, UAIO_RANK_READY);
}

static void unlock(struct uaio_ready *ready)
{
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
}

/* Return: the clock of a timer. */
static int clock_of(const struct uaio_sqe *sqe)
{
	return sqe->timer_flags & UAIO_TIMER_REALTIME   ? CLOCK_REALTIME
	       : sqe->timer_flags & UAIO_TIMER_BOOTTIME ? CLOCK_BOOTTIME
							: CLOCK_MONOTONIC;
}

int64_t uaio_timer_due(const struct uaio_sqe *sqe, int64_t now)
{
	const uint32_t flags =
		sqe->timer_flags & ~(uint32_t)UAIO_TIMER_SUCCEEDS;
	int64_t base = flags == UAIO_TIMER_ABSOLUTE ? 0 : now, due;

	/*
	 * A thread may be preempted between reading CLOCK_MONOTONIC (`now`) and reading
	 * the timer's own clock. Then it computes a `due` that is too early. This does
	 * no harm: at `due`, the library reads the timer's own clock again, and lets
	 * the timer go on waiting if necessary (goes_on_locked()).
	 */
	if (flags & UAIO_TIMER_ABSOLUTE && flags != UAIO_TIMER_ABSOLUTE)
		base -= uaio_now_of(clock_of(sqe));
	if (__builtin_add_overflow(base, sqe->time_ns, &due) ||
	    due == UAIO_FOREVER)
		return UAIO_FOREVER - 1;
	return due > 0 ? due : 1;
}

/*
 * The heap of requests with a time. The caller of these functions holds the lock of
 * struct uaio_ready.
 */

static void note_next_locked(struct uaio_ready *ready)
{
	const struct heap_node *first = heap_first(&ready->timed);

	/*
	 * [MB:timer] seq_cst: the caller reads UAIO_LEADER next. Pairs with
	 * uaio_timers_sooner().
	 */
	store_seq_cst(&ready->next_ns,
		      first ? req_of(first)->until_ns : UAIO_FOREVER);
}

/* Return: whether req now expires before all other requests in the heap. */
static bool add_locked(struct uaio_ready *ready, struct uaio_req *req)
{
	heap_add(&ready->timed, &req->in_timed, is_before);
	if (heap_first(&ready->timed) != &req->in_timed)
		return false;
	note_next_locked(ready);
	return true;
}

static void remove_locked(struct uaio_ready *ready, struct uaio_req *req)
{
	bool was_first = heap_first(&ready->timed) == &req->in_timed;

	heap_remove(&ready->timed, &req->in_timed, is_before);
	if (was_first)
		note_next_locked(ready);
}

void uaio_timer_tell_sleeper(struct uaio_group *home)
{
	/*
	 * [MB:timer] seq_cst: next_ns was written before this load, which reads whether
	 * a leader sleeps. Pairs with uaio_timers_sooner().
	 */
	if (load_seq_cst(&home->ready.keepers) & UAIO_LEADER)
		uaio_poller_wake(&home->ready.poller);
	else
		uaio_fallback_hurry(home);
}

/* Requests with a time limit */

bool uaio_timer_add_locked(struct uaio_req *req)
{
	struct uaio_ready *ready;
	bool is_first;

	if (likely(!req->until_ns))
		return false;
	ready = home_of(req);
	lock(ready);
	is_first = add_locked(ready, req);
	unlock(ready);
	return is_first;
}

void uaio_timer_remove_locked(struct uaio_req *req)
{
	struct uaio_ready *ready;

	if (likely(!req->until_ns))
		return;
	ready = home_of(req);
	lock(ready);
	remove_locked(ready, req);
	unlock(ready);
}

/*
 * Remove requests whose time limit has expired from a wait queue, and append them to
 * ret_over. The file's lock is held.
 */
static void take_parked_locked(struct uaio_file *file, enum uaio_waitq_id id,
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
		uaio_timer_remove_locked(req);
		uaio_waitq_count_out(waitq, req);
		list_add_tail(ret_over, &req->link);
	}
	/*
	 * No thread has tried the next request yet. The next request may succeed
	 * although the removed one had to wait, for example if it writes less. So let a
	 * thread try it.
	 */
	if (waitq->parked.next != first && !waitq->is_running)
		uaio_waitq_kick_locked(file, id, NULL);
}

/*
 * Complete the requests on file whose time limit has expired. This drops the caller's
 * reference to file.
 * Return: whether a request was completed.
 */
static bool end_limited(struct uaio_file *file, int64_t now)
{
	struct list over, *node;
	bool has_ended;

	list_init(&over);
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	take_parked_locked(file, UAIO_WAITQ_READ, now, &over);
	take_parked_locked(file, UAIO_WAITQ_WRITE, now, &over);
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	has_ended = !list_is_empty(&over);
	while ((node = list_pop(&over))) {
		struct uaio_req *req =
			container_of(node, struct uaio_req, link);

		uaio_flow->complete(
			req, req->done_bytes ? req->done_bytes : -EAGAIN, NULL);
	}
	uaio_file_put(file);
	return has_ended;
}

/*
 * Timers
 */

bool uaio_timer_park(struct uaio_req *req, enum uaio_req_state from)
{
	struct uaio_group *home = uaio_ready_home(&req->group->ready);
	struct uaio_ready *ready = &home->ready;
	bool parks, is_first = false;

	lock(ready);
	/*
	 * [MB:closing] seq_cst: writes the state, then reads is_closing of the
	 * request's own queue (not of `ready`, which may belong to the commons). Pairs
	 * with close_group().
	 */
	uaio_req_move_seq_cst(req, from, UAIO_REQ_TIMED);
	parks = !load_seq_cst(&req->group->ready.is_closing);
	/*
	 * [MB:unwanted] seq_cst: writes the state, then reads is_unwanted. Pairs with
	 * cancel.c.
	 */
	if (unlikely(load_seq_cst(&req->is_unwanted)))
		parks = false;
	if (parks)
		is_first = add_locked(ready, req);
	else
		uaio_req_move(req, UAIO_REQ_TIMED, from);
	unlock(ready);
	if (!parks)
		uaio_ready_unexpect(req->group);
	else if (is_first)
		uaio_timer_tell_sleeper(home);
	return parks;
}

static void take_timer_locked(struct uaio_ready *ready, struct uaio_req *req)
{
	remove_locked(ready, req);
	uaio_req_move(req, UAIO_REQ_TIMED, UAIO_REQ_RUNNING);
	uaio_ready_unexpect(req->group);
}

enum uaio_cancel uaio_timer_cancel(struct uaio_req *req,
				   struct uaio_canceller *canceller,
				   struct list *ret_startable)
{
	struct uaio_ready *ready = home_of(req);
	enum uaio_cancel ret = UAIO_CANCEL_NONE;

	(void)canceller;
	(void)ret_startable;
	lock(ready);
	/*
	 * If the completion of a request is delayed (late.h), the request has been
	 * executed already. So only closing its queue cancels it (late.h I2).
	 */
	if (uaio_req_state(req) == UAIO_REQ_TIMED &&
	    (likely(!req->late.held) || req->late.held == UAIO_REQ_DEFERRED ||
	     load_relaxed(&req->group->ready.is_closing))) {
		take_timer_locked(ready, req);
		ret = UAIO_CANCEL_TAKEN;
	}
	unlock(ready);
	return ret;
}

/*
 * A timer is due by CLOCK_MONOTONIC. Its own clock may not have reached its time, for
 * example because that clock was set back. Then put the timer into the heap with its
 * new time. UNTESTED: a test cannot set the clock.
 * Return: whether the timer waits again.
 */
static bool goes_on_locked(struct uaio_ready *ready, struct uaio_req *req,
			   int64_t now)
{
	int64_t due;

	if (req->late.held || !(req->sqe.timer_flags & UAIO_TIMER_ABSOLUTE) ||
	    clock_of(&req->sqe) == CLOCK_MONOTONIC)
		return false;
	due = uaio_timer_due(&req->sqe, now);
	if (due <= now)
		return false;
	remove_locked(ready, req);
	req->until_ns = due;
	(void)add_locked(ready, req);
	return true;
}

/*
 * Return: whether req is due: its time is over, or its completion was delayed until the
 * submitting call returns, and that call has returned.
 */
static bool is_due(const struct uaio_req *req, int64_t now)
{
	return req->until_ns <= now ||
	       (unlikely(req->late.held) && req->late.awaits_call &&
		uaio_check_is_over(req->late.record));
}

/*
 * Look at the first request of the heap, and take it if its time is over.
 * Return: whether the caller must act. Then *ret_timer is a timer, which is now
 * RUNNING; or *ret_file is the file of a request with a time limit, with a reference.
 */
static bool take_first(struct uaio_ready *ready, int64_t now,
		       struct uaio_req **ret_timer, struct uaio_file **ret_file)
{
	const struct heap_node *first;
	struct uaio_req *req;

	*ret_timer = NULL;
	*ret_file = NULL;
	lock(ready);
	while ((first = heap_first(&ready->timed)) &&
	       is_due(req = req_of(first), now)) {
		/*
		 * A request with a time limit has a file. A deferred request (not
		 * executed yet, defer.h) may have one, too, but waits for its time like
		 * a timer.
		 */
		if (req->file && likely(!req->late.held)) {
			if (uaio_file_try_get(req->file))
				*ret_file = req->file;
			break;
		}
		if (!goes_on_locked(ready, req, now)) {
			take_timer_locked(ready, req);
			*ret_timer = req;
			break;
		}
	}
	unlock(ready);
	return *ret_timer || *ret_file;
}

/*
 * A multishot timer, which is RUNNING, has expired: post a completion, and start its
 * next interval.
 * Return: false if this was its last interval, or the next interval cannot start; the
 * caller then completes the timer.
 */
static bool repeat(struct uaio_req *timer)
{
	/*
	 * The next interval begins when the completion has been posted, even if it was
	 * posted late.
	 */
	if (timer->sqe.len == 1 || uaio_ready_expect(timer->group) < 0)
		return false;
	if (!uaio_flow->post_more(timer, -ETIME)) {
		uaio_ready_unexpect(timer->group);
		return false;
	}
	timer->sqe.len -= timer->sqe.len != 0;
	/* Only the interval that uaio_timer_change() changes has an absolute end. */
	timer->sqe.timer_flags &= ~(uint32_t)UAIO_TIMER_ABSOLUTE;
	timer->until_ns = uaio_timer_due(&timer->sqe, uaio_now_ns());
	if (!uaio_ready_park(timer, UAIO_REQ_RUNNING))
		uaio_flow->complete(timer, -ECANCELED, NULL);
	return true;
}

/*
 * Change the time of a timer that is in the heap.
 * Return: false if req no longer waits there.
 */
static bool change_locked(struct uaio_req *req, int64_t now,
			  const struct uaio_timer_aim *aim, bool *ret_is_first)
{
	struct uaio_ready *ready = home_of(req);
	bool waits;

	lock(ready);
	waits = uaio_req_state(req) == UAIO_REQ_TIMED;
	if (waits) {
		remove_locked(ready, req);
		req->sqe.time_ns = aim->time_ns;
		req->sqe.timer_flags &= ~(uint32_t)UAIO_TIMER_ABSOLUTE;
		req->sqe.timer_flags |=
			aim->is_absolute ? UAIO_TIMER_ABSOLUTE : 0;
		if (req->sqe.is_multishot)
			req->sqe.len = 0;
		req->until_ns = uaio_timer_due(&req->sqe, now);
		*ret_is_first = add_locked(ready, req);
	}
	unlock(ready);
	return waits;
}

int uaio_timer_change(struct uaio_queue *queue,
		      const struct uaio_timer_aim *aim)
{
	struct uaio_group *group = &queue->group;
	int64_t now = uaio_now_ns();
	struct uaio_search search;
	bool is_first = false;
	int ret = -ENOENT;

	uaio_lock(&group->lock, UAIO_RANK_GROUP);
	search = uaio_index_search(group, UAIO_INDEX_DATA, aim->data);
	list_for_each (pos, search.head) {
		struct uaio_req *req = uaio_search_at(&search, pos);

		if (uaio_optab[req->sqe.op].class != UAIO_CLASS_TIMER ||
		    uaio_req_state(req) == UAIO_REQ_HELD || req->late.held ||
		    !aim->is_meant(aim, &req->sqe))
			continue;
		ret = change_locked(req, now, aim, &is_first) ? 0 : -EALREADY;
		break;
	}
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);
	if (is_first)
		uaio_timer_tell_sleeper(uaio_ready_home(&group->ready));
	return ret;
}

void uaio_timers_run(struct uaio_group *home)
{
	int64_t now = uaio_now_ns();
	struct uaio_req *timer;
	struct uaio_file *file;
	bool has_ended = true;

	while (has_ended && take_first(&home->ready, now, &timer, &file)) {
		if (timer && (timer->sqe.op == UAIO_OP_LINK_TIMER ||
			      timer->late.held == UAIO_REQ_DEFERRED))
			uaio_flow->expire(timer);
		else if (timer && (!timer->sqe.is_multishot || !repeat(timer)))
			uaio_flow->complete(timer, -ETIME, NULL);
		else if (file)
			has_ended = end_limited(file, now);
	}
}
