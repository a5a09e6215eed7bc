/* SPDX-License-Identifier: MIT */
/*
 * The commons: where queues without an epoll of their own have what is parked
 *
 * A queue takes two descriptors for its epoll, and a program may have as many
 * queues as its limit allows it descriptors, and more. So only as many queues
 * have an epoll as fit into the share of descriptors that is ours (ownfd.h);
 * the files of all others are watched by one epoll.
 *
 * To readiness (ready.h) the commons is a queue like others: it has the
 * watches, one for each file, whichever queue waits for it; and it counts the
 * requests in their wait queues. No client has it: the fallback thread adopts
 * it as soon as something is parked there, and keeps it whatever callers do,
 * since they run only what they come by. If there are not even descriptors for
 * the commons, that thread tries everything there every millisecond.
 *
 *   I1  The home of a queue is chosen, under its lock, before anything is
 *       parked in it, and is the same until its end: what was counted in one
 *       place is not missed in another. A queue that is its own home has an
 *       epoll.
 *   I2  The commons is a queue that is never open: it has no waiters, no
 *       requests and no sink. Its watches go with their files.
 *
 * Tested by test-ready-limits.c.
 */
#include "req/queue.h"
#include "ready/readyint.h"

static struct uaio_queue commons;

void uaio_commons_init(void)
{
	/* A thread that held a lock of it is not there in a child of fork(). */
	commons = (struct uaio_queue){ 0 };
	list_init(&commons.waiters);
	uaio_ready_init_group(&commons.group);
}

bool uaio_is_commons(const struct uaio_group *group)
{
	return group == &commons.group;
}

void uaio_commons_settle(struct uaio_group *group)
{
	struct uaio_ready *ready = &group->ready;

	uaio_lock(&ready->lock, UAIO_RANK_READY);
	/* relaxed: changed under the lock, once */
	if (load_relaxed(&ready->home) == group &&
	    uaio_poller_open_within_share(&ready->poller) < 0)
		store_relaxed(&ready->home, &commons.group);
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
	/* Descriptors that were refused before may be had by now. */
	if (uaio_ready_home(ready) == &commons.group)
		(void)uaio_poller_open(&commons.group.ready.poller);
}
