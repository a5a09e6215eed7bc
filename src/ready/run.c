/* SPDX-License-Identifier: MIT */
/*
 * A run: one thread tries the requests in the kicked wait queues of one queue
 * (ready.h). Tested by test-ready-again.c and all other test-ready*.c.
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
	/* How many tries a run makes; after that the thread checks its deadline */
	RUN_TRIES = 64,
	/*
	 * How many files a run takes from the list `fresh`, the newest first. (A file
	 * is on that list if a request was parked on it, and no thread has looked at
	 * the file since.)
	 */
	FRESH_TRIES = 16,
};

/*
 * Learn from the outcome of a try which later tries are worth their cost. retry_pays:
 * whether a thread that is about to sleep shall try requests that were parked since the
 * last run. nr_misses: how many tries in io_submit in a row found nothing; if they are
 * many, io_submit omits most of its tries.
 */
static void note_retry(struct uaio_waitq *waitq, enum uaio_runner by,
		       bool was_fresh, bool was_in_vain)
{
	if (was_fresh)
		waitq->retry_pays = !was_in_vain;
	/*
	 * io_submit may have parked the request without a try, in the hope that a
	 * waiting thread of the program soon executes it. As no such thread has done
	 * so, let io_submit try the next request again.
	 */
	if (was_in_vain || by == UAIO_RUN_BY_FALLBACK)
		store_relaxed(&waitq->nr_misses, 0);
}

/*
 * State of a run, and of its present pass. (A pass tries requests of one wait queue,
 * which this thread owns meanwhile: is_running.)
 */
struct run {
	struct uaio_file *file;
	struct uaio_waitq *waitq;
	struct uaio_group *group;
	enum uaio_runner by;
	bool is_fresh; /* the file's requests were parked since the last run */
	/* a multishot request has just had a completion, and is tried again */
	bool is_again;
	/* a multishot request's turn is over: requests of other files come first */
	bool ends_turn;
	/* the multishot poll that is being tried completes only by edges */
	bool by_edges;
	/* the epoll may not report some file of the queue (in doubt: ready.h) */
	bool has_doubts;
	bool holds_file; /* the run has a reference of its own to the file */
	/* events that the epoll reported before a pass over polls */
	struct uaio_told told;
	unsigned budget;   /* tries that the run may still make */
	unsigned nr_shots; /* completions of multishot requests in this pass */
	unsigned nr_done;
	struct uaio_done
		*done; /* executed requests, to be completed together */
};

static bool is_poll_once(const struct uaio_req *req)
{
	return uaio_waitq_id_of(req) == UAIO_WAITQ_POLL &&
	       !req->sqe.is_multishot;
}

/*
 * Return: whether the file will be added to the epoll after this try. The epoll then
 * reports the file if it is ready. If another thread has added the file during the try,
 * the result is false: a third thread may have read the file's edge from the epoll, so
 * the epoll may not report the file again.
 */
static bool is_to_be_armed_locked(const struct run *run,
				  const struct uaio_req *req)
{
	return run->is_fresh &&
	       !uaio_watch_tells_locked(req->watch, uaio_ready_events_of(req));
}

/*
 * Try req. The file's lock is released during the call. *ret_fd: the descriptor used.
 * *ret_in_doubt: the try failed with EAGAIN, but the epoll may never report the file.
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
 * Put the wait queue of req in doubt: threads that serve the request's home try the
 * wait queue again at intervals.
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
 * Begin to try a multishot poll. If the epoll reports all events that the poll awaits,
 * only edges complete it (I10). noinline, as such polls are rare.
 * Return: false if there was no edge since the last try.
 */
static __attribute__((noinline)) bool
begin_multishot_locked(struct run *run, struct uaio_req *req)
{
	uint32_t seen = req->edges;

	run->by_edges =
		!(req->file->flags & UAIO_FILE_F_PERSONAL) &&
		uaio_watch_tells_locked(req->watch, uaio_ready_events_of(req));
	/* relaxed: an edge that is counted after this read kicks the wait queue */
	req->edges = uaio_watch_edges(req->watch);
	return !run->by_edges || req->edges != seen;
}

/*
 * Return: whether the multishot poll must end because its file is an epoll that may
 * contain a ring (uaio_ready_note_nested()).
 */
static bool may_be_nested(const struct uaio_req *req)
{
	/*
	 * relaxed: the count changed before the ring became ready. The edge for which
	 * this thread runs the poll came later, so this load sees the new count.
	 */
	return req->file->flags & UAIO_FILE_F_EPOLL &&
	       req->watch->nr_nested != load_relaxed(&uaio_ready_nr_nested);
}

/*
 * A multishot request has just posted a result.
 * Return: whether its file has nothing more, so that it need not be tried again before
 * the next edge (I12).
 */
static bool is_empty_locked(const struct uaio_req *req)
{
	return req->found.rest == UAIO_REST_NONE ||
	       (req->found.rest == UAIO_REST_NO_BYTES &&
		!req->file->told_of_more &&
		uaio_watch_tells_locked(req->watch, UAIO_EVENTS_OF_STREAM));
}

/*
 * Post the result res of a multishot request, and decide whether the request goes on. A
 * poll goes on if edges complete it. Any other multishot request goes on until a try
 * finds nothing, or its socket is known to have nothing more. The file's lock is
 * released meanwhile. If an edge comes then, it sets is_kicked, so this thread tries
 * the wait queue again.
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
		/*
		 * Until the run has made more than RUN_TRIES completions, the next try
		 * of req costs none of the run's budget.
		 */
		run->budget += run->nr_done <= RUN_TRIES;
	}
	return is_posted ? UAIO_NEXT_WAIT_FILE : UAIO_NEXT_DONE;
}

/*
 * Take a reference to the file until run_file() ends. Called before the file's lock is
 * released, as the file's last request may complete before the lock is taken again.
 */
static void hold_file_locked(struct run *run)
{
	if (!run->holds_file)
		run->holds_file = uaio_file_try_get(run->file);
}

/* Second half of end_try_locked(): complete req alone, or hand it to a worker. */
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
 * End the try of req. `next`: the outcome, DONE or WORKER; fd: the descriptor used;
 * res: the result. req leaves its wait queue; with WORKER, a worker then owns the wait
 * queue. The file's lock may be released and taken again.
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
		 * Count the request in the statistics before its completion is posted.
		 * So a test that sees the completion finds the request counted. For
		 * threads of the program, count_run() counts later.
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
 * Try req. Meanwhile it stays in the wait queue, where a thread that adds the file to
 * the epoll looks for requests.
 * Return: as uaio_req_try(); WORKER: a worker owns the wait queue now.
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
	 * If the epoll refuses the file, a worker executes the requests on it, except
	 * polls.
	 */
	if (next == UAIO_NEXT_WAIT_FILE && is_unpollable &&
	    uaio_waitq_id_of(req) != UAIO_WAITQ_POLL)
		next = UAIO_NEXT_WORKER;
	/* [step: TRIED] */
	/*
	 * With the outcome WORKER the request was not executed either, so it can be
	 * cancelled.
	 */
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
 * Return: whether to make another try in this wait queue. A multishot request completes
 * its turn (up to 33 completions) even if the run has no tries left, so that the turns
 * of all files are equally long.
 */
static bool may_try(const struct run *run)
{
	return run->budget ? !run->ends_turn : run->is_again;
}

/*
 * Try the requests of a wait queue that is not for polls, oldest first.
 * Return: false if a worker owns the wait queue now.
 */
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
 * Try each poll once, even if the run has no tries left, and move it to the end of the
 * list. So the next poll is always the first. (A pointer to another position may become
 * invalid, as other threads cancel polls.)
 */
static void run_polls_locked(struct run *run)
{
	struct list *parked = &run->waitq->parked;

	do {
		/*
		 * relaxed: `nr` changes only under the file's lock, which this thread
		 * holds
		 */
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

/*
 * Run one wait queue of run->file, unless another thread does.
 * Return: whether the wait queue must be run again.
 */
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
 * Run the wait queues that these events concern. Their watches need not go through the
 * kicked list; but a watch that is on a list already is run from there. The thread
 * holds no lock.
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

/* Run the wait queues of kicked files. Releases the lock of ready meanwhile. */
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
 * Become the thread that runs the queue's kicked files. If another thread is running
 * them, put the files of the events on the queue's list of kicked files, and set *nr to
 * 0. Returns with the lock of ready held.
 * Return: whether the caller may run the kicked files now.
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
 * A thread of the program leaves files out of the epoll when it ends its run. But a
 * sleeping thread relies on the epoll, and may have skipped files while they were
 * kicked. So add all files if such a thread sleeps.
 * relaxed: the sleeping thread set its bit, then looked under the lock, before this
 * thread released the list.
 */
static void arm_for_sleeper(struct uaio_group *group)
{
	/* [step: DRAINED_LOOK] */
	if (uaio_ready_has(&group->ready, UAIO_LEADER | UAIO_ADOPTER))
		uaio_ready_arm_beside(group);
}

/*
 * Complete the receives that the run has collected. The lock of ready is released and
 * taken again.
 * Return: whether there were any. Then more files may be kicked.
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
 * Run the wait queues of the events, then those of the kicked files. The caller has set
 * is_draining, so no other thread runs them meanwhile. The lock of ready is held; it is
 * released and taken again.
 */
static void drain_locked(struct run *run, const struct epoll_event *events,
			 int nr)
{
	struct uaio_ready *ready = &run->group->ready;
	/*
	 * The fallback thread does not try files of the list `fresh`: it adds them to
	 * the epoll.
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
	/*
	 * If a wait queue is in doubt, the epoll may not report its file. So a sleeping
	 * thread must try it again.
	 */
	if (is_left || run.has_doubts)
		uaio_waiters_pass_on(group);
	else if (is_unarmed)
		arm_for_sleeper(group);
	return is_left;
}

bool uaio_ready_run(struct uaio_group *group, enum uaio_runner by)
{
	/*
	 * relaxed: a thread that parks a request just now makes sure itself that the
	 * request is tried. A thread that sleeps next does not rely on this count.
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
