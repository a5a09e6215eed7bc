/* SPDX-License-Identifier: MIT */
/*
 * What a request may wait for
 *
 * A request that nobody makes waits: behind others of its inode (order.h), for a
 * worker (wq.h), until its file is ready (ready.h), for its pages (page.h). Each
 * of these keeps its requests on lists of its own, under locks of its own, and
 * registers one row of functions for the state that its requests are in (req.h).
 * Whoever has to do with requests whatever they wait for goes through the rows,
 * and knows none of these: a canceller, the end of a context, a thread that closes
 * a number (closing.h), one that leaves the process (exit.h).
 *
 *   I1  A row is registered before any request can be in its state, and stays.
 *   I2  Only the owner of a row moves requests out of its state, under its own
 *       lock. Whoever comes from elsewhere has peeked at the state; the functions
 *       of the row look again under that lock.
 *   I3  A request that waits may be tried: a thread finds out whether it has to
 *       wait on by making it, without blocking. Meanwhile it is TRIED in its
 *       state, and that thread is its owner. A canceller leaves a mark on it, the
 *       first one only, and waits for this request. When the try is over, the
 *       thread that tried finds the mark under the lock: if the try was in vain,
 *       it completes the request as cancelled, and the request waits no more. In
 *       either case it tells the canceller once the event is posted. So a
 *       canceller holds up nobody.
 *
 * Thread-safety: any thread; registering is part of bringing the engine up.
 */
#ifndef UAIO_ENGINE_WAITS_H
#define UAIO_ENGINE_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/req.h"

/* What came of cancelling a request. */
enum uaio_cancel {
	UAIO_CANCEL_NONE, /* it does not wait, or another canceller has asked */
	UAIO_CANCEL_TAKEN, /* it is RUNNING now, and the canceller's */
	UAIO_CANCEL_ASKED, /* it is being tried: the canceller will be told */
};

/* A thread that cancels requests, and is told what became of those tried. */
struct uaio_canceller {
	uint32_t nr_awaited;   /* atomic: asked for, and not told of */
	uint32_t nr_cancelled; /* atomic: of those that it was told of */
};

/* Called under the lock of what requests wait for. */
typedef bool uaio_is_wanted_fn(const struct uaio_req *req, const void *arg);

struct uaio_wait_ops {
	/*
	 * Cancel req, of whose group the lock is held. What need not wait any
	 * longer is appended to ret_startable. A request that was TAKEN is
	 * completed with uaio_req_cancelled_res() once the lock is released.
	 */
	enum uaio_cancel (*cancel)(struct uaio_req *req,
				   struct uaio_canceller *canceller,
				   struct list *ret_startable);

	/*
	 * The group goes away: from now on no request of it begins to wait here.
	 * NULL where what waits ends by itself: then it is waited for; otherwise
	 * it is cancelled.
	 */
	void (*close_group)(struct uaio_group *group);

	/*
	 * Take a request of a regular file that waits here and is wanted; NULL
	 * where what waits is nobody's to make yet.
	 * Return: it, RUNNING, the caller's to make and complete; NULL if none
	 * is.
	 */
	struct uaio_req *(*take)(uaio_is_wanted_fn *is_wanted, const void *arg);

	/*
	 * Return: whether something that waits here may wait for req, which was
	 * not made yet, to be over. NULL: nothing ever does.
	 */
	bool (*may_await)(const struct uaio_req *req);

	/*
	 * The number of file, a regular one, is being closed, and the file is
	 * marked so: see to it that none of its requests waits here, nor is
	 * tried on that number. What is to start is appended to ret_startable,
	 * oldest first. May sleep. NULL where a request waits for what the closer
	 * sees to otherwise.
	 */
	void (*give_up)(struct uaio_file *file, struct list *ret_startable);
};

/* The row of each state; NULL: a request in that state does not wait. */
extern const struct uaio_wait_ops *uaio_waits[UAIO_REQ_NR_STATES];

/* From nothing, as part of an init function. */
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

/* The same of all rows that have it. */
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

/* The try was in vain, and nobody has asked for req meanwhile. */
static inline void uaio_try_resume_locked(struct uaio_req *req,
					  enum uaio_req_state state)
{
	UAIO_CHECK(!req->canceller);
	uaio_req_move(req, state | UAIO_REQ_TRIED, state);
}

/*
 * The caller has made req, or completes it as cancelled.
 * Return: the canceller whom it tells after completing req, or NULL.
 */
static inline struct uaio_canceller *
uaio_try_end_locked(struct uaio_req *req, enum uaio_req_state state)
{
	uaio_req_move(req, state | UAIO_REQ_TRIED, UAIO_REQ_RUNNING);
	return req->canceller;
}

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
	req->canceller = canceller;
	/* relaxed: only who finds it there, under the lock, counts down */
	add_relaxed(&canceller->nr_awaited, 1);
	return UAIO_CANCEL_ASKED;
}

/*
 * The request that canceller has asked for is complete. Nothing if that is NULL;
 * otherwise this is the last touch of it.
 */
void uaio_canceller_tell(struct uaio_canceller *canceller, bool was_cancelled);

/*
 * Wait until all that was asked for is complete: tries do not block.
 * Return: how many of them were cancelled.
 */
uint32_t uaio_canceller_await(struct uaio_canceller *canceller);

#endif /* UAIO_ENGINE_WAITS_H */
