/* SPDX-License-Identifier: MIT */
/*
 * Edges: events that an edge-triggered epoll has reported. An edge makes a thread try
 * the requests parked on the file. For some polls the edge gives the result, so that no
 * thread need call poll() (ready.h).
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
 * The epoll has reported events (EPOLL*) of file, whose lock is held: count the edge,
 * and store it for the polls. armed: the events for which the epoll watched.
 * Return: the wait queues (a bit for each) in which requests must be tried.
 */
static uint32_t note_edge_locked(struct uaio_file *file, uint32_t armed,
				 uint32_t events)
{
	uint32_t waitqs = waitqs_of(events),
		 nr_edges = load_relaxed(&file->nr_edges) + 1;

	/* [step: EDGE] */
	/*
	 * [MB:edges] release: count the edge. A submitter that has read the old count
	 * tries its request again. Pairs with uaio_file_edges().
	 */
	store_release(&file->nr_edges, nr_edges ? nr_edges : 1);
	file->told = events;
	file->told_of = armed;
	file->told_by_any |= events;
	file->told_of_by_all &= armed;
	if (unlikely(events & UAIO_EVENTS_OF_MORE))
		file->told_of_more = true;
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
		/*
		 * relaxed: `nr` changes only under the file's lock, which this thread
		 * holds
		 */
		if (load_relaxed(&file->waitqs[i].nr))
			return false;
	return true;
}

struct uaio_file *uaio_edge_note(struct uaio_group *group,
				 const struct epoll_event *event,
				 struct uaio_watch **ret_watch,
				 uint32_t *ret_waitqs)
{
	struct uaio_watch *watch = uaio_watch_of_data(event->data.u64);
	struct uaio_file *file =
		watch ? uaio_watch_lock_file(watch, group) : NULL;

	if (!file)
		return NULL;
	/*
	 * The file was added to the epoll again after this event was read from the
	 * epoll. The epoll then reports once more what is ready, so ignore the event.
	 */
	if (unlikely(uaio_watch_data(watch) != event->data.u64)) {
		uaio_unlock(&file->lock, UAIO_RANK_FILE);
		return NULL;
	}
	*ret_watch = watch;
	*ret_waitqs = note_edge_locked(file, watch->armed, event->events);
	/*
	 * relaxed: nr_edges changes only under the file's lock, which this thread holds
	 */
	store_relaxed(&watch->nr_edges, load_relaxed(&watch->nr_edges) + 1);
	watch->nr_told = uaio_watch_edges(watch);
	/*
	 * No request waits for the file: remove it from the epoll, so that it does not
	 * wake a thread again.
	 */
	if (is_idle_locked(file))
		uaio_watch_disarm_locked(watch, load_relaxed(&file->fd));
	return file;
}

static void kick_event(struct uaio_group *group,
		       const struct epoll_event *event)
{
	struct uaio_watch *watch;
	uint32_t waitqs;
	struct uaio_file *file = uaio_edge_note(group, event, &watch, &waitqs);

	if (!file)
		return;
	if (waitqs)
		uaio_watch_kick_told(watch, waitqs);
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
}

void uaio_ready_kick_events(struct uaio_group *group,
			    const struct epoll_event *events, int nr)
{
	for (int i = 0; i < nr; i++)
		kick_event(group, &events[i]);
	if (nr > 0)
		uaio_ready_add(&uaio_ready_counters.nr_events, (uint64_t)nr);
}

/*
 * Polls
 */

/*
 * Return: whether this thread stored the file's latest edge, and did so after it last
 * polled the file for the request. If another thread stored the edge, that thread may
 * have read the event before this thread polled the file. Then the edge does not prove
 * that the file is ready.
 */
static bool has_edge_locked(const struct uaio_file *file,
			    const struct uaio_req *req)
{
	/*
	 * relaxed, all: these counts change only under the file's lock, which this
	 * thread holds
	 */
	if (unlikely(uaio_is_multishot_poll(req)))
		return uaio_watch_edges(req->watch) != req->edges &&
		       uaio_watch_edges(req->watch) == req->watch->nr_told;
	/* req->edges is 0 if the poll was never tried. */
	return req->edges && req->edges != load_relaxed(&file->nr_edges) &&
	       req->looker == &uaio_entry;
}

int64_t uaio_edge_result_locked(const struct uaio_file *file,
				const struct uaio_req *req)
{
	uint32_t events;

	if (uaio_waitq_id_of(req) != UAIO_WAITQ_POLL ||
	    !has_edge_locked(file, req))
		return 0;
	events = uaio_ready_events_of(req);
	if (events & ~file->told_of)
		return 0;
	return file->told & (events | EPOLLERR | EPOLLHUP);
}

void uaio_edge_take_locked(struct uaio_file *file, struct uaio_told *told)
{
	/*
	 * relaxed: nr_edges changes only under the file's lock, which this thread holds
	 */
	told->nr_edges = load_relaxed(&file->nr_edges);
	told->by_any = file->told_by_any;
	told->of_by_all = file->told_of_by_all;
	told->after = file->told_after;
	file->told_by_any = 0;
	file->told_of_by_all = UINT32_MAX;
	file->told_after = told->nr_edges;
}

/*
 * Return: whether a poll need not query its file again (I11). This is so if there were
 * edges since the poll's last query, but none of them reported the poll's events, for
 * which the epoll always watched. If such an event comes later, the epoll reports
 * another edge.
 */
static bool is_told_of_nothing(const struct uaio_told *told,
			       const struct uaio_req *req)
{
	uint32_t events;

	/* req->edges is 0 if the poll was never tried. */
	if (!req->edges || (int32_t)(req->edges - told->after) < 0 ||
	    (int32_t)(told->nr_edges - req->edges) <= 0 ||
	    unlikely(req->file->flags & UAIO_FILE_F_PERSONAL))
		return false;
	events = uaio_ready_events_of(req);
	return !(events & ~told->of_by_all) &&
	       !(told->by_any & (events | EPOLLERR | EPOLLHUP));
}

bool uaio_edge_begin_poll_locked(const struct uaio_told *told,
				 struct uaio_req *req)
{
	bool waits_on = is_told_of_nothing(told, req);

	/*
	 * If the poll queries its file, it does so after this store. So if an edge
	 * comes after the query, the file's nr_edges no longer equals req->edges.
	 */
	req->edges = told->nr_edges;
	if (!waits_on)
		req->looker = uaio_entry.run->is_nested ? NULL : &uaio_entry;
	return waits_on;
}
