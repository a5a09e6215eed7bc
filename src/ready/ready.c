/* SPDX-License-Identifier: MIT */
#include "ready/ready.h"

#include <errno.h>
#include <linux/fs.h>
#include <poll.h>

#include "base/sleep.h"
#include "base/sys.h"
#include "proc/endable.h"
#include "file/terminal.h"
#include "req/waits.h"
#include "native/native.h"
#include "ready/lead.h"
#include "ready/readyint.h"
#include "ready/timer.h"
#include "ready/waiter.h"

#ifdef UAIO_READY_IS_MEASURED
struct uaio_ready_tuning uaio_ready_tuning;
struct uaio_ready_counters uaio_ready_counters;

static void init_measures(void)
{
	uaio_ready_tuning = (struct uaio_ready_tuning){
		.caller_runs = true,
		.delays_kick = true,
	};
	uaio_ready_counters = (struct uaio_ready_counters){ 0 };
}

void uaio_ready_tune(const struct uaio_ready_tuning *tuning)
{
	uaio_ready_tuning = *tuning;
}

void uaio_ready_count(struct uaio_ready_counters *ret)
{
	const uint64_t *from = (const uint64_t *)&uaio_ready_counters;
	uint64_t *to = (uint64_t *)ret;

	/* relaxed: the counters need not all be of the same moment */
	for (unsigned i = 0; i < sizeof(*ret) / sizeof(*to); i++)
		to[i] = load_relaxed(&from[i]);
}
#else
static void init_measures(void)
{
}
#endif

bool uaio_ready_callers_run(void)
{
	return uaio_ready_tuning.caller_runs;
}

void uaio_ready_count_sleep(void)
{
	uaio_ready_add(&uaio_ready_counters.nr_sleeps, 1);
}

void uaio_ready_init_group(struct uaio_group *group)
{
	struct uaio_ready *ready = &group->ready;

	/*
	 * Initialise under the lock: this memory may have held another queue before,
	 * and a thread that slept in that queue may be about to read the members.
	 */
	uaio_lock(&ready->lock, UAIO_RANK_READY);
	uaio_poller_init(&ready->poller);
	store_relaxed(&ready->home, group);
	store_relaxed(&ready->nr_parked, 0);
	store_relaxed(&ready->nr_pins, 0);
	store_relaxed(&ready->nr_attended, 0);
	store_relaxed(&ready->keepers, 0);
	store_relaxed(&ready->nr_waiters, 0);
	store_relaxed(&ready->is_closing, 0);
	store_relaxed(&ready->nr_parks, 0);
	store_relaxed(&ready->has_kicked, 0);
	store_relaxed(&ready->has_personal, 0);
	store_relaxed(&ready->is_deceived, 0);
	store_relaxed(&ready->attender, NULL);
	store_relaxed(&group->native, NULL);
	list_init(&ready->watches);
	list_init(&ready->kicked);
	list_init(&ready->fresh);
	list_init(&ready->unarmed);
	list_init(&ready->refused);
	list_init(&ready->personal);
	list_init(&ready->in_listed);
	list_init(&ready->in_adopted);
	uaio_timers_init_home(ready);
	ready->nr_served = 0;
	ready->is_urgent = false;
	ready->seen_attended = ready->seen_parks = 0;
	ready->nr_idle_looks = 0;
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
}

static void await_pins(struct uaio_ready *ready)
{
	enum { SOON_NS = 50000 };
	uint32_t nr;

	/*
	 * [MB:pin] [step: AWAIT_PINS] acquire: threads that have unpinned the queue no
	 * longer use it. Pairs with uaio_ready_unpin().
	 */
	while ((nr = load_acquire(&ready->nr_pins)))
		/*
		 * Pins are held only briefly, so this thread rarely waits here.
		 * Therefore a thread that unpins the queue wakes no other thread, and
		 * the waiting thread checks again after SOON_NS.
		 */
		(void)uaio_sleep(&ready->nr_pins, nr, uaio_now_ns() + SOON_NS);
}

void uaio_ready_fini_group(struct uaio_group *group)
{
	uaio_native_leave(group);
	await_pins(&group->ready);
	uaio_fallback_forget(group);
	uaio_native_put(group);
	uaio_watches_leave(group);
	uaio_poller_fini(&group->ready.poller);
}

static inline uint32_t events_of(const struct uaio_req *req,
				 enum uaio_waitq_id id)
{
	const uint32_t any = POLLIN | POLLPRI | POLLOUT | POLLRDNORM |
			     POLLRDBAND | POLLWRNORM | POLLWRBAND | POLLRDHUP;

	switch (id) {
	case UAIO_WAITQ_POLL: return (uint32_t)req->sqe.events & any;
	case UAIO_WAITQ_WRITE: return EPOLLOUT;
	case UAIO_WAITQ_ERRORS: return EPOLLERR;
	default: return EPOLLIN;
	}
}

uint32_t uaio_ready_events_of(const struct uaio_req *req)
{
	return events_of(req, uaio_waitq_id_of(req));
}

/*
 * Parking
 */

/*
 * Choose the home of group: the queue itself, or the commons.
 * Return: the home; NULL if the fallback thread cannot be started. Then no request may
 * be parked, as perhaps no thread would serve it.
 */
static struct uaio_group *settle(struct uaio_group *group)
{
	if (uaio_fallback_start() < 0)
		return NULL;
	uaio_commons_settle(group);
	return uaio_ready_home(&group->ready);
}

/*
 * No thread serves the home yet: put the home on the fallback thread's list. noinline,
 * as this is rare.
 */
static __attribute__((noinline)) int list_home(struct uaio_group *home)
{
	int ret = uaio_fallback_list(home);

	if (ret < 0)
		sub_relaxed(&home->ready.nr_parked, 1);
	return ret;
}

static inline int expect_at(struct uaio_group *home)
{
	struct uaio_ready *ready = &home->ready;

	/*
	 * [MB:parked] [step: EXPECT] seq_cst: counts the request, then reads whether a
	 * thread serves the home. Pairs with the fallback thread, and with a thread
	 * that stops leading.
	 */
	add_seq_cst(&ready->nr_parked, 1);
	if (likely(load_seq_cst(&ready->keepers) & (UAIO_LIST | UAIO_ADOPTER)))
		return 0;
	return list_home(home);
}

static __attribute__((noinline)) int settle_and_expect(struct uaio_group *group)
{
	struct uaio_group *home = settle(group);

	return home ? expect_at(home) : -EAGAIN;
}

int uaio_ready_expect(struct uaio_group *group)
{
	struct uaio_group *home = uaio_ready_home(&group->ready);

	return likely(uaio_poller_is_open(&home->ready.poller))
		       ? expect_at(home)
		       : settle_and_expect(group);
}

int uaio_ready_expect_req(struct uaio_req *req)
{
	if (uaio_ready_expect(req->group) < 0)
		return -EAGAIN;
	if (!req->file)
		return 0;
	req->watch = uaio_watch_get(req->group, req->file);
	if (req->watch)
		return 0;
	uaio_ready_unexpect(req->group);
	return -EAGAIN;
}

void uaio_ready_unexpect(struct uaio_group *group)
{
	sub_relaxed(&uaio_ready_home(&group->ready)->ready.nr_parked, 1);
}

/*
 * Return: whether to try the wait queue's requests before a thread sleeps, although the
 * epoll has the file. As long as such tries succeed, all of them are made. Otherwise
 * only one in RETRY_EVERY is made, to find out whether tries succeed again.
 */
static bool pays_to_retry(struct uaio_waitq *waitq)
{
	enum { RETRY_EVERY = 16 };

	return waitq->retry_pays || ++waitq->nr_unretried % RETRY_EVERY == 0;
}

/*
 * Return: whether a read may complete without any byte, although the file never becomes
 * ready (terminals, VTIME). Neither poll() nor an epoll reports that.
 */
static bool ends_unready_locked(const struct uaio_file *file,
				enum uaio_waitq_id id)
{
	return id == UAIO_WAITQ_READ &&
	       uaio_terminal_read_ends(file, load_relaxed(&file->fd));
}

/*
 * req has been parked: decide what must happen to its wait queue. It must be run now
 * (kick it), or be looked at before any thread sleeps (its watch becomes fresh), or
 * neither. was_idle: the wait queue had no other request, and no thread ran it.
 */
static void note_parked_locked(struct uaio_req *req, enum uaio_waitq_id id,
			       bool was_idle)
{
	struct uaio_watch *watch = req->watch;
	struct uaio_file *file = req->file;
	struct uaio_waitq *waitq = &file->waitqs[id];
	uint32_t events = events_of(req, id);
	bool is_armed = uaio_watch_tells_locked(watch, events);
	/*
	 * relaxed: nr_edges changes only under the file's lock, which this thread holds
	 */
	bool was_tried = req->edges == load_relaxed(&file->nr_edges);
	/*
	 * The request may fail, or may succeed although the file is not ready. The
	 * epoll reports neither, so a thread must try the request.
	 */
	bool is_untried = !was_tried && (is_armed || req->sqe.is_async);

	/*
	 * Nothing to do: the thread that tries the older requests of the wait queue
	 * then tries this request, too.
	 */
	if (!was_idle && id != UAIO_WAITQ_POLL && is_armed)
		return;
	/*
	 * A multishot request that was not tried is kicked: as in the kernel, multishot
	 * requests begin in the order of submission.
	 */
	if (file->is_unpollable || (req->sqe.is_multishot && !was_tried) ||
	    (is_armed && !was_tried && !waitq->retry_pays) ||
	    (was_tried && uaio_watch_may_not_tell_locked(req) &&
	     uaio_ready_is_doubtful(req, load_relaxed(&file->fd))) ||
	    (was_idle && ends_unready_locked(file, id)))
		uaio_watch_kick(watch, 1u << id, is_armed);
	else if (!is_armed || !was_tried || pays_to_retry(waitq))
		uaio_watch_freshen(watch, 1u << id, is_untried);
}

/*
 * Store the events that a poll awaits, before the poll is parked. A thread that adds
 * the file to the epoll reads these events from file->polled. So it need not go through
 * all polls of the file, which may be thousands.
 */
static void note_polled_locked(struct uaio_req *req,
			       const struct uaio_waitq *waitq)
{
	struct uaio_file *file = req->file;

	if (list_is_empty(&waitq->parked))
		file->polled = 0;
	file->polled |= events_of(req, UAIO_WAITQ_POLL);
}

bool uaio_ready_park(struct uaio_req *req, enum uaio_req_state from)
{
	struct uaio_group *group = req->group;
	struct uaio_group *home = uaio_ready_home(&group->ready);
	struct uaio_file *file = req->file;
	enum uaio_waitq_id id = uaio_waitq_id_of(req);
	struct uaio_waitq *waitq;
	bool was_idle, parks, is_first_to_end = false;

	if (unlikely(!file))
		return uaio_timer_park(req, from);
	waitq = &file->waitqs[id];
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	/*
	 * [MB:closing] [step: PARK_STATE] seq_cst: writes the state, then reads
	 * is_closing. Pairs with close_group().
	 */
	uaio_req_move_seq_cst(req, from, UAIO_REQ_PARKED);
	/* [step: PARK] */
	parks = !load_seq_cst(&group->ready.is_closing);
	/*
	 * [MB:unwanted] seq_cst: writes the state, then reads is_unwanted. Pairs with
	 * cancel.c.
	 */
	if (unlikely(load_seq_cst(&req->is_unwanted)))
		parks = false;
	if (parks) {
		if (id == UAIO_WAITQ_POLL)
			note_polled_locked(req, waitq);
		was_idle = list_is_empty(&waitq->parked) && !waitq->is_running;
		list_add_tail(&waitq->parked, &req->link);
		/* relaxed: submitters read `nr` without the lock, as a hint */
		store_relaxed(&waitq->nr, load_relaxed(&waitq->nr) + 1);
		if (unlikely(req->sqe.is_multishot) && id == UAIO_WAITQ_POLL)
			uaio_watch_arm_anew_locked(req);
		else
			note_parked_locked(req, id, was_idle);
		is_first_to_end = uaio_timer_add_locked(req);
	} else {
		uaio_req_move(req, UAIO_REQ_PARKED, from);
	}
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	if (!parks) {
		uaio_ready_unexpect(group);
		return false;
	}
	/* relaxed: the fallback thread only checks whether the number has changed */
	store_relaxed(&home->ready.nr_parks,
		      load_relaxed(&home->ready.nr_parks) + 1);
	uaio_ready_add(&uaio_ready_counters.nr_parked, 1);
	if (unlikely(is_first_to_end))
		uaio_timer_tell_sleeper(home);
	return true;
}

void uaio_waitq_kick_locked(struct uaio_file *file, enum uaio_waitq_id id,
			    const struct uaio_group *runs)
{
	const struct list *parked = &file->waitqs[id].parked;
	struct uaio_group *home;
	struct uaio_req *first;

	if (list_is_empty(parked))
		return;
	first = container_of(parked->next, struct uaio_req, link);
	home = uaio_ready_home(&first->group->ready);
	uaio_watch_kick(first->watch, 1u << id, false);
	/*
	 * A thread that sleeps in the epoll of `home` may miss this wait queue: if an
	 * edge woke it while this thread was running the wait queue, it skipped the
	 * wait queue. So the fallback thread must run it.
	 */
	if (home != runs)
		uaio_fallback_nudge(home);
}

bool uaio_ready_is_armed(struct uaio_ready *ready)
{
	bool all;

	uaio_lock(&ready->lock, UAIO_RANK_READY);
	/* [step: IS_ARMED] */
	all = list_is_empty(&ready->refused) && list_is_empty(&ready->fresh) &&
	      list_is_empty(&ready->unarmed);
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
	return all;
}

bool uaio_ready_is_at_rest(struct uaio_ready *ready)
{
	bool is_so;

	uaio_lock(&ready->lock, UAIO_RANK_READY);
	is_so = list_is_empty(&ready->kicked) &&
		list_is_empty(&ready->refused) &&
		list_is_empty(&ready->fresh) && list_is_empty(&ready->unarmed);
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
	/*
	 * relaxed: if this thread has made a watch of a file that may be ready for one
	 * thread only (UAIO_FILE_F_PERSONAL), it sees has_personal set
	 */
	return is_so && !load_relaxed(&ready->has_personal);
}

bool uaio_ready_has_kicked(struct uaio_ready *ready)
{
	bool has;

	uaio_lock(&ready->lock, UAIO_RANK_READY);
	/*
	 * A thread that is running the kicked files checks the list again before it
	 * stops. So no other thread need run them.
	 */
	has = !list_is_empty(&ready->kicked) && !ready->is_draining;
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
	return has;
}

void uaio_ready_arm_beside(struct uaio_group *group)
{
	if (!uaio_ready_arm(group))
		/*
		 * The epoll refuses some files, or they are in doubt: a thread must try
		 * them at intervals.
		 */
		uaio_fallback_nudge(group);
	if (uaio_ready_has_kicked(&group->ready))
		uaio_waiters_pass_on(group);
}

static inline __attribute__((always_inline)) void
announce(struct uaio_group *group)
{
	struct uaio_group *home = uaio_ready_home(&group->ready);
	struct uaio_ready *ready = &home->ready;
	bool is_watched;

	/*
	 * [MB:led] [step: SUBMITTED_LOOK] seq_cst: parks, then reads which threads
	 * sleep. Pairs with threads that are about to sleep: lead.c, waiter.c,
	 * fallback.c.
	 */
	is_watched =
		load_seq_cst(&ready->keepers) & (UAIO_LEADER | UAIO_ADOPTER);
	if (is_watched)
		uaio_ready_arm_beside(home);
	else if (load_seq_cst(&ready->nr_waiters))
		uaio_waiters_pass_on(home);
	else if (!uaio_ready_tuning.delays_kick || uaio_is_commons(home))
		/*
		 * Let the fallback thread serve the request at once, because tests have
		 * cleared delays_kick, or because no thread of the program serves the
		 * commons.
		 */
		uaio_fallback_nudge(home);
}

void uaio_ready_submitted(struct uaio_group *group, bool has_multishot)
{
	struct uaio_group *home = uaio_ready_home(&group->ready);

	uaio_lead_forget();
	/*
	 * relaxed: this thread at least sees has_kicked set for the files that it has
	 * kicked itself
	 */
	if (unlikely(has_multishot))
		(void)uaio_ready_look(home, UAIO_RUN_BY_CALLER);
	else if (uaio_ready_tuning.caller_runs &&
		 load_relaxed(&home->ready.has_kicked))
		(void)uaio_ready_run(home, UAIO_RUN_BY_CALLER);
	announce(group);
}

void uaio_ready_native_submitted(struct uaio_group *group, bool by_worker)
{
	struct uaio_ready *ready = &group->ready;

	uaio_lead_forget();
	/*
	 * [MB:led] seq_cst: counts the requests, then reads which threads sleep, as in
	 * announce(). The kernel signals its completions by an eventfd in the epoll
	 * (native.h), which wakes a thread that sleeps there.
	 * [MB:native-by-worker] seq_cst: a worker counts its request, then reads whether
	 * the queue is adopted. Pairs with leave_to_callers().
	 */
	if (load_seq_cst(&ready->keepers) & (UAIO_LEADER | UAIO_ADOPTER))
		return;
	if (load_seq_cst(&ready->nr_waiters))
		uaio_waiters_pass_on(group);
	else if (by_worker || !uaio_ready_tuning.delays_kick)
		uaio_fallback_nudge(group);
}

void uaio_ready_announce(struct uaio_group *group)
{
	announce(group);
}

/* Cancelling requests, and closing a queue */

static void close_group(struct uaio_group *group)
{
	/*
	 * [MB:closing] seq_cst: writes is_closing; the caller reads the states next.
	 * Pairs with uaio_ready_park().
	 */
	store_seq_cst(&group->ready.is_closing, 1);
}

static enum uaio_cancel cancel(struct uaio_req *req,
			       struct uaio_canceller *canceller,
			       struct list *ret_startable)
{
	enum uaio_waitq_id id = uaio_waitq_id_of(req);
	struct uaio_file *file = req->file;
	struct uaio_waitq *waitq = &file->waitqs[id];
	enum uaio_cancel ret;
	bool was_first;

	(void)ret_startable;
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	/* [step: CANCEL] */
	ret = uaio_try_cancel_locked(req, UAIO_REQ_PARKED, canceller);
	if (ret == UAIO_CANCEL_TAKEN) {
		was_first = waitq->parked.next == &req->link;
		list_remove(&req->link);
		uaio_timer_remove_locked(req);
		uaio_waitq_count_out(waitq, req);
		/*
		 * No thread has tried the next request of the wait queue yet. It may
		 * need less data (or space) than the cancelled request, and succeed. So
		 * let a thread try it.
		 */
		if (was_first && id != UAIO_WAITQ_POLL && !waitq->is_running)
			uaio_waitq_kick_locked(file, id, NULL);
	}
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	return ret;
}

void uaio_ready_init(void)
{
	static const struct uaio_wait_ops parked = {
		.cancel = cancel,
		.close_group = close_group,
	};
	static const struct uaio_wait_ops timed = {
		.cancel = uaio_timer_cancel,
		.close_group = close_group,
	};

	init_measures();
	uaio_pollers_init();
	uaio_endables_init();
	uaio_natives_init();
	uaio_watches_init();
	uaio_fallback_init();
	uaio_commons_init();
	uaio_waits_register(UAIO_REQ_PARKED, &parked);
	uaio_waits_register(UAIO_REQ_TIMED, &timed);
}
