/* SPDX-License-Identifier: MIT */
/*
 * Waits: for what a request may wait, and how other threads end its wait
 *
 * A request may wait for older requests on its inode (order.h), a worker (wq.h), its
 * file (ready.h), its pages (page.h), a time (timer.h), the previous request of its
 * chain (link.h), a drain (drain.h), or the driver, the thread that uses the kernel's
 * io_uring (driver.h). Each of these modules keeps its requests on its own lists, under
 * its own locks. For the state of its requests (req.h) it registers a struct of
 * functions, called a row. Three kinds of threads call these functions: a canceller, a
 * thread that closes a queue or a descriptor (closing.h), and a thread in exit or exec
 * (gate.h). So these threads need not know the modules.
 *
 *   I1  A row is registered before any request can be in its state, and stays registered.
 *   I2  Only the module that has registered the row moves requests out of the row's state,
 *       under the module's own lock. A thread that calls a function of the row has read
 *       the state without that lock, so the function checks the state again under the
 *       lock.
 *   I3  A waiting request may be tried: a thread executes it without blocking, and so
 *       finds out whether it must wait longer. During the try the request has the bit
 *       TRIED, and the trying thread is its owner. The first canceller of the request
 *       marks the request, and waits until it is complete. When the try is over, the
 *       trying thread finds the mark under the lock. If the try would have blocked, the
 *       thread completes the request as cancelled. After posting the event, the trying
 *       thread notifies the canceller.
 *   I4  A thread that tries a multishot request posts completions during the try. A post
 *       may complete other requests, and start requests that cancel others. If such a
 *       thread cancels, it must not wait for a request that is being tried: two such
 *       threads might wait for each other, or one such thread for itself. So it marks the
 *       request with `nobody` as the canceller, and is not notified.
 *
 * Thread-safety: any thread may call; rows are registered while the library starts.
 */
#ifndef UAIO_REQ_WAITS_H
#define UAIO_REQ_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "req/req.h"

/* What came of an attempt to cancel a request. */
enum uaio_cancel {
	/*
	 * nothing: the request does not wait, or another canceller has already marked
	 * the request
	 */
	UAIO_CANCEL_NONE,
	/* the canceller owns the request now: its state is RUNNING */
	UAIO_CANCEL_TAKEN,
	/*
	 * the request is being tried and is marked; the canceller will be notified
	 */
	UAIO_CANCEL_ASKED,
	/*
	 * The request is being tried, and no canceller will be notified when it is
	 * complete. It is marked unless marks_none is set (I4).
	 */
	UAIO_CANCEL_MARKED,
};

/*
 * State of a thread that cancels requests. If another thread is trying one of these
 * requests, that thread notifies the cancelling thread when the request is complete.
 */
struct uaio_canceller {
	/* atomic: number of marked requests that are not complete yet */
	uint32_t nr_awaited;
	/* atomic: number of marked requests that were cancelled */
	uint32_t nr_cancelled;
	/*
	 * this canceller leaves a request that is being tried as it is: its attempt to
	 * cancel the request returns MARKED
	 */
	bool marks_none;
};

/* Return: whether the caller wants req. Called under the lock of req's state. */
typedef bool uaio_is_wanted_fn(const struct uaio_req *req, const void *arg);

struct uaio_wait_ops {
	/*
	 * Cancel req. The caller holds the lock of req's group. Requests that waited for
	 * req become startable, and are appended to ret_startable. If the result is
	 * TAKEN, the caller releases the lock, then completes req with
	 * uaio_req_cancelled_res().
	 */
	enum uaio_cancel (*cancel)(struct uaio_req *req,
				   struct uaio_canceller *canceller,
				   struct list *ret_startable);

	/*
	 * The queue is being closed: let no more requests of its group wait in this
	 * state. The caller then cancels those that already wait. NULL: the requests
	 * end by themselves, and the caller waits for them.
	 */
	void (*close_group)(struct uaio_group *group);

	/*
	 * Take one request out of this state: a request on a regular file for which
	 * is_wanted() is true. is_wanted() also checks that the calling thread has the
	 * right credentials. NULL: requests in this state must not be executed yet.
	 * Return: the request, RUNNING, which the caller executes and completes; NULL
	 * if there is none.
	 */
	struct uaio_req *(*take)(uaio_is_wanted_fn *is_wanted, const void *arg);

	/*
	 * Return: whether a request in this state may wait for req, which is not
	 * executed yet. NULL: no request in this state waits for another.
	 */
	bool (*may_await)(const struct uaio_req *req);

	/*
	 * The descriptor of a regular file is being closed, and file->is_closing is
	 * set. Remove from this state all requests on this file, and wait for those
	 * that are being tried on the descriptor. Append requests that can start to
	 * ret_startable, oldest first. May sleep. If the member is NULL, the closing
	 * thread waits for these requests, or executes those that take() returns.
	 */
	void (*give_up)(struct uaio_file *file, struct list *ret_startable);
};

/* The row of functions for each state; NULL: requests do not wait in this state. */
extern const struct uaio_wait_ops *uaio_waits[UAIO_REQ_NR_STATES];

/* Register the row of a state. Called by the init function of its module. */
static inline void uaio_waits_register(enum uaio_req_state state,
				       const struct uaio_wait_ops *ops)
{
	uaio_waits[state] = ops;
}

/* Return: the row of the state in which req waits, or NULL. */
static inline const struct uaio_wait_ops *
uaio_waits_of(const struct uaio_req *req)
{
	return uaio_waits[uaio_req_state(req) & ~UAIO_REQ_TRIED];
}

/*
 * uaio_waits_X() calls the function X of each state's row (struct uaio_wait_ops),
 * unless it is NULL there.
 */
struct uaio_req *uaio_waits_take(uaio_is_wanted_fn *is_wanted, const void *arg);
bool uaio_waits_may_await(const struct uaio_req *req);
void uaio_waits_give_up(struct uaio_file *file, struct list *ret_startable);
void uaio_waits_close_group(struct uaio_group *group);

/* Functions for tries (I3). They are called under the lock of the state. */

/* Begin a try of req, which waits in this state. */
static inline void uaio_try_begin_locked(struct uaio_req *req,
					 enum uaio_req_state state)
{
	uaio_req_move(req, state, state | UAIO_REQ_TRIED);
	req->canceller = NULL;
}

/* End a try that would have blocked: req waits again. No canceller has marked req. */
static inline void uaio_try_resume_locked(struct uaio_req *req,
					  enum uaio_req_state state)
{
	UAIO_CHECK(!req->canceller);
	uaio_req_move(req, state | UAIO_REQ_TRIED, state);
}

/*
 * End the try of req, which was executed, needs a worker, or is cancelled: make it
 * RUNNING.
 * Return: the canceller that the caller must notify after it has completed req; or
 * NULL.
 */
static inline struct uaio_canceller *
uaio_try_end_locked(struct uaio_req *req, enum uaio_req_state state)
{
	uaio_req_move(req, state | UAIO_REQ_TRIED, UAIO_REQ_RUNNING);
	return req->canceller;
}

/*
 * Cancel a request that is being tried. The calling thread is itself trying a request,
 * and cancels while it posts a result of its own request (I4).
 */
enum uaio_cancel uaio_try_mark_locked(struct uaio_req *req,
				      struct uaio_canceller *canceller);

/* Cancel req if it waits in this state, or is being tried there. */
static inline enum uaio_cancel
uaio_try_cancel_locked(struct uaio_req *req, enum uaio_req_state state,
		       struct uaio_canceller *canceller)
{
	enum uaio_req_state now = uaio_req_state(req);

	if (now == state) {
		uaio_req_move(req, state, UAIO_REQ_RUNNING);
		return UAIO_CANCEL_TAKEN;
	}
	if (now != (state | UAIO_REQ_TRIED) || req->canceller)
		return UAIO_CANCEL_NONE;
	if (unlikely(canceller->marks_none))
		return UAIO_CANCEL_MARKED;
	if (unlikely(uaio_entry.run && uaio_entry.run->posted))
		return uaio_try_mark_locked(req, canceller);
	req->canceller = canceller;
	/*
	 * relaxed: only a thread that finds req->canceller set decrements nr_awaited. It
	 * reads req->canceller under the lock, so after this addition.
	 */
	add_relaxed(&canceller->nr_awaited, 1);
	return UAIO_CANCEL_ASKED;
}

/*
 * Notify the canceller that a request which it marked is complete. This is the last
 * access to *canceller. canceller: may be NULL.
 */
void uaio_canceller_tell(struct uaio_canceller *canceller, bool was_cancelled);

/*
 * Wait until all requests that the canceller has marked are complete. The wait is short,
 * as tries do not block.
 * Return: how many of them were cancelled.
 */
uint32_t uaio_canceller_await(struct uaio_canceller *canceller);

#endif /* UAIO_REQ_WAITS_H */
