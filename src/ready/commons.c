/* SPDX-License-Identifier: MIT */
/*
 * The commons: the one epoll of all queues that have no epoll of their own
 *
 * A queue needs two descriptors for its epoll. A program may have as many queues as its
 * limit of descriptors allows, and more. So only as many queues have an epoll as fit
 * into the library's share of descriptors (ownfd.h); one epoll watches the files of all
 * other queues.
 *
 * To readiness (ready.h) the commons is a queue like others. It has the watches, one
 * for each file, whichever queue waits for the file; and it counts the requests in
 * their wait queues. No client uses it. The fallback thread adopts it as soon as a
 * request is parked there, and keeps it whatever callers do, since callers run only the
 * files that they come by. If there are not even descriptors for the commons, that
 * thread tries every request there every millisecond.
 *
 *   I1  The home of a queue (the queue itself or the commons) is chosen, under its
 *       lock, before a request is parked in it, and stays the same until the queue's
 *       end: a request that was counted in one home is not looked for in the other. A
 *       queue that is its own home has an epoll.
 *
 *   I2  The commons is a queue that is never open: it has no waiters, no requests and
 *       no sink. Its watches are dropped with their files.
 *
 * Tested by test-ready-limits.c.
 */
#include "req/queue.h"
#include "ready/readyint.h"

static struct uaio_queue commons;

void uaio_commons_init(void)
{
	/*
	 * A thread that held a lock of the commons does not exist in a child of fork().
	 */
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
	/* Descriptors that were refused before may be available by now. */
	if (uaio_ready_home(ready) == &commons.group)
		(void)uaio_poller_open(&commons.group.ready.poller);
}
