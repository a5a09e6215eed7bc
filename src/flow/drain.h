/* SPDX-License-Identifier: MIT */
/*
 * Drains: requests that have their queue to themselves
 *
 * A drain (UAIO_DRAIN) starts when all requests that were submitted to its queue
 * before it are complete, and those that are submitted later start when the drain
 * is complete. A request is complete when its last completion is posted. If one of
 * a chain is a drain, the whole chain is one. Other queues are not concerned.
 *
 * What has to wait is HELD, as the rest of a chain is (link.h): it has no file,
 * and can be cancelled. If a drain is cancelled, it holds nothing from then on; if
 * a chain is submitted that is a mistake, its requests do not wait for a drain.
 *
 *   I1  The order is that of submission, so one thread at a time submits to a
 *       queue that is to have drains. If the threads of a door submit side by
 *       side, the door puts them in an order.
 *   I2  A queue's nr_made counts requests when they are created, nr_queued when
 *       their last completion is posted, both under its lock. What is between the
 *       two and is not held by a drain is in flight. So a request counts from when
 *       it is created until its completion is posted, also after it has left its
 *       group.
 *   I3  held has the first request of each chain that waits, in the order of
 *       submission, and drained counts the requests of these chains. They change
 *       under the group's lock. No other HELD request is on a list.
 *   I4  A thread that changes what I2 counts looks, under the same lock, whether
 *       what is held first may start. So the list is never left with a chain that may.
 *   I5  Only the submitting thread makes drained other than 0. If that thread
 *       finds 0, nothing is held and no drain runs: it may issue requests itself.
 *
 * A thread with a descriptor table of its own (table.h) executes what it submits
 * at once; it has no drains, and does not wait for those of others.
 *
 * Context: any thread that has entered (entry.h).
 *
 * Tested by test-drain.c.
 */
#ifndef UAIO_FLOW_DRAIN_H
#define UAIO_FLOW_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/check.h"
#include "req/queue.h"
#include "req/req.h"

enum {
	/* A flag of links that only drain.c uses: a drain holds the request. */
	UAIO_DRAIN_HOLDS = 1u << 4,
	/* In drained: a drain runs. The rest is the number of those held. */
	UAIO_DRAIN_RUNS = 1u,
	UAIO_DRAIN_ONE = 2u,
};

static inline void uaio_drain_init_group(struct uaio_group *group)
{
	group->nr_made = 0;
	store_relaxed(&group->drained, 0);
	list_init(&group->held);
}

/* For the submitting thread. Return: whether a drain is held, or runs (I5). */
static inline bool uaio_drain_is_on(const struct uaio_group *group)
{
	/*
	 * [MB:drain] acquire: what the drain did is seen. Pairs with
	 * uaio_drain_advance_locked() and uaio_drain_lets_go_locked().
	 */
	return unlikely(load_acquire(&group->drained));
}

/* Return: whether the chain of which first is the first is to be held. */
static inline bool uaio_drain_is_due(const struct uaio_req *first)
{
	return first->sqe.links & UAIO_DRAIN || uaio_drain_is_on(first->group);
}

/*
 * These are called with the group's lock.
 */

/* Hold a chain, whose requests are HELD. */
void uaio_drain_hold_locked(struct uaio_req *first);

/* Append the chains to ret_startable that may start now. */
void uaio_drain_advance_locked(struct uaio_group *group,
			       struct list *ret_startable);

/* If a drain holds req, it does not any longer: req is in flight. */
static inline void uaio_drain_lets_go_locked(struct uaio_req *req)
{
	struct uaio_group *group = req->group;

	if (likely(!(req->sqe.links & UAIO_DRAIN_HOLDS)))
		return;
	req->sqe.links &= (uint16_t)~UAIO_DRAIN_HOLDS;
	/* [MB:drain] release: pairs with uaio_drain_is_on(). */
	store_release(&group->drained, group->drained - UAIO_DRAIN_ONE);
}

#endif /* UAIO_FLOW_DRAIN_H */
