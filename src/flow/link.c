/* SPDX-License-Identifier: MIT */
#include "flow/link.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/check.h"
#include "op/op.h"
#include "req/queue.h"
#include "req/req.h"
#include "req/waits.h"
#include "ready/ready.h"
#include "ready/timer.h"
#include "flow/drain.h"
#include "flow/flow.h"
#include "flow/gate.h"

/* Flags of sqe.links that only this file sets. */
enum {
	MEMBER = 1u << 5, /* the request is in a chain */
	/*
	 * the submitting thread issues this request, as no earlier request of the chain had
	 * to wait
	 */
	HERE = 1u << 6,
	ISSUE = 1u << 7, /* send.c will issue the request */
	/* send.c will complete the request as cancelled */
	CANCEL = 1u << 8,
};

/*
 * If an expired linked timer cannot cancel its request yet, the timer expires again after
 * this time.
 */
enum { SOON_NS = 50000 };

static uaio_issue_held_fn *issue;

static void lock(struct uaio_group *group)
{
	uaio_lock(&group->lock, UAIO_RANK_GROUP);
}

static void unlock(struct uaio_group *group)
{
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);
}

static bool is_linked_timer(const struct uaio_req *req)
{
	return req->sqe.op == UAIO_OP_LINK_TIMER;
}

int uaio_link_new(const struct uaio_submitter *by, const struct uaio_sqe *sqe,
		  struct uaio_req **ret_req)
{
	struct uaio_req *req = uaio_req_new_held(by, sqe);

	if (!req)
		return -EAGAIN;
	req->after = req->before = NULL;
	req->sqe.links |= MEMBER;
	*ret_req = req;
	return 0;
}

void uaio_link_append(struct uaio_req *last, struct uaio_req *req)
{
	last->after = req;
	req->before = last;
}

/*
 * Append a request, which is PREPPED (about to be started), to ret_startable. send.c
 * will issue the request, or complete it as cancelled. Until then the request is
 * counted as delaying the exit (gate.h). If req waited for a write, this write is still
 * counted now, so the count does not become 0 in between.
 */
static void leave_to_starter(struct uaio_req *req, uint16_t what,
			     struct list *ret_startable)
{
	req->sqe.links |= what;
	list_add_tail(ret_startable, &req->link);
	uaio_gate_delay();
}

void uaio_link_started(void)
{
	uaio_gate_delay_over();
}

/*
 * Append a HELD request to ret_startable; send.c then issues or cancels it. The queue's
 * lock is held.
 */
static void release_locked(struct uaio_req *req, uint16_t what,
			   struct list *ret_startable)
{
	uaio_req_move(req, UAIO_REQ_HELD, UAIO_REQ_PREPPED);
	uaio_drain_lets_go_locked(req);
	if (req->before)
		req->since = uaio_former_at_start(req->since);
	req->before = NULL;
	leave_to_starter(req, what, ret_startable);
}

void uaio_link_release_locked(struct uaio_req *first,
			      struct list *ret_startable)
{
	release_locked(first, ISSUE, ret_startable);
}

void uaio_link_resume_locked(struct uaio_req *req, struct list *ret_startable)
{
	uaio_req_move(req, UAIO_REQ_RUNNING, UAIO_REQ_PREPPED);
	leave_to_starter(req, ISSUE, ret_startable);
}

/*
 * Cancel req and all later requests of its chain, which are HELD. `by`: the request that
 * failed.
 */
static void break_locked(struct uaio_req *req, const struct uaio_req *by,
			 struct list *ret_startable)
{
	bool is_quiet = by->sqe.links & UAIO_LINK_QUIET;

	while (req) {
		struct uaio_req *next = req->after;

		req->after = NULL;
		req->in_chain =
			is_quiet ? UAIO_CHAIN_CUT_QUIETLY : UAIO_CHAIN_CUT;
		release_locked(req, CANCEL, ret_startable);
		req = next;
	}
}

/*
 * The request that a linked timer limits is completing: stop the timer. A timer that has
 * already expired is completed by the thread that expired it (I4), so do nothing.
 */
static void stop_timer_locked(struct uaio_req *timer,
			      struct list *ret_startable)
{
	timer->after = NULL;
	if (uaio_req_state(timer) == UAIO_REQ_HELD) {
		release_locked(timer, CANCEL, ret_startable);
		return;
	}
	timer->before = NULL;
	if (uaio_timer_cancel(timer, NULL, NULL) != UAIO_CANCEL_TAKEN)
		return;
	uaio_req_move(timer, UAIO_REQ_RUNNING, UAIO_REQ_PREPPED);
	leave_to_starter(timer, CANCEL, ret_startable);
}

/* Remove a linked timer from its chain. */
static void splice_out_locked(struct uaio_req *timer)
{
	if (timer->before)
		timer->before->after = timer->after;
	if (timer->after)
		timer->after->before = timer->before;
	timer->before = timer->after = NULL;
}

bool uaio_link_breaks(const struct uaio_req *req, int64_t res)
{
	enum uaio_breaks breaks = uaio_optab[req->sqe.op].breaks;

	if (req->sqe.links & UAIO_LINK_HARD)
		return false;
	if (unlikely(req->late.held))
		return req->late.held == UAIO_REQ_HOLDS_BREAK;
	if (res == -ETIME &&
	    uaio_optab[req->sqe.op].class == UAIO_CLASS_TIMER &&
	    req->sqe.timer_flags & UAIO_TIMER_SUCCEEDS)
		return false;
	if (res < 0)
		return breaks != UAIO_BREAKS_NEVER || res == -ECANCELED ||
		       req->in_chain == UAIO_CHAIN_UNBEGUN;
	if (breaks != UAIO_BREAKS_BY_LESS &&
	    !(breaks == UAIO_BREAKS_IF_WHOLE &&
	      req->sqe.call_flags & MSG_WAITALL))
		return false;
	/*
	 * The requested number of bytes is the size of the provided buffer that the
	 * front-end selected.
	 */
	if (req->sqe.by_door)
		return (uint64_t)res < uaio_op_door->picked_bytes(&req->sqe);
	if (unlikely(req->fault == UAIO_REQ_SHORTER))
		return true;
	return (uint64_t)(res - req->done_bytes) < uaio_sqe_bytes(&req->sqe);
}

void uaio_link_leave_locked(struct uaio_req *req, bool breaks,
			    struct list *ret_startable)
{
	struct uaio_req *next;

	if (is_linked_timer(req) && req->before) {
		splice_out_locked(req);
		return;
	}
	next = req->after;
	req->after = NULL;
	if (next && is_linked_timer(next)) {
		struct uaio_req *timer = next;

		next = timer->after;
		stop_timer_locked(timer, ret_startable);
	}
	if (!next)
		return;
	if (breaks)
		break_locked(next, req, ret_startable);
	else
		release_locked(next,
			       (uint16_t)(ISSUE | (req->sqe.links & HERE)),
			       ret_startable);
}

/* Starting */

bool uaio_link_was_held(const struct uaio_req *req)
{
	return req->sqe.links & (ISSUE | CANCEL);
}

/*
 * Let the startable requests start only when the submission ends, and do not count them as
 * delaying the exit until then. Otherwise the submitting thread could wait at the gate
 * (gate.h) for an exit that waits for these requests.
 */
static void put_off(struct list *startable, struct list *ret_later)
{
	list_for_each (pos, startable)
		uaio_gate_delay_over();
	list_splice_tail(ret_later, startable);
}

void uaio_link_begin(struct uaio_req *first, bool is_broken, bool is_late,
		     struct uaio_handover *handover, struct list *ret_later)
{
	struct uaio_group *group = first->group;
	bool starts = false;
	struct list startable;

	list_init(&startable);
	lock(group);
	for (struct uaio_req *req = first->after; req; req = req->after)
		uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_HELD);
	if (is_broken) {
		uaio_req_move(first, UAIO_REQ_PREPPED, UAIO_REQ_HELD);
		release_locked(first, CANCEL, &startable);
		uaio_link_leave_locked(first, true, &startable);
	} else if (uaio_drain_is_due(first)) {
		uaio_req_move(first, UAIO_REQ_PREPPED, UAIO_REQ_HELD);
		uaio_drain_hold_locked(first);
		uaio_drain_advance_locked(group, &startable);
		/*
		 * All earlier chains that may start have already started. So if this
		 * list is not empty, it contains the new chain.
		 */
		if (!list_is_empty(&startable))
			first->sqe.links |= HERE;
	} else {
		leave_to_starter(first, ISSUE | HERE, &startable);
		starts = !is_late;
	}
	unlock(group);
	if (is_broken)
		uaio_req_start_list(&startable, handover);
	else if (starts)
		uaio_req_start_first(&startable, handover);
	put_off(&startable, ret_later);
}

void uaio_link_start_later(struct list *later, struct uaio_handover *handover)
{
	list_for_each (pos, later)
		uaio_gate_delay();
	uaio_req_start_list(later, handover);
}

bool uaio_link_is_here(const struct uaio_req *req)
{
	return req->sqe.links & HERE;
}

/*
 * Let a linked timer, which is HELD or RUNNING, wait until the time until_ns. The queue's
 * lock is held.
 * Return: false if memory is refused, or the timer's queue is being closed.
 */
static bool park_timer_locked(struct uaio_req *timer, enum uaio_req_state from,
			      int64_t until_ns)
{
	timer->until_ns = until_ns;
	return uaio_ready_expect(timer->group) == 0 &&
	       uaio_ready_park(timer, from);
}

void uaio_link_goes(struct uaio_req *req)
{
	struct uaio_group *group = req->group;
	struct uaio_req *timer;
	bool has_begun = false;

	req->sqe.links &= (uint16_t)~HERE;
	/* Read req->after under the lock, as a canceller may remove the next request. */
	lock(group);
	timer = req->after;
	/*
	 * If the timer cannot be parked, it stays HELD, and is cancelled when its request
	 * completes.
	 */
	if (unlikely(timer) && is_linked_timer(timer) &&
	    uaio_req_state(timer) == UAIO_REQ_HELD)
		has_begun = park_timer_locked(
			timer, UAIO_REQ_HELD,
			uaio_timer_due(&timer->sqe, uaio_now_ns()));
	unlock(group);
	if (unlikely(has_begun))
		uaio_ready_announce(group);
}

enum uaio_next uaio_link_issue(struct uaio_req *req, int64_t *ret_res)
{
	bool is_cancelled = req->sqe.links & CANCEL;

	req->sqe.links &= (uint16_t) ~(ISSUE | CANCEL);
	if (!is_cancelled)
		return issue(req, ret_res);
	*ret_res = uaio_req_cancelled_res(req);
	return UAIO_NEXT_DONE;
}

/* Cancelling HELD requests, and expiring linked timers */

static enum uaio_cancel cancel(struct uaio_req *req,
			       struct uaio_canceller *canceller,
			       struct list *ret_startable)
{
	(void)canceller;
	(void)ret_startable;
	if (uaio_req_state(req) != UAIO_REQ_HELD)
		return UAIO_CANCEL_NONE;
	uaio_req_move(req, UAIO_REQ_HELD, UAIO_REQ_RUNNING);
	uaio_drain_lets_go_locked(req);
	if (!is_linked_timer(req)) {
		/*
		 * req leaves the chain here; the later requests are cancelled when req
		 * completes.
		 */
		if (req->before)
			req->before->after = NULL;
		else
			list_remove(&req->link);
		req->before = NULL;
		req->sqe.links &= (uint16_t)~UAIO_LINK_HARD;
	}
	return UAIO_CANCEL_TAKEN;
}

static void close_group(struct uaio_group *group)
{
	/*
	 * Nothing to do for HELD requests. If a HELD request of a closing queue starts, it
	 * is cancelled when it is about to wait.
	 */
	(void)group;
}

/*
 * Another thread may be about to start the request that an expired linked timer limits,
 * so that the timer cannot cancel the request yet. Let the timer expire again after
 * SOON_NS. The queue's lock is held.
 * Return: false if memory is refused, or the timer's queue is being closed.
 */
static bool look_again_locked(struct uaio_req *timer)
{
	return park_timer_locked(timer, UAIO_REQ_RUNNING,
				 uaio_now_ns() + SOON_NS);
}

void uaio_link_expire(struct uaio_req *timer)
{
	struct uaio_group *group = timer->group;
	struct uaio_canceller canceller = { 0 };
	enum uaio_cancel what = UAIO_CANCEL_NONE;
	const struct uaio_wait_ops *ops;
	struct uaio_req *req;
	struct list startable;
	int64_t res = -ETIME;

	list_init(&startable);
	lock(group);
	req = timer->before;
	if (req && uaio_req_state(req) == UAIO_REQ_PREPPED &&
	    look_again_locked(timer)) {
		unlock(group);
		return;
	}
	if (req) {
		ops = uaio_waits_of(req);
		if (ops)
			what = ops->cancel(req, &canceller, &startable);
		/* A worker may be about to sleep in req's call: let the timer retry soon. */
		if (what == UAIO_CANCEL_NONE &&
		    uaio_optab[req->sqe.op].sleeps &&
		    look_again_locked(timer)) {
			unlock(group);
			return;
		}
		splice_out_locked(timer);
		/*
		 * A worker executes the request. If it is unwanted, it does not wait
		 * again after a shot (cancel.c, I4), nor begin to sleep (asleep.h, I2).
		 * relaxed: other threads read is_unwanted under the queue's lock
		 */
		if (what == UAIO_CANCEL_NONE &&
		    (req->sqe.is_multishot || uaio_optab[req->sqe.op].sleeps))
			store_relaxed(&req->is_unwanted, true);
		/*
		 * As in the kernel, the timer cancels a multishot request even between
		 * two shots. If the request's call sleeps, the timer's result is 1, the
		 * number of requests that it cancelled, even before the call has ended.
		 */
		if (what == UAIO_CANCEL_NONE && !req->sqe.is_multishot)
			res = -EALREADY;
		else if (uaio_optab[req->sqe.op].sleeps)
			res = 1;
	}
	unlock(group);
	if (what == UAIO_CANCEL_MARKED ||
	    (what == UAIO_CANCEL_ASKED && !uaio_canceller_await(&canceller)))
		res = -EALREADY;
	uaio_req_complete(timer, res);
	if (what == UAIO_CANCEL_TAKEN)
		uaio_req_complete(req, uaio_req_cancelled_res(req));
	uaio_req_start_all(&startable);
}

void uaio_link_init(uaio_issue_held_fn *issue_held)
{
	static const struct uaio_wait_ops held = {
		.cancel = cancel,
		.close_group = close_group,
	};

	issue = issue_held;
	uaio_waits_register(UAIO_REQ_HELD, &held);
}
