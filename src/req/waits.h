/* SPDX-License-Identifier: MIT */
/*
 * What a request may wait for
 *
 * A request may wait behind others of its inode (order.h), for a worker (wq.h),
 * until its file is ready (ready.h), for its pages (page.h), for a time
 * (timer.h), for the one before it in its chain (link.h), or a drain (drain.h), or
 * for the driver (driver.h). Each of these modules keeps its requests on lists of its
 * own, under locks of its own, and registers one row of functions for the state that
 * its requests are in (req.h).
 * Some threads deal with requests whatever they wait for: a canceller, a thread
 * that closes a queue or a descriptor (closing.h), and one that leaves the
 * process (gate.h). These go through the rows, and need not know the modules.
 *
 *   I1  A row is registered before any request can be in its state, and stays.
 *   I2  Only the module of a row moves requests out of its state, under a lock of
 *       its own. A thread that calls a function of the row has only peeked at the
 *       state; the function looks again under that lock.
 *   I3  A request that waits may be tried: a thread executes it without blocking,
 *       to find out whether it has to wait on. Meanwhile the request has the bit
 *       TRIED in its state, and that thread is its owner. A canceller leaves a
 *       mark on the request (only the first canceller does) and waits for this
 *       request. When the try is over, the thread that tried finds the mark under
 *       the lock: if the try was in vain, it completes the request as cancelled,
 *       and the request does not wait on. In either case it tells the canceller
 *       after the event is posted. So a canceller holds up no other thread.
 *   I4  A thread that tries a multishot request posts results meanwhile. That may
 *       complete other requests, and start what cancels any. Such a thread waits
 *       for no request: threads that did might wait for each other, or one for
 *       itself. It leaves the mark of nobody.
 *
 * Thread-safety: any thread; registering is part of bringing the engine up.
 */
#ifndef UAIO_REQ_WAITS_H
#define UAIO_REQ_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "req/req.h"

/* What came of cancelling a request. */
enum uaio_cancel {
	UAIO_CANCEL_NONE, /* it does not wait, or another canceller has asked */
	UAIO_CANCEL_TAKEN, /* it is RUNNING now, and the canceller owns it */
	UAIO_CANCEL_ASKED, /* it is being tried: the canceller will be told */
	/* It is being tried, and the canceller is not told what becomes of it (I4). */
	UAIO_CANCEL_MARKED,
};

/* A thread that cancels requests, and is told what became of those tried. */
struct uaio_canceller {
	uint32_t nr_awaited;   /* atomic: requests it has yet to be told of */
	uint32_t nr_cancelled; /* atomic: of those it was told of, cancelled */
	bool marks_none;       /* it leaves no mark of nobody (I4) */
};

/* Called under the lock of the state that the request is in. */
typedef bool uaio_is_wanted_fn(const struct uaio_req *req, const void *arg);

struct uaio_wait_ops {
	/*
	 * Cancel req. The caller holds the lock of its group. Requests that
	 * waited for req, and need not any longer, are appended to
	 * ret_startable. If req was TAKEN, the caller completes it with
	 * uaio_req_cancelled_res() after it has released the lock.
	 */
	enum uaio_cancel (*cancel)(struct uaio_req *req,
				   struct uaio_canceller *canceller,
				   struct list *ret_startable);

	/*
	 * The group is being closed: no request of it begins to wait here from
	 * now on. The caller then cancels those that wait here. NULL where
	 * requests end by themselves, so that the caller waits for them instead.
	 */
	void (*close_group)(struct uaio_group *group);

	/*
	 * Take a request on a regular file that waits here and is wanted, which is
	 * one of the calling thread's identity. NULL
	 * where requests that wait must not be executed yet.
	 * Return: the request, RUNNING, for the caller to execute and complete;
	 * NULL if there is none.
	 */
	struct uaio_req *(*take)(uaio_is_wanted_fn *is_wanted, const void *arg);

	/*
	 * Return: whether a request that waits here may wait for req, which has
	 * not been executed, to be over. NULL: none ever does.
	 */
	bool (*may_await)(const struct uaio_req *req);

	/*
	 * The descriptor of file, a regular one, is being closed, and the file
	 * is marked as such: make sure that none of its requests waits here, or
	 * is being tried on that descriptor. Requests that are to start are
	 * appended to ret_startable, oldest first. May sleep. NULL where the
	 * closing thread deals with the requests in another way.
	 */
	void (*give_up)(struct uaio_file *file, struct list *ret_startable);
};

/* The row of each state; NULL: a request in that state does not wait. */
extern const struct uaio_wait_ops *uaio_waits[UAIO_REQ_NR_STATES];

/* Called by the init function of the module. */
static inline void uaio_waits_register(enum uaio_req_state state,
				       const struct uaio_wait_ops *ops)
{
	uaio_waits[state] = ops;
}

/* Return: the row of what req waits for, or NULL. */
static inline const struct uaio_wait_ops *
uaio_waits_of(const struct uaio_req *req)
{
	return uaio_waits[uaio_req_state(req) & ~UAIO_REQ_TRIED];
}

/* Call the function of that name in each row that has one. */
struct uaio_req *uaio_waits_take(uaio_is_wanted_fn *is_wanted, const void *arg);
bool uaio_waits_may_await(const struct uaio_req *req);
void uaio_waits_give_up(struct uaio_file *file, struct list *ret_startable);
void uaio_waits_close_group(struct uaio_group *group);

/*
 * Being tried (I3). These are called under the lock of the state.
 */

/* The caller begins to try req, which waits in that state. */
static inline void uaio_try_begin_locked(struct uaio_req *req,
					 enum uaio_req_state state)
{
	uaio_req_move(req, state, state | UAIO_REQ_TRIED);
	req->canceller = NULL;
}

/* The try was in vain, and no canceller has asked for req meanwhile. */
static inline void uaio_try_resume_locked(struct uaio_req *req,
					  enum uaio_req_state state)
{
	UAIO_CHECK(!req->canceller);
	uaio_req_move(req, state | UAIO_REQ_TRIED, state);
}

/*
 * The caller has executed req, or hands it to a worker, or completes it as
 * cancelled.
 * Return: the canceller that the caller has to tell after completing req, or
 * NULL.
 */
static inline struct uaio_canceller *
uaio_try_end_locked(struct uaio_req *req, enum uaio_req_state state)
{
	uaio_req_move(req, state | UAIO_REQ_TRIED, UAIO_REQ_RUNNING);
	return req->canceller;
}

/* For the next: the calling thread posts meanwhile (I4). */
enum uaio_cancel uaio_try_mark_locked(struct uaio_req *req,
				      struct uaio_canceller *canceller);

/* Cancel req if it is in that state, or is being tried there. */
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
	if (unlikely(uaio_entry.run && uaio_entry.run->posted))
		return uaio_try_mark_locked(req, canceller);
	req->canceller = canceller;
	/* relaxed: only a thread that finds it, under the lock, counts down */
	add_relaxed(&canceller->nr_awaited, 1);
	return UAIO_CANCEL_ASKED;
}

/*
 * Tell the canceller that a request which it has asked for is complete. Does
 * nothing if canceller is NULL; otherwise this is the last access to it.
 */
void uaio_canceller_tell(struct uaio_canceller *canceller, bool was_cancelled);

/*
 * Wait until all requests that the canceller has asked for are complete. That is
 * soon, as tries do not block.
 * Return: how many of them were cancelled.
 */
uint32_t uaio_canceller_await(struct uaio_canceller *canceller);

#endif /* UAIO_REQ_WAITS_H */
