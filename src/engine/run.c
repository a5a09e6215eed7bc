/* SPDX-License-Identifier: MIT */
/* Readiness: trying what is parked (ready.h). */
#include <errno.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/epoll.h>

#include "base/sys.h"
#include "file/terminal.h"
#include "engine/readyint.h"
#include "engine/timed.h"
#include "engine/wait.h"
#include "engine/waits.h"

enum {
	/* Tries of one run: others are to have their turn, deadlines as well. */
	RUN_TRIES = 64,
	/* Of those parked since anybody looked so many are tried, newest first. */
	FRESH_TRIES = 16,
};

/* Return: what poll() says; all bits where nobody can tell. */
static uint32_t look(const struct uaio_req *req, int fd)
{
	static const struct timespec zero;
	struct pollfd slot = {
		.fd = fd,
		.events = (short)uaio_ready_events_of(req),
	};

	/* As under a limit of no descriptors. */
	if (sys_ppoll(&slot, 1, &zero, NULL, 0) < 0)
		return UINT32_MAX;
	return (unsigned short)slot.revents;
}

/* For files that know no call that does not block: is it worth one? */
static bool is_ready_now(const struct uaio_req *req, int fd)
{
	if (uaio_lane_id_of(req) == UAIO_LANE_READ &&
	    uaio_terminal_read_ends(req->file, fd))
		return true;
	return look(req, fd);
}

bool uaio_ready_is_doubtful(const struct uaio_req *req, int fd)
{
	if (uaio_lane_id_of(req) == UAIO_LANE_POLL)
		return false;
	/*
	 * An error that is kept for who asks for it (IP_RECVERR) makes nothing
	 * ready, and may stay for long.
	 */
	return look(req, fd) & ~(uint32_t)POLLERR;
}

/* A datagram socket shut for reading: only a call that may wait says so. */
static bool is_shut(const struct uaio_req *req, int fd)
{
	static const struct timespec zero;
	struct pollfd slot = { .fd = fd, .events = POLLIN | POLLRDHUP };

	return uaio_lane_id_of(req) == UAIO_LANE_READ &&
	       req->file->flags & UAIO_FILE_F_SOCKET &&
	       sys_ppoll(&slot, 1, &zero, NULL, 0) == 1 &&
	       slot.revents & POLLRDHUP;
}

/*
 * Return: the result, -EAGAIN: it waits on, -EOPNOTSUPP: it is a worker's.
 */
static int64_t try(struct uaio_req *req, int fd)
{
	int64_t res = uaio_req_try(req, fd);

	if (res == -EOPNOTSUPP && fd >= 0 && !is_ready_now(req, fd))
		return -EAGAIN;
	if (res == -EAGAIN && fd >= 0 && is_shut(req, fd))
		return -EOPNOTSUPP;
	return res;
}

/*
 * It will block, and closing the number could not wait for that: so never on
 * the client's own number, even if the table is full.
 */
static void hand_to_worker(struct uaio_req *req)
{
	struct list startable;

	req->owns_lane = true;
	if (!uaio_file_make_private(req->file)) {
		uaio_req_complete(req, -EAGAIN);
		return;
	}
	uaio_req_move(req, UAIO_REQ_RUNNING, UAIO_REQ_PREPPED);
	req->is_blocking = true;
	list_init(&startable);
	list_add_tail(&startable, &req->link);
	uaio_req_start_all(&startable);
}

void uaio_ready_returned(struct uaio_req *req)
{
	struct uaio_file *file = req->file;
	enum uaio_lane_id id = uaio_lane_id_of(req);
	struct uaio_lane *lane = &file->lanes[id];

	uaio_lock(&file->lock, UAIO_RANK_FILE);
	uaio_lane_count_out(lane, req);
	lane->is_running = false;
	uaio_lane_kick_locked(file, id, NULL);
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
}

/* Note what came of trying what was parked since anybody looked. */
static void note_retry(struct uaio_lane *lane, enum uaio_runner by,
		       bool was_fresh, bool was_in_vain)
{
	if (was_fresh)
		lane->retry_pays = !was_in_vain;
	/* Only who calls in at once does better not to try when it submits. */
	if (was_in_vain || by == UAIO_RUN_BY_STANDBY)
		store_relaxed(&lane->nr_misses, 0);
}

/* A pass over one lane, which is ours (is_running). */
struct run {
	struct uaio_file *file;
	struct uaio_lane *lane;
	struct uaio_group *group;
	enum uaio_runner by;
	bool is_fresh;   /* parked since anybody looked, and not kicked */
	bool has_doubts; /* of what the group waits for something is doubtful */
	unsigned budget; /* tries that are left */
	unsigned nr_done;
};

static uint32_t lanes_of(uint32_t events)
{
	uint32_t lanes = 1u << UAIO_LANE_POLL;

	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP))
		lanes |= 1u << UAIO_LANE_READ;
	if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
		lanes |= 1u << UAIO_LANE_WRITE;
	return lanes;
}

uint32_t uaio_file_note_edge_locked(struct uaio_file *file, uint32_t armed,
				    uint32_t events)
{
	uint32_t lanes = lanes_of(events),
		 nr_edges = load_relaxed(&file->nr_edges) + 1;

	/* [MB:edges] release: pairs with uaio_file_edges(). */
	store_release(&file->nr_edges, nr_edges ? nr_edges : 1);
	file->told = events;
	file->told_of = armed;
	for (unsigned i = 0; i < UAIO_NR_LANES; i++) {
		struct uaio_lane *lane = &file->lanes[i];

		if (!(lanes & 1u << i))
			continue;
		if (lane->is_running)
			lane->is_kicked = true;
		if (lane->is_running || list_is_empty(&lane->parked))
			lanes &= ~(1u << i);
	}
	return lanes;
}

/*
 * Return: the result of a poll that waited when the latest edge came, and that
 * it answers; or 0. The epoll asked the file what poll() would ask it.
 */
static int64_t told_locked(const struct uaio_file *file,
			   const struct uaio_req *req)
{
	uint32_t events = uaio_ready_events_of(req);

	/* relaxed: changed under the lock. 0: it was never tried. */
	if (uaio_lane_id_of(req) != UAIO_LANE_POLL || !req->edges ||
	    req->edges == load_relaxed(&file->nr_edges) ||
	    events & ~file->told_of)
		return 0;
	return file->told & (events | EPOLLERR | EPOLLHUP);
}

/*
 * Return: whether the epoll is yet to be told of the file, and says then that it
 * is ready. One who arms may have come while what is fresh was being tried, and
 * another may have had the edge.
 */
static bool is_to_be_armed_locked(const struct run *run,
				  const struct uaio_req *req)
{
	return run->is_fresh &&
	       !uaio_watch_tells_locked(req->watch, uaio_ready_events_of(req));
}

/*
 * The file's lock is released meanwhile. ret_in_doubt: there may be no edge to
 * come.
 */
static int64_t try_unlocked(struct run *run, struct uaio_req *req,
			    bool *ret_in_doubt)
{
	struct uaio_file *file = run->file;
	int fd = uaio_file_use_locked(file);
	int64_t res;

	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	res = try(req, fd);
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	if (res == -EAGAIN && !is_to_be_armed_locked(run, req)) {
		uaio_unlock(&file->lock, UAIO_RANK_FILE);
		*ret_in_doubt = uaio_ready_is_doubtful(req, fd);
		uaio_lock(&file->lock, UAIO_RANK_FILE);
	}
	uaio_file_unuse(file);
	return res;
}

/* Whoever tries, it is its own context that asks again. */
static void doubt_locked(struct run *run, struct uaio_req *req)
{
	uaio_watch_doubt(req->watch, 1u << uaio_lane_id_of(req));
	if (req->group == run->group)
		run->has_doubts = true;
	else
		uaio_standby_nudge(req->group);
}

enum outcome { IS_DONE, WAITS_ON, LANE_IS_LEFT };

/*
 * Try req, which stays in the lane meanwhile: who arms goes by what is there.
 * LANE_IS_LEFT: the lane is a worker's now.
 */
static enum outcome run_one_locked(struct run *run, struct uaio_req *req)
{
	struct uaio_file *file = run->file;
	bool is_unpollable = file->is_unpollable, in_doubt = false;
	struct uaio_canceller *canceller;
	bool is_cancelled;
	int64_t res = told_locked(file, req);

	uaio_try_begin_locked(req, UAIO_REQ_PARKED);
	if (!res)
		res = try_unlocked(run, req, &in_doubt);
	run->budget -= run->budget > 0;
	note_retry(run->lane, run->by, run->is_fresh, res == -EAGAIN);

	/* A poll waits on, for nothing: a worker could not make it either. */
	if (res == -EAGAIN && is_unpollable &&
	    uaio_lane_id_of(req) != UAIO_LANE_POLL)
		res = -EOPNOTSUPP;
	/* What a worker would make has not been made either. */
	is_cancelled = (res == -EAGAIN || res == -EOPNOTSUPP) && req->canceller;
	if (res == -EAGAIN && !is_cancelled) {
		uaio_try_resume_locked(req, UAIO_REQ_PARKED);
		if (unlikely(in_doubt))
			doubt_locked(run, req);
		return WAITS_ON;
	}
	if (unlikely(is_cancelled))
		res = uaio_req_cancelled_res(req);
	canceller = uaio_try_end_locked(req, UAIO_REQ_PARKED);
	list_remove(&req->link);
	uaio_timed_remove_locked(req);
	if (res != -EOPNOTSUPP)
		uaio_lane_count_out(run->lane, req);
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	/* Who sees the event is to find it counted; callers see their own. */
	if (res != -EOPNOTSUPP && run->by == UAIO_RUN_BY_STANDBY)
		uaio_ready_add(&uaio_ready_counters.nr_by_standby, 1);
	if (res == -EOPNOTSUPP)
		hand_to_worker(req);
	else
		uaio_req_complete(req, res);
	uaio_canceller_tell(canceller, is_cancelled);
	run->nr_done += res != -EOPNOTSUPP;
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	return res == -EOPNOTSUPP ? LANE_IS_LEFT : IS_DONE;
}

/* Return: false if the lane is a worker's now. */
static bool run_stream_locked(struct run *run)
{
	struct list *parked = &run->lane->parked;
	enum outcome outcome = IS_DONE;

	while (run->budget && !list_is_empty(parked) &&
	       (outcome == IS_DONE || run->lane->is_kicked)) {
		run->lane->is_kicked = false;
		outcome = run_one_locked(
			run, container_of(parked->next, struct uaio_req, link));
		if (outcome == LANE_IS_LEFT)
			return false;
	}
	return true;
}

/* Each once, whatever the budget; it goes to the end: others may be cancelled. */
static void run_polls_locked(struct run *run)
{
	struct list *parked = &run->lane->parked;

	do {
		/* relaxed: changed under the lock */
		uint32_t nr = load_relaxed(&run->lane->nr);

		run->lane->is_kicked = false;
		for (; nr && !list_is_empty(parked); nr--) {
			struct list *pos = parked->next;

			if (run_one_locked(run,
					   container_of(pos, struct uaio_req,
							link)) != WAITS_ON)
				continue;
			list_remove(pos);
			list_add_tail(parked, pos);
		}
	} while (run->budget && run->lane->is_kicked);
}

/* Return: whether it is to be run on. */
static bool run_lane_locked(struct run *run, enum uaio_lane_id id)
{
	struct uaio_lane *lane = &run->file->lanes[id];
	bool is_ours = true;

	if (lane->is_running) {
		lane->is_kicked = true;
		return false;
	}
	if (list_is_empty(&lane->parked))
		return false;
	run->lane = lane;
	lane->is_running = true;
	if (id == UAIO_LANE_POLL)
		run_polls_locked(run);
	else
		is_ours = run_stream_locked(run);
	if (is_ours)
		lane->is_running = false;
	if (!is_ours || run->budget || list_is_empty(&lane->parked))
		return false;
	return id != UAIO_LANE_POLL || lane->is_kicked;
}

static void run_file(struct uaio_file *file, uint32_t lanes, struct run *run)
{
	run->file = file;
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	for (unsigned i = 0; i < UAIO_NR_LANES; i++)
		if (lanes & 1u << i &&
		    (!run->budget || run_lane_locked(run, i)))
			uaio_lane_kick_locked(file, i, run->group);
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
}

/* Return: whether the list is the caller's to run. */
static bool begin_drain(struct uaio_ready *ready)
{
	bool is_free;

	uaio_lock(&ready->lock, UAIO_RANK_READY);
	is_free = !ready->is_draining;
	ready->is_draining = true;
	return is_free;
}

static void count_run(struct uaio_ready *ready, const struct run *run)
{
	if (run->budget < RUN_TRIES)
		uaio_ready_add(&uaio_ready_counters.nr_tries,
			       RUN_TRIES - run->budget);
	if (!run->nr_done || run->by == UAIO_RUN_BY_STANDBY)
		return;
	uaio_ready_add(&uaio_ready_counters.nr_by_caller, run->nr_done);
	/* relaxed: that it changes is enough */
	store_relaxed(&ready->nr_attended,
		      load_relaxed(&ready->nr_attended) + 1);
}

bool uaio_ready_run(struct uaio_group *group, enum uaio_runner by)
{
	struct uaio_ready *ready = &group->ready;
	struct run run = { .group = group, .by = by, .budget = RUN_TRIES };
	/* It arms instead, which tells it what is ready. */
	unsigned nr_fresh = by == UAIO_RUN_BY_STANDBY ? 0 : FRESH_TRIES;
	struct uaio_file *file;
	uint32_t lanes;
	bool is_left;

	/* relaxed: as others race. Who sleeps sees to what is others', too. */
	if (!load_relaxed(&ready->nr_parked) && by == UAIO_RUN_BY_CALLER)
		return false;
	if (by != UAIO_RUN_BY_STANDBY)
		uaio_ready_kick_personal(ready);
	if (!begin_drain(ready)) {
		uaio_unlock(&ready->lock, UAIO_RANK_READY);
		return false;
	}
	while (run.budget &&
	       (file = uaio_watch_pop_locked(ready, nr_fresh, &lanes,
					     &run.is_fresh))) {
		uaio_unlock(&ready->lock, UAIO_RANK_READY);
		nr_fresh -= run.is_fresh;
		run_file(file, lanes, &run);
		uaio_file_put(file);
		uaio_lock(&ready->lock, UAIO_RANK_READY);
	}
	/* I5 */
	is_left = !list_is_empty(&ready->kicked);
	ready->is_draining = false;
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
	count_run(ready, &run);
	/* What is to be asked again needs somebody who does. */
	if ((is_left || run.has_doubts) && by == UAIO_RUN_BY_CALLER)
		uaio_waiters_pass_on(group);
	return is_left;
}

bool uaio_ready_look(struct uaio_group *group, enum uaio_runner by)
{
	enum { NR = 64 };
	struct epoll_event events[NR];
	int nr;

	nr = uaio_poller_take(&group->ready.poller, events, NR);
	if (nr > 0)
		uaio_ready_kick_events(group, events, nr);
	return uaio_ready_run(group, by) || nr == NR;
}
