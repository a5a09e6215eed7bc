/* SPDX-License-Identifier: MIT */
/*
 * What a request may wait for
 *
 * A request that nobody makes waits: behind others of its inode (order.h), for a
 * worker (wq.h), until its file is ready (ready.h), for its pages (page.h). Each
 * of these keeps its requests on lists of its own, under locks of its own, and
 * registers one row of functions for the state that its requests are in (req.h).
 * What cancels requests, whatever they wait for, goes through the rows, and knows
 * none of these.
 *
 *   I1  A row is registered before any request can be in its state, and stays.
 *   I2  Only the owner of a row moves requests out of its state, under its own
 *       lock. Whoever comes from elsewhere has peeked at the state; the functions
 *       of the row look again under that lock.
 *
 * Thread-safety: any thread; registering is part of bringing the engine up.
 */
#ifndef UAIO_ENGINE_WAITS_H
#define UAIO_ENGINE_WAITS_H

#include <stdbool.h>

#include "engine/req.h"

struct uaio_wait_ops {
	/*
	 * Cancel req, of whose group the lock is held. What need not wait any
	 * longer is appended to ret_startable.
	 * Return: true if it is RUNNING now and the caller's, who completes it
	 * with uaio_req_cancelled_res() once the lock is released.
	 */
	bool (*cancel)(struct uaio_req *req, struct list *ret_startable);

	/*
	 * The group goes away: from now on no request of it begins to wait here.
	 * NULL where what waits ends by itself: then it is waited for; otherwise
	 * it is cancelled.
	 */
	void (*close_group)(struct uaio_group *group);
};

/* The row of each state; NULL: a request in that state does not wait. */
extern const struct uaio_wait_ops *uaio_waits[UAIO_REQ_NR_STATES];

/* From nothing, as part of an init function. */
static inline void uaio_waits_register(enum uaio_req_state state,
				       const struct uaio_wait_ops *ops)
{
	uaio_waits[state] = ops;
}

#endif /* UAIO_ENGINE_WAITS_H */
