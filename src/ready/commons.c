/* SPDX-License-Identifier: MIT */
/*
 * The commons: the one epoll of all queues that have no epoll of their own
 *
 * A queue (a client's context or ring) needs two descriptors for its epoll. A program
 * may have more queues than its limit allows descriptors. So only as many queues have
 * an epoll as fit into the library's share of descriptors (ownfd.h). For all other
 * queues one shared epoll watches the files: that of the commons.
 *
 * To the rest of the module (ready.h) the commons is a queue like others. It has one
 * watch for each file, whichever queue waits for the file, and counts the parked
 * requests. No client uses the commons directly. The fallback thread adopts it (watches
 * its epoll) as soon as a request is parked there. It keeps the commons even if threads
 * of the program serve some queues, because these threads do not serve the other
 * queues. If there are not even descriptors for the commons, the fallback thread tries
 * every request there every millisecond.
 *
 *   I1  The home of a queue is either the queue itself or the commons. It is chosen
 *       under the queue's lock, before a request is parked, and stays the same until
 *       the queue is closed. If the home could change, a request could be counted in one
 *       home, and a thread could look for it in the other home. A queue that is its own
 *       home has an epoll.
 *
 *   I2  The commons is a queue that is never open. No thread waits for its events. It
 *       has no requests of its own, and no sink (front-end functions for completions).
 *       Its watches are dropped with their files.
 *
 * Tested by test-ready-limits.c.
 */
#include "req/queue.h"
#include "ready/readyint.h"

static struct uaio_queue commons;

void uaio_commons_init(void)
{
	/*
	 * In a child of fork() a lock of the commons may still be held by a thread that
	 * does not exist there. So this also resets the locks.
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
	/*
	 * relaxed: `home` changes only once, under the lock that this thread holds
	 */
	if (load_relaxed(&ready->home) == group &&
	    uaio_poller_open_within_share(&ready->poller) < 0)
		store_relaxed(&ready->home, &commons.group);
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
	/*
	 * Opening the epoll of the commons may have failed before; descriptors may be
	 * available now.
	 */
	if (uaio_ready_home(ready) == &commons.group)
		(void)uaio_poller_open(&commons.group.ready.poller);
}
