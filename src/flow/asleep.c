/* SPDX-License-Identifier: MIT */
#include "flow/asleep.h"

#include <errno.h>

#include "base/sleep.h"
#include "op/args.h"
#include "op/sleeper.h"
#include "req/req.h"
#include "req/waits.h"
#include "split/whole.h"
#include "ready/ready.h"
#include "flow/flow.h"

/*
 * How long the submitting thread waits for a worker to begin a request's system call. After
 * this time it stops waiting, because perhaps no more threads can be created.
 */
enum { NO_THREAD_NS = 2000000000 };

static void lock(struct uaio_group *group)
{
	uaio_lock(&group->lock, UAIO_RANK_GROUP);
}

static void unlock(struct uaio_group *group)
{
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);
}

/*
 * Called before a worker makes the call: make the request ASLEEP, and set the bit TRIED,
 * because the worker owns the request.
 * Return: false if the call must not be made, because the request was cancelled or its
 * queue is being closed.
 */
static bool begin_locked(struct uaio_req *req)
{
	if (req->is_unwanted)
		return false;
	/*
	 * [MB:closing] seq_cst: set the state, then read is_closing. Pairs with is_endless().
	 */
	uaio_req_move_seq_cst(req, UAIO_REQ_RUNNING, UAIO_REQ_ASLEEP);
	if (load_seq_cst(&req->group->ready.is_closing)) {
		uaio_req_move(req, UAIO_REQ_ASLEEP, UAIO_REQ_RUNNING);
		return false;
	}
	uaio_try_begin_locked(req, UAIO_REQ_ASLEEP);
	return true;
}

void uaio_asleep_run(struct uaio_req *req, struct uaio_worker *worker)
{
	struct uaio_canceller *canceller = NULL;
	struct uaio_group *group = req->group;
	int64_t res = -ECANCELED;
	bool is_asleep;

	lock(group);
	is_asleep = begin_locked(req);
	unlock(group);
	if (is_asleep) {
		res = uaio_req_execute_by(req, worker);
		lock(group);
		canceller = uaio_try_end_locked(req, UAIO_REQ_ASLEEP);
		unlock(group);
	}
	uaio_wq_returned(worker);
	if (res == -ECANCELED)
		res = uaio_req_cancelled_res(req);
	uaio_req_complete_by(req, res, false, worker);
	uaio_canceller_tell(canceller, res == -ECANCELED);
}

static enum uaio_cancel cancel(struct uaio_req *req,
			       struct uaio_canceller *canceller,
			       struct list *ret_startable)
{
	enum uaio_cancel ret;

	(void)ret_startable;
	ret = uaio_try_cancel_locked(req, UAIO_REQ_ASLEEP, canceller);
	/*
	 * The sleeper is the object by which another thread ends the call (op/sleeper.h).
	 * The sleeper still exists here, because the request's copy of its arguments has
	 * a reference to it. The worker frees the copy only after the request has left
	 * the state ASLEEP.
	 */
	if (ret == UAIO_CANCEL_ASKED || ret == UAIO_CANCEL_MARKED)
		uaio_sleeper_end(req->sqe.args->sleeper);
	return ret;
}

static void close_group(struct uaio_group *group)
{
	/*
	 * Nothing to do here: begin_locked() reads is_closing, so no further request of the
	 * queue begins to sleep (I3). cancel.c ends the calls that sleep already.
	 */
	(void)group;
}

/*
 * Pause before the sleeper's state is read again. This thread sleeps, so that the worker
 * can run even with a lower priority.
 */
static void pause(void)
{
	enum { MOMENT_NS = 20000 };
	uint32_t nothing = 0;

	(void)uaio_sleep(&nothing, 0, uaio_now_ns() + MOMENT_NS);
}

void uaio_asleep_settle(struct uaio_sleeper *sleeper)
{
	int64_t start = uaio_now_ns();

	/*
	 * Wait until a worker has begun the call. Stop waiting if the request was not
	 * created or is complete, if no worker can be added, or after NO_THREAD_NS.
	 */
	while (uaio_sleeper_has_request(sleeper) &&
	       uaio_sleeper_await(sleeper, UAIO_SLEEPER_SENT) ==
		       UAIO_SLEEPER_SENT &&
	       !uaio_wq_is_full(UAIO_UNBOUNDED) &&
	       uaio_now_ns() - start < NO_THREAD_NS)
		;
	while (uaio_sleeper_state(sleeper) == UAIO_SLEEPER_CALLS &&
	       !uaio_sleeper_waits(sleeper))
		pause();
}

void uaio_asleep_init(void)
{
	static const struct uaio_wait_ops asleep = {
		.cancel = cancel,
		.close_group = close_group,
	};

	uaio_sleepers_init();
	uaio_waits_register(UAIO_REQ_ASLEEP, &asleep);
}
