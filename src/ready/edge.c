/* SPDX-License-Identifier: MIT */
/*
 * Readiness: the edges that an epoll tells of, and what they kick (ready.h)
 *
 * Tested by test-ready*.c.
 */
#include <sys/epoll.h>

#include "base/check.h"
#include "ready/readyint.h"

static uint32_t waitqs_of(uint32_t events)
{
	uint32_t waitqs = 1u << UAIO_WAITQ_POLL;

	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP))
		waitqs |= 1u << UAIO_WAITQ_READ;
	if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
		waitqs |= 1u << UAIO_WAITQ_WRITE;
	if (events & (EPOLLERR | EPOLLHUP))
		waitqs |= 1u << UAIO_WAITQ_ERRORS;
	return waitqs;
}

/*
 * Note an edge: the epoll has said events of file, whose lock is held. armed:
 * the events of which it would have said so.
 * Return: which wait queues are to be run.
 */
static uint32_t note_edge_locked(struct uaio_file *file, uint32_t armed,
				 uint32_t events)
{
	uint32_t waitqs = waitqs_of(events),
		 nr_edges = load_relaxed(&file->nr_edges) + 1;

	/* [step: EDGE] */
	/* [MB:edges] release: pairs with uaio_file_edges(). */
	store_release(&file->nr_edges, nr_edges ? nr_edges : 1);
	file->told = events;
	file->told_of = armed;
	file->told_by_any |= events;
	file->told_of_by_all &= armed;
	for (unsigned i = 0; i < UAIO_NR_WAITQS; i++) {
		struct uaio_waitq *waitq = &file->waitqs[i];

		if (!(waitqs & 1u << i))
			continue;
		if (waitq->is_running)
			waitq->is_kicked = true;
		if (waitq->is_running || list_is_empty(&waitq->parked))
			waitqs &= ~(1u << i);
	}
	return waitqs;
}

static bool is_idle_locked(const struct uaio_file *file)
{
	for (unsigned i = 0; i < UAIO_NR_WAITQS; i++)
		/* relaxed: changed under the lock */
		if (load_relaxed(&file->waitqs[i].nr))
			return false;
	return true;
}

static void kick_event(struct uaio_group *group,
		       const struct epoll_event *event)
{
	struct uaio_watch *watch = uaio_watch_of_data(event->data.u64);
	struct uaio_ready *ready = &group->ready;
	struct uaio_file *file = NULL;
	uint32_t waitqs;

	if (!watch)
		return;
	uaio_lock(&ready->lock, UAIO_RANK_READY);
	if (load_relaxed(&watch->group) == group &&
	    uaio_watch_data(watch) == event->data.u64 &&
	    uaio_file_try_get(watch->file))
		file = watch->file;
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
	if (!file)
		return;
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	/* It was armed anew meanwhile: the epoll tells again what is ready. */
	if (unlikely(uaio_watch_data(watch) != event->data.u64))
		goto out;
	waitqs = note_edge_locked(file, watch->armed, event->events);
	watch->nr_told = add_relaxed(&watch->nr_edges, 1) + 1;
	/* No request waits for it: it is not to wake a thread again. */
	if (is_idle_locked(file))
		uaio_watch_disarm_locked(watch, load_relaxed(&file->fd));
	if (waitqs)
		uaio_watch_kick_told(watch, waitqs);
out:
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	uaio_file_put(file);
}

void uaio_ready_kick_events(struct uaio_group *group,
			    const struct epoll_event *events, int nr)
{
	for (int i = 0; i < nr; i++)
		kick_event(group, &events[i]);
	if (nr > 0)
		uaio_ready_add(&uaio_ready_counters.nr_events, (uint64_t)nr);
}
