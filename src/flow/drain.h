/* SPDX-License-Identifier: MIT */
/*
 * Drains (IOSQE_IO_DRAIN of io_uring): requests during which no other request of their queue
 * runs
 *
 * A drain (UAIO_DRAIN) starts when all requests that were submitted earlier to its queue
 * are complete. Requests that are submitted later start when the drain is complete. A
 * request is complete when its last completion is posted. If one request of a chain (linked
 * requests) is a drain, the whole chain is a drain. A drain does not affect other queues.
 *
 * Requests that wait for a drain are HELD, as the later requests of a chain are (link.h): they
 * have no file, and can be cancelled. Once a drain is cancelled, no request waits for it. A
 * chain in which a request has invalid arguments fails at once, without waiting for a drain.
 *
 *   I1  Requests are ordered by submission, so one thread at a time submits to a queue with
 *       drains. If the threads of a front-end (kernel AIO, io_uring or POSIX AIO) submit
 *       concurrently, the front-end orders them.
 *   I2  nr_made counts the queue's requests when they are created, and nr_queued counts
 *       them when their last completion is posted; both change under the queue's lock.
 *       nr_made - nr_queued, less the number of requests that a drain holds, is the
 *       number of requests in flight. So a request counts until its completion is posted,
 *       even after cancellers can no longer find it.
 *   I3  group->held lists the first request of each waiting chain in the order of submission,
 *       and group->drained counts the requests of these chains. Both change under the queue's
 *       lock (group->lock). No other HELD request is on a list.
 *   I4  A thread that changes nr_made or nr_queued checks under the same lock whether the
 *       first held chain may start. So no chain that may start stays on the list.
 *   I5  Only the submitting thread changes group->drained from 0 to another value. If that
 *       thread reads 0, no request is held and no drain runs, so the thread may issue requests
 *       itself.
 *
 * A thread with a descriptor table of its own (table.h) executes what it submits at once.
 * Such a thread ignores all drains, also its own.
 *
 * Context: any thread that has entered the library (entry.h).
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
	/* A flag in sqe.links that only drain.c uses: a drain holds the request. */
	UAIO_DRAIN_HOLDS = 1u << 4,
	/*
	 * Values in group->drained. Bit 0: a drain runs. The bits above count the held
	 * requests.
	 */
	UAIO_DRAIN_RUNS = 1u,
	UAIO_DRAIN_ONE = 2u,
};

static inline void uaio_drain_init_group(struct uaio_group *group)
{
	group->nr_made = 0;
	store_relaxed(&group->drained, 0);
	list_init(&group->held);
}

/*
 * For the submitting thread.
 * Return: whether requests are held behind a drain, or a drain runs (I5).
 */
static inline bool uaio_drain_is_on(const struct uaio_group *group)
{
	/*
	 * [MB:drain] acquire: if the value is 0, this thread sees all that the drain did.
	 * Pairs with uaio_drain_advance_locked() and uaio_drain_lets_go_locked().
	 */
	return unlikely(load_acquire(&group->drained));
}

/* Return: whether a drain is to hold the chain that begins with `first`. */
static inline bool uaio_drain_is_due(const struct uaio_req *first)
{
	return first->sqe.links & UAIO_DRAIN || uaio_drain_is_on(first->group);
}

/* The caller of the following functions holds the queue's lock. */

/* Make a chain, whose requests are HELD, wait for a drain. */
void uaio_drain_hold_locked(struct uaio_req *first);

/* Append to ret_startable the chains that may start now. */
void uaio_drain_advance_locked(struct uaio_group *group,
			       struct list *ret_startable);

/* If req is held by a drain, stop counting req as held: from now on it is in flight. */
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
