/* SPDX-License-Identifier: MIT */
#include "flow/drain.h"

#include "flow/link.h"

static struct uaio_req *first_held(const struct uaio_group *group)
{
	return list_is_empty(&group->held)
		       ? NULL
		       : container_of(group->held.next, struct uaio_req, link);
}

static bool is_drain(const struct uaio_req *first)
{
	return first->sqe.links & UAIO_DRAIN;
}

/*
 * Return: whether a request of the queue is in flight: created, not held, and not yet
 * posted (drain.h, I2).
 */
static bool is_busy(struct uaio_group *group)
{
	uint32_t nr_posted = (uint32_t)uaio_queue_of(group)->nr_queued;

	return group->nr_made - nr_posted != group->drained / UAIO_DRAIN_ONE;
}

void uaio_drain_hold_locked(struct uaio_req *first)
{
	struct uaio_group *group = first->group;
	uint32_t drained = group->drained;

	for (struct uaio_req *req = first; req; req = req->after) {
		req->sqe.links |= UAIO_DRAIN_HOLDS;
		drained += UAIO_DRAIN_ONE;
	}
	list_add_tail(&group->held, &first->link);
	/* relaxed: only the submitting thread relies on the value 0; it makes this store */
	store_relaxed(&group->drained, drained);
}

/* Release the first chain of the list group->held, which may start now. */
static void release_locked(struct uaio_req *first, struct list *ret_startable)
{
	list_remove(&first->link);
	for (struct uaio_req *req = first; req; req = req->after)
		uaio_drain_lets_go_locked(req);
	uaio_link_release_locked(first, ret_startable);
}

void uaio_drain_advance_locked(struct uaio_group *group,
			       struct list *ret_startable)
{
	uint32_t drained = group->drained;
	struct uaio_req *first;

	/*
	 * No other request runs beside a drain. So if no request is in flight, the drain is
	 * complete.
	 */
	if (drained & UAIO_DRAIN_RUNS && !is_busy(group))
		/* [MB:drain] release: pairs with uaio_drain_is_on(). */
		store_release(&group->drained, drained & ~UAIO_DRAIN_RUNS);
	while ((first = first_held(group)) &&
	       !(group->drained & UAIO_DRAIN_RUNS)) {
		if (is_drain(first)) {
			if (is_busy(group))
				return;
			/*
			 * Set the bit before release_locked() subtracts the chain, so that
			 * group->drained does not become 0 in between. relaxed: only the
			 * submitting thread relies on the value 0.
			 */
			store_relaxed(&group->drained,
				      group->drained | UAIO_DRAIN_RUNS);
		}
		release_locked(first, ret_startable);
	}
}
