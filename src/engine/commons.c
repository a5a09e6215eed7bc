/* SPDX-License-Identifier: MIT */
/*
 * The commons: where contexts without an epoll of their own have what is parked
 *
 * A context takes two descriptors for its epoll, and a host may have as many
 * contexts as its limit allows it descriptors, and more. So only as many have
 * an epoll as fit into the share that is ours (ownfd.h); the files of all others
 * are watched by one.
 *
 * The commons is to readiness (ready.h) what a context is: it has the watches,
 * one for each file, whoever waits for it; the requests in the lanes are counted
 * by it. It is nobody's: the standby thread adopts it as soon as something is
 * parked there, and keeps it whatever callers do, who run only what they come
 * by. Where there are not even descriptors for it, the thread tries everything
 * there every millisecond.
 *
 *   I1  The home of a context is chosen, under its lock, before anything is
 *       parked in it, and is the same until its end: what was counted in one
 *       place is not missed in another. Who is its own home has an epoll.
 *   I2  The commons is a queue that is never open: it has no waiters, no requests
 *       and no sink. Its watches go with their files.
 */
#include "engine/queue.h"
#include "engine/readyint.h"

static struct uaio_queue commons;

void uaio_commons_init(void)
{
	/* Whoever held a lock, or ran it, is not in a child of fork(). */
	commons = (struct uaio_queue){ 0 };
	uaio_queue_init(&commons, NULL);
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
	/* Refused before, they may be had by now. */
	if (uaio_ready_home(ready) == &commons.group)
		(void)uaio_poller_open(&commons.group.ready.poller);
}
