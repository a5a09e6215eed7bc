/* SPDX-License-Identifier: MIT */
/*
 * Readiness: trying parked requests (ready.h). A run tries the kicked wait queues of
 * one queue. Tested by test-ready-again.c and all other test-ready*.c.
 */
#include <errno.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "file/terminal.h"
#include "op/sock.h"
#include "req/waits.h"
#include "ready/readyint.h"
#include "ready/timer.h"
#include "ready/waiter.h"

enum {
	/*
	 * The number of tries in one run. After a run the caller checks its deadline,
	 * and other queues have their turn.
	 */
	RUN_TRIES = 64,
	/*
	 * The number of files that one run tries of those on which a request was parked
	 * since any thread looked, the newest first.
	 */
	FRESH_TRIES = 16,
};

/*
 * Learn from a try whether the next one pays, so whether to try in io_submit and before
 * a sleep (retry_pays and nr_misses of the wait queue).
 */
static void note_retry(struct uaio_waitq *waitq, enum uaio_runner by,
		       bool was_fresh, bool was_in_vain)
{
	if (was_fresh)
		waitq->retry_pays = !was_in_vain;
	/* Not trying in io_submit is better only if callers come at once. */
	if (was_in_vain || by == UAIO_RUN_BY_FALLBACK)
		store_relaxed(&waitq->nr_misses, 0);
}

/* A run, and its pass over one wait queue, which this thread owns (is_running) */
struct run {
	struct uaio_file *file;
	struct uaio_waitq *waitq;
	struct uaio_group *group;
	enum uaio_runner by;
	bool is_fresh;   /* not kicked, but parked since the last look */
	bool is_again;   /* a multishot request had a result, and goes on */
	bool ends_turn;  /* that request waits for those of other files */
	bool by_edges;   /* only edges answer the multishot poll being tried */
	bool has_doubts; /* something of the group is in doubt */
	bool holds_file; /* by a reference, beside its requests' references */
	/* for a pass over polls: what edges before it said */
	struct uaio_told told;
	unsigned budget;   /* tries that are left */
	unsigned nr_shots; /* shots of multishot requests in this pass */
	unsigned nr_done;
	struct uaio_done *done; /* executed, not completed yet */
};

static bool is_poll_once(const struct uaio_req *req)
{
	return uaio_waitq_id_of(req) == UAIO_WAITQ_POLL &&
	       !req->sqe.is_multishot;
}

/*
 * Return: whether the file is yet to be armed; if it is ready, the epoll then says so.
 * Even for a fresh request the file may be armed: another thread may have armed it
 * during the try, and a third may have had the edge.
 */
static bool is_to_be_armed_locked(const struct run *run,
				  const struct uaio_req *req)
{
	return run->is_fresh &&
	       !uaio_watch_tells_locked(req->watch, uaio_ready_events_of(req));
}

/*
 * Try req. The file's lock is released meanwhile. ret_fd: the descriptor that was used.
 * ret_in_doubt: no edge may come, though the try failed with EAGAIN.
 */
static enum uaio_next try_unlocked(struct run *run, struct uaio_req *req,
				   int *ret_fd, bool *ret_in_doubt,
				   int64_t *ret_res)
{
	struct uaio_file *file = run->file;
	int fd = *ret_fd = uaio_file_begin_try_locked(file);
	bool is_known = run->is_again || !uaio_req_may_lose_file(req, fd);
	enum uaio_next next;
	uint32_t nr_adds = 0;

	run->is_again = false;
	if (!is_known) {
		nr_adds = uaio_watch_has_locked(req->watch, fd);
		is_known = nr_adds && nr_adds == req->watch->nr_sure;
	}
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	is_known = is_known || !uaio_req_has_lost_file(req, fd);
	/* [step: TRY] */
	next = uaio_ready_try(req, fd, is_known, ret_res);
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	if (is_known)
		uaio_watch_is_sure_locked(req->watch, nr_adds);
	if (next == UAIO_NEXT_WAIT_FILE && !uaio_ready_is_certain(req) &&
	    !is_to_be_armed_locked(run, req)) {
		uaio_unlock(&file->lock, UAIO_RANK_FILE);
		/* [step: DOUBT] */
		*ret_in_doubt = uaio_ready_is_doubtful(req, fd);
		uaio_lock(&file->lock, UAIO_RANK_FILE);
	}
	uaio_file_end_try_locked(file);
	return next;
}

/*
 * Put the wait queue of req in doubt: its home tries it again, whichever thread has
 * tried it now.
 */
static void doubt_locked(struct run *run, struct uaio_req *req)
{
	struct uaio_group *home = uaio_ready_home(&req->group->ready);

	uaio_watch_doubt(req->watch, 1u << uaio_waitq_id_of(req));
	if (home == run->group)
		run->has_doubts = true;
	else
		uaio_fallback_nudge(home);
}

/*
 * Begin to try a multishot poll. Only edges answer it if the epoll reports all of them
 * (I10). Not inline: few requests are such polls.
 * Return: false if there was no edge since the last try.
 */
static __attribute__((noinline)) bool
begin_multishot_locked(struct run *run, struct uaio_req *req)
{
	uint32_t seen = req->edges;

	run->by_edges =
		!(req->file->flags & UAIO_FILE_F_PERSONAL) &&
		uaio_watch_tells_locked(req->watch, uaio_ready_events_of(req));
	/* relaxed: an edge that comes from here on kicks the wait queue */
	req->edges = uaio_watch_edges(req->watch);
	return !run->by_edges || req->edges != seen;
}

/*
 * Return: whether a multishot poll must end because a ring may have made its epoll
 * ready (uaio_ready_note_nested()).
 */
static bool may_be_nested(const struct uaio_req *req)
{
	/* relaxed: the count changes before the edge for which it changes */
	return req->file->flags & UAIO_FILE_F_EPOLL &&
	       req->watch->nr_nested != load_relaxed(&uaio_ready_nr_nested);
}

/*
 * Return: whether the file has nothing more for a multishot request that has just had a
 * result, until there is another edge (I12).
 */
static bool is_empty_locked(const struct uaio_req *req)
{
	return req->found.rest == UAIO_REST_NONE ||
	       (req->found.rest == UAIO_REST_NO_BYTES &&
		!req->file->told_of_more &&
		uaio_watch_tells_locked(req->watch, UAIO_EVENTS_OF_STREAM));
}

/*
 * Post the result res of a multishot request that goes on. A poll goes on if edges
 * answer it. Any other multishot request goes on as long as its tries succeed, until a
 * try finds nothing, or its socket is known to have nothing more. The file's lock is
 * released meanwhile; an edge that comes then kicks the wait queue, which is being run.
 * Return: WAIT_FILE; or DONE: the request ends with res.
 */
static __attribute__((noinline)) enum uaio_next
post_unlocked(struct run *run, struct uaio_req *req, int64_t res)
{
	bool is_poll = uaio_waitq_id_of(req) == UAIO_WAITQ_POLL, is_posted;
	const void *outer = uaio_entry.run->posted;

	if (is_poll ? res <= 0 || !run->by_edges || may_be_nested(req)
		    : !uaio_sqe_has_more(&req->sqe, res))
		return UAIO_NEXT_DONE;
	uaio_unlock(&run->file->lock, UAIO_RANK_FILE);
	uaio_entry.run->posted = req; /* waits.h, I4 */
	uaio_done_complete(run->done);
	is_posted = uaio_flow->post_more(req, res);
	uaio_entry.run->posted = outer;
	uaio_lock(&run->file->lock, UAIO_RANK_FILE);
	run->nr_done += is_posted;
	if (is_posted && !is_poll && !is_empty_locked(req)) {
		run->waitq->is_kicked = true;
		run->ends_turn =
			uaio_sqe_ends_turn(&req->sqe, ++run->nr_shots, res);
		run->is_again = !run->ends_turn;
		/* The next try is not counted, up to a limit of completions. */
		run->budget += run->nr_done <= RUN_TRIES;
	}
	return is_posted ? UAIO_NEXT_WAIT_FILE : UAIO_NEXT_DONE;
}

/*
 * Keep the file until run_file() is finished with it. Called before the lock of the
 * file is released: requests of the file may be completed before the lock is taken
 * again.
 */
static void hold_file_locked(struct run *run)
{
	if (!run->holds_file)
		run->holds_file = uaio_file_try_get(run->file);
}

/* The rest of end_try_locked() if req cannot be completed together with others. */
static __attribute__((noinline)) void
end_try_unlocked(struct run *run, struct uaio_req *req, int fd,
		 enum uaio_next next, int64_t res, bool is_cancelled,
		 struct uaio_canceller *canceller)
{
	struct uaio_file *file = run->file;

	hold_file_locked(run);
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	if (likely(next == UAIO_NEXT_DONE))
		uaio_done_add(run->done, req, res, fd);
	if (unlikely(next == UAIO_NEXT_WORKER || canceller))
		uaio_done_complete(run->done);
	if (next == UAIO_NEXT_WORKER)
		uaio_ready_hand_to_worker(req);
	uaio_canceller_tell(canceller, is_cancelled);
	uaio_lock(&file->lock, UAIO_RANK_FILE);
}

/*
 * End a try, whose outcome next is DONE or WORKER: req leaves its wait queue. If req
 * goes to a worker, the worker owns the wait queue. The file's lock may be released
 * meanwhile. fd, res: of the try.
 */
static void end_try_locked(struct run *run, struct uaio_req *req, int fd,
			   enum uaio_next next, int64_t res, bool is_cancelled)
{
	struct uaio_canceller *canceller;
	bool is_done = next == UAIO_NEXT_DONE;

	canceller = uaio_try_end_locked(req, UAIO_REQ_PARKED);
	list_remove(&req->link);
	uaio_timer_remove_locked(req);
	if (likely(is_done)) {
		uaio_waitq_leave_locked(run->waitq);
		/*
		 * Counted before the event is posted: a thread that sees the event
		 * finds it counted. Callers count their own completions later.
		 */
		if (run->by == UAIO_RUN_BY_FALLBACK)
			uaio_ready_add(&uaio_ready_counters.nr_by_fallback, 1);
		run->nr_done++;
	}
	if (unlikely(canceller) || !is_done ||
	    !uaio_done_note(run->done, req, res, fd))
		end_try_unlocked(run, req, fd, next, res, is_cancelled,
				 canceller);
}

/*
 * Try req, which stays in the wait queue meanwhile: a thread that arms looks at the
 * wait queue. Return: as uaio_req_try(); WORKER: a worker owns the wait queue now.
 */
static enum uaio_next run_one_locked(struct run *run, struct uaio_req *req)
{
	struct uaio_file *file = run->file;
	bool is_unpollable = file->is_unpollable, in_doubt = false;
	enum uaio_next next = UAIO_NEXT_DONE;
	bool is_cancelled;
	int fd = -1;
	int64_t res = uaio_edge_result_locked(file, req);

	if (unlikely(uaio_is_multishot_poll(req)) &&
	    !begin_multishot_locked(run, req))
		return UAIO_NEXT_WAIT_FILE;
	if (is_poll_once(req) && !res &&
	    uaio_edge_begin_poll_locked(&run->told, req))
		return UAIO_NEXT_WAIT_FILE;
	uaio_try_begin_locked(req, UAIO_REQ_PARKED);
	if (!res)
		next = try_unlocked(run, req, &fd, &in_doubt, &res);
	run->budget -= run->budget > 0;
	note_retry(run->waitq, run->by, run->is_fresh,
		   next == UAIO_NEXT_WAIT_FILE);
	if (unlikely(req->sqe.is_multishot) && next == UAIO_NEXT_DONE)
		next = post_unlocked(run, req, res);

	/*
	 * A poll on a file that the epoll refuses just waits on: a worker could not
	 * execute it either.
	 */
	if (next == UAIO_NEXT_WAIT_FILE && is_unpollable &&
	    uaio_waitq_id_of(req) != UAIO_WAITQ_POLL)
		next = UAIO_NEXT_WORKER;
	/* [step: TRIED] */
	/* A request that is left to a worker has not been executed either. */
	is_cancelled = next != UAIO_NEXT_DONE && req->canceller;
	if (next == UAIO_NEXT_WAIT_FILE && !is_cancelled) {
		uaio_try_resume_locked(req, UAIO_REQ_PARKED);
		if (unlikely(in_doubt))
			doubt_locked(run, req);
		return next;
	}
	if (unlikely(is_cancelled)) {
		res = uaio_req_cancelled_res(req);
		next = UAIO_NEXT_DONE;
	}
	end_try_locked(run, req, fd, next, res, is_cancelled);
	return next;
}

/*
 * Return: whether the pass goes on. A multishot request ends its turn even if the
 * budget is used up, so that the turns of all files are equally long.
 */
static bool may_try(const struct run *run)
{
	return run->budget ? !run->ends_turn : run->is_again;
}

/* Return: false if a worker owns the wait queue now. */
static bool run_stream_locked(struct run *run)
{
	struct list *parked = &run->waitq->parked;
	enum uaio_next next = UAIO_NEXT_DONE;

	/* [step: WAITQ_NEXT] */
	while (may_try(run) && !list_is_empty(parked) &&
	       (next == UAIO_NEXT_DONE || run->waitq->is_kicked)) {
		if (unlikely(uaio_done_asks(run->done, run->file))) {
			hold_file_locked(run);
			uaio_unlock(&run->file->lock, UAIO_RANK_FILE);
			uaio_done_complete(run->done);
			uaio_lock(&run->file->lock, UAIO_RANK_FILE);
			continue;
		}
		run->waitq->is_kicked = false;
		next = run_one_locked(
			run, container_of(parked->next, struct uaio_req, link));
		if (next == UAIO_NEXT_WORKER)
			return false;
	}
	return true;
}

/*
 * Try each poll once, whatever the budget, and move it to the end of the list: other
 * polls of the list may be cancelled meanwhile.
 */
static void run_polls_locked(struct run *run)
{
	struct list *parked = &run->waitq->parked;

	do {
		/* relaxed: changed under the lock */
		uint32_t nr = load_relaxed(&run->waitq->nr);

		run->waitq->is_kicked = false;
		uaio_edge_take_locked(run->file, &run->told);
		for (; nr && !list_is_empty(parked); nr--) {
			struct list *pos = parked->next;

			if (run_one_locked(
				    run,
				    container_of(pos, struct uaio_req, link)) !=
			    UAIO_NEXT_WAIT_FILE)
				continue;
			list_remove(pos);
			list_add_tail(parked, pos);
		}
	} while (run->budget && run->waitq->is_kicked);
}

/* Return: whether the wait queue must be run again. */
static bool run_waitq_locked(struct run *run, enum uaio_waitq_id id)
{
	struct uaio_waitq *waitq = &run->file->waitqs[id];
	bool is_ours = true;

	/* [step: WAITQ_BEGIN] */
	if (waitq->is_running) {
		waitq->is_kicked = true;
		return false;
	}
	if (list_is_empty(&waitq->parked))
		return false;
	run->waitq = waitq;
	run->is_again = run->ends_turn = false;
	run->nr_shots = 0;
	waitq->is_running = true;
	if (id == UAIO_WAITQ_POLL)
		run_polls_locked(run);
	else
		is_ours = run_stream_locked(run);
	if (is_ours)
		waitq->is_running = false;
	if (!is_ours || list_is_empty(&waitq->parked))
		return false;
	if (run->budget)
		return run->ends_turn;
	return id != UAIO_WAITQ_POLL || waitq->is_kicked;
}

/* Run these wait queues of file, whose lock is held, and release the lock. */
static void run_file(struct uaio_file *file, uint32_t waitqs, struct run *run)
{
	run->file = file;
	run->holds_file = false;
	if (waitqs & UAIO_WAITQS_ASK) {
		file->told_by_any = UINT32_MAX;
		file->told_of_more = true;
	}
	for (unsigned i = 0; i < UAIO_NR_WAITQS; i++)
		if (waitqs & 1u << i &&
		    (!run->budget || run_waitq_locked(run, i)))
			uaio_waitq_kick_locked(file, i, run->group);
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	if (unlikely(run->holds_file))
		uaio_file_put(file);
}

/*
 * Run the wait queues for which the epoll has reported events, without putting their
 * watches on the list first. A watch that is on a list already is run from there. The
 * thread holds no lock.
 */
static void run_events(struct run *run, const struct epoll_event *events,
		       int nr)
{
	run->is_fresh = false;
	for (int i = 0; i < nr; i++) {
		struct uaio_watch *watch;
		uint32_t waitqs;
		struct uaio_file *file =
			uaio_edge_note(run->group, &events[i], &watch, &waitqs);

		if (!file)
			continue;
		if (waitqs && (!run->budget || !uaio_watch_is_idle(watch))) {
			uaio_watch_kick_told(watch, waitqs);
			waitqs = 0;
		}
		run_file(file, waitqs, run);
	}
	if (nr > 0)
		uaio_ready_add(&uaio_ready_counters.nr_events, (uint64_t)nr);
}

/* Run the kicked files. The lock of ready is held, and released meanwhile. */
static void run_kicked(struct run *run, struct uaio_ready *ready,
		       unsigned *nr_fresh)
{
	struct uaio_watch *watch;
	uint32_t waitqs;

	while (run->budget &&
	       (watch = uaio_watch_pop_locked(ready, *nr_fresh, &waitqs,
					      &run->is_fresh))) {
		struct uaio_file *file;

		uaio_unlock(&ready->lock, UAIO_RANK_READY);
		*nr_fresh -= run->is_fresh;
		file = uaio_watch_lock_file(watch, run->group);
		if (file)
			run_file(file, waitqs, run);
		uaio_lock(&ready->lock, UAIO_RANK_READY);
	}
}

/*
 * Begin to run the list of kicked files. If another thread is running the list, the
 * files of the events are put on it for that thread, and *nr becomes 0. Returns with
 * the lock of ready held.
 * Return: whether the caller is the thread that runs the list.
 */
static bool begin_drain(struct uaio_group *group,
			const struct epoll_event *events, int *nr)
{
	struct uaio_ready *ready = &group->ready;
	bool is_free;

	uaio_lock(&ready->lock, UAIO_RANK_READY);
	if (unlikely(ready->is_draining) && *nr) {
		uaio_unlock(&ready->lock, UAIO_RANK_READY);
		uaio_ready_kick_events(group, events, *nr);
		*nr = 0;
		uaio_lock(&ready->lock, UAIO_RANK_READY);
	}
	/* [step: DRAIN_BEGIN] */
	is_free = !ready->is_draining;
	ready->is_draining = true;
	return is_free;
}

static void count_run(struct uaio_ready *ready, const struct run *run)
{
	if (run->budget < RUN_TRIES)
		uaio_ready_add(&uaio_ready_counters.nr_tries,
			       RUN_TRIES - run->budget);
	if (!run->nr_done || run->by == UAIO_RUN_BY_FALLBACK)
		return;
	uaio_ready_add(&uaio_ready_counters.nr_by_caller, run->nr_done);
	uaio_ready_note_attended(ready);
}

/*
 * Arm files on behalf of a thread that sleeps: a caller leaves files that are not
 * armed, and goes. The sleeping thread may have looked while they were kicked, and have
 * left them to this one.
 * relaxed: the sleeping thread looked under the lock, before this thread let go of the
 * list, and before it looked it said that it sleeps.
 */
static void arm_for_sleeper(struct uaio_group *group)
{
	/* [step: DRAINED_LOOK] */
	if (uaio_ready_has(&group->ready, UAIO_LEADER | UAIO_ADOPTER))
		uaio_ready_arm_beside(group);
}

/*
 * Complete the requests that the run has executed. The lock of ready is released
 * meanwhile.
 * Return: whether there were any; then there may be more to run.
 */
static bool complete_unlocked(struct uaio_ready *ready, struct uaio_done *done)
{
	if (!done->nr)
		return false;
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
	uaio_done_complete(done);
	uaio_lock(&ready->lock, UAIO_RANK_READY);
	return true;
}

/*
 * Run the wait queues of the events, then the kicked files; no other thread does
 * meanwhile. The lock of ready is held, and released meanwhile.
 */
static void drain_locked(struct run *run, const struct epoll_event *events,
			 int nr)
{
	struct uaio_ready *ready = &run->group->ready;
	/*
	 * The fallback thread arms such files instead: then its epoll reports whether
	 * they are ready.
	 */
	unsigned nr_fresh = run->by == UAIO_RUN_BY_FALLBACK ? 0 : FRESH_TRIES;
	if (nr) {
		uaio_unlock(&ready->lock, UAIO_RANK_READY);
		run_events(run, events, nr);
		uaio_lock(&ready->lock, UAIO_RANK_READY);
	}
	do
		run_kicked(run, ready, &nr_fresh);
	while (complete_unlocked(ready, run->done));
}

bool uaio_ready_run_events(struct uaio_group *group, enum uaio_runner by,
			   const struct epoll_event *events, int nr)
{
	struct uaio_ready *ready = &group->ready;
	struct uaio_done done;
	struct run run = {
		.group = group, .by = by, .budget = RUN_TRIES, .done = &done
	};
	struct uaio_entry_run *outer = uaio_entry.run;
	struct uaio_entry_run own = {
		.posted = outer ? outer->posted : NULL,
		.is_nested = outer,
	};
	bool is_left, is_unarmed;

	uaio_entry.run = &own;
	uaio_timers_end(group);
	(void)uaio_natives_take(group, &run.nr_done);
	if (by != UAIO_RUN_BY_FALLBACK)
		uaio_ready_kick_personal(ready);
	if (!begin_drain(group, events, &nr)) {
		uaio_unlock(&ready->lock, UAIO_RANK_READY);
		uaio_entry.run = outer;
		return false;
	}
	uaio_done_init(&done, group);
	drain_locked(&run, events, nr);
	uaio_entry.run = outer;
	/* [step: DRAIN_END] I5 */
	is_left = !list_is_empty(&ready->kicked);
	is_unarmed = !list_is_empty(&ready->unarmed);
	ready->is_draining = false;
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
	count_run(ready, &run);
	if (by != UAIO_RUN_BY_CALLER)
		return is_left;
	/* If something is in doubt, a thread must try it again. */
	if (is_left || run.has_doubts)
		uaio_waiters_pass_on(group);
	else if (is_unarmed)
		arm_for_sleeper(group);
	return is_left;
}

bool uaio_ready_run(struct uaio_group *group, enum uaio_runner by)
{
	/*
	 * relaxed: it races with other threads in any case. A thread that sleeps next
	 * also looks after files of other threads' requests.
	 */
	if (!load_relaxed(&group->ready.nr_parked) && by == UAIO_RUN_BY_CALLER)
		return false;
	return uaio_ready_run_events(group, by, NULL, 0);
}

bool uaio_ready_look(struct uaio_group *group, enum uaio_runner by)
{
	enum { NR = 64 };
	struct epoll_event events[NR];
	int nr;

	nr = uaio_poller_take(&group->ready.poller, events, NR);
	return nr > 0 ? uaio_ready_run_events(group, by, events, nr) || nr == NR
		      : uaio_ready_run(group, by);
}
