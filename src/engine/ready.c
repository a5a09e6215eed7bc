/* SPDX-License-Identifier: MIT */
#include "engine/ready.h"

#include <errno.h>
#include <linux/fs.h>
#include <poll.h>

#include "base/sys.h"
#include "file/terminal.h"
#include "engine/lead.h"
#include "engine/readyint.h"
#include "engine/timed.h"
#include "engine/wait.h"
#include "engine/waits.h"

struct uaio_ready_tuning uaio_ready_tuning;
struct uaio_ready_counters uaio_ready_counters;

void uaio_ready_tune(const struct uaio_ready_tuning *tuning)
{
	uaio_ready_tuning = *tuning;
}

bool uaio_ready_callers_run(void)
{
	return uaio_ready_tuning.caller_runs;
}

void uaio_ready_count(struct uaio_ready_counters *ret)
{
	const uint64_t *from = (const uint64_t *)&uaio_ready_counters;
	uint64_t *to = (uint64_t *)ret;

	/* relaxed: a snapshot of each */
	for (unsigned i = 0; i < sizeof(*ret) / sizeof(*to); i++)
		to[i] = load_relaxed(&from[i]);
}

void uaio_ready_count_sleep(void)
{
	uaio_ready_add(&uaio_ready_counters.nr_sleeps, 1);
}

void uaio_ready_init_group(struct uaio_group *group)
{
	struct uaio_ready *ready = &group->ready;

	/* One who slept for the life before may be about to look. */
	uaio_lock(&ready->lock, UAIO_RANK_READY);
	uaio_poller_init(&ready->poller);
	store_relaxed(&ready->home, group);
	store_relaxed(&ready->nr_parked, 0);
	store_relaxed(&ready->nr_pins, 0);
	store_relaxed(&ready->nr_attended, 0);
	store_relaxed(&ready->is_led, 0);
	store_relaxed(&ready->nr_waiters, 0);
	store_relaxed(&ready->is_listed, 0);
	store_relaxed(&ready->is_adopted, 0);
	store_relaxed(&ready->is_closing, 0);
	store_relaxed(&ready->nr_parks, 0);
	store_relaxed(&ready->has_kicked, 0);
	store_relaxed(&ready->has_personal, 0);
	list_init(&ready->watches);
	list_init(&ready->kicked);
	list_init(&ready->fresh);
	list_init(&ready->unarmed);
	list_init(&ready->refused);
	list_init(&ready->personal);
	list_init(&ready->in_listed);
	list_init(&ready->in_adopted);
	ready->nr_served = 0;
	ready->is_urgent = false;
	ready->seen_attended = ready->seen_parks = 0;
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
}

static void await_pins(struct uaio_ready *ready)
{
	enum { SOON_NS = 50000 };
	uint32_t nr;

	/* [MB:pin] acquire: pairs with uaio_ready_unpin(). */
	while ((nr = load_acquire(&ready->nr_pins)))
		/* Rare, and soon over: nobody is asked to wake us. */
		(void)uaio_sleep(&ready->nr_pins, nr, uaio_now_ns() + SOON_NS);
}

void uaio_ready_fini_group(struct uaio_group *group)
{
	await_pins(&group->ready);
	uaio_standby_forget(group);
	uaio_watches_leave(group);
	uaio_poller_fini(&group->ready.poller);
}

uint32_t uaio_ready_events_of(const struct uaio_req *req)
{
	const uint32_t any = POLLIN | POLLPRI | POLLOUT | POLLRDNORM |
			     POLLRDBAND | POLLWRNORM | POLLWRBAND | POLLRDHUP;

	switch (uaio_lane_id_of(req)) {
	case UAIO_LANE_POLL: return (uint32_t)req->sqe.events & any;
	case UAIO_LANE_WRITE: return EPOLLOUT;
	default: return EPOLLIN;
	}
}

/*
 * Parking
 */

/* Return: the home of group, which is settled; or NULL: nobody would look. */
static struct uaio_group *settle(struct uaio_group *group)
{
	if (uaio_standby_start() < 0)
		return NULL;
	uaio_commons_settle(group);
	return uaio_ready_home(&group->ready);
}

int uaio_ready_expect(struct uaio_group *group)
{
	struct uaio_group *home = uaio_ready_home(&group->ready);
	struct uaio_ready *ready;
	int ret;

	if (unlikely(!uaio_poller_is_open(&home->ready.poller)) &&
	    !(home = settle(group)))
		return -EAGAIN;
	ready = &home->ready;
	/*
	 * [MB:parked] seq_cst: counted, then looked whether somebody looks after
	 * us. Pairs with the standby thread and who stops leading.
	 */
	add_seq_cst(&ready->nr_parked, 1);
	if (likely(load_seq_cst(&ready->is_listed) ||
		   load_seq_cst(&ready->is_adopted)))
		return 0;
	ret = uaio_standby_list(home);
	if (ret < 0)
		uaio_ready_unexpect(group);
	return ret;
}

void uaio_ready_unexpect(struct uaio_group *group)
{
	sub_relaxed(&uaio_ready_home(&group->ready)->ready.nr_parked, 1);
}

/* Told when it is ready, it is tried before only if that pays, or may again. */
static bool pays_to_retry(struct uaio_lane *lane)
{
	enum { RETRY_EVERY = 16 };

	return lane->retry_pays || ++lane->nr_unretried % RETRY_EVERY == 0;
}

/*
 * A read of a terminal may end by itself, without a byte, and neither poll() nor
 * the epoll ever says so: who only arms it would wait for ever.
 */
static bool ends_unready_locked(const struct uaio_file *file,
				enum uaio_lane_id id)
{
	return id == UAIO_LANE_READ &&
	       uaio_terminal_read_ends(file, load_relaxed(&file->fd));
}

/* What has to be run now, or looked at before anybody sleeps. */
static void note_parked_locked(struct uaio_req *req, bool was_idle)
{
	struct uaio_watch *watch = req->watch;
	struct uaio_file *file = req->file;
	enum uaio_lane_id id = uaio_lane_id_of(req);
	struct uaio_lane *lane = &file->lanes[id];
	uint32_t events = uaio_ready_events_of(req);
	bool is_armed = uaio_watch_tells_locked(watch, events);
	/* relaxed: changed under the lock */
	bool was_tried = req->edges == load_relaxed(&file->nr_edges);

	/* What is behind others waits for them. */
	if (!was_idle && id != UAIO_LANE_POLL && is_armed)
		return;
	if (file->is_unpollable ||
	    (is_armed && !was_tried && !lane->retry_pays) ||
	    (was_tried && uaio_watch_may_not_tell_locked(req) &&
	     uaio_ready_is_doubtful(req, load_relaxed(&file->fd))) ||
	    (was_idle && ends_unready_locked(file, id)))
		uaio_watch_kick(watch, 1u << id, is_armed);
	else if (!is_armed || !was_tried || pays_to_retry(lane))
		uaio_watch_freshen(watch, 1u << id, is_armed && !was_tried);
}

bool uaio_ready_park(struct uaio_req *req)
{
	struct uaio_lane *lane = &req->file->lanes[uaio_lane_id_of(req)];
	struct uaio_group *group = req->group;
	struct uaio_group *home = uaio_ready_home(&group->ready);
	struct uaio_file *file = req->file;
	bool was_idle, parks, is_first_to_end = false;

	uaio_lock(&file->lock, UAIO_RANK_FILE);
	/*
	 * [MB:closing] seq_cst: parked, then looked. Pairs with
	 * close_group().
	 */
	uaio_req_move_seq_cst(req, UAIO_REQ_PREPPED, UAIO_REQ_PARKED);
	parks = !load_seq_cst(&group->ready.is_closing);
	if (parks) {
		was_idle = list_is_empty(&lane->parked) && !lane->is_running;
		list_add_tail(&lane->parked, &req->link);
		/* relaxed: submitters peek at their own file's */
		store_relaxed(&lane->nr, load_relaxed(&lane->nr) + 1);
		note_parked_locked(req, was_idle);
		is_first_to_end = uaio_timed_add_locked(req);
	} else {
		uaio_req_move(req, UAIO_REQ_PARKED, UAIO_REQ_PREPPED);
	}
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	if (!parks) {
		uaio_ready_unexpect(group);
		return false;
	}
	/* relaxed: that it changes is enough */
	store_relaxed(&home->ready.nr_parks,
		      load_relaxed(&home->ready.nr_parks) + 1);
	uaio_ready_add(&uaio_ready_counters.nr_parked, 1);
	if (unlikely(is_first_to_end))
		uaio_standby_nudge(home);
	return true;
}

void uaio_lane_kick_locked(struct uaio_file *file, enum uaio_lane_id id,
			   const struct uaio_group *runs)
{
	const struct list *parked = &file->lanes[id].parked;
	struct uaio_group *home;
	struct uaio_req *first;

	if (list_is_empty(parked))
		return;
	first = container_of(parked->next, struct uaio_req, link);
	home = uaio_ready_home(&first->group->ready);
	uaio_watch_kick(first->watch, 1u << id, false);
	/* Who sleeps there may have been told, and have left it to us. */
	if (home != runs)
		uaio_standby_nudge(home);
}

bool uaio_ready_is_armed(struct uaio_ready *ready)
{
	bool all;

	uaio_lock(&ready->lock, UAIO_RANK_READY);
	all = list_is_empty(&ready->refused) && list_is_empty(&ready->fresh) &&
	      list_is_empty(&ready->unarmed);
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
	return all;
}

bool uaio_ready_has_kicked(struct uaio_ready *ready)
{
	bool has;

	uaio_lock(&ready->lock, UAIO_RANK_READY);
	/* Who drains looks again before he lets go. */
	has = !list_is_empty(&ready->kicked) && !ready->is_draining;
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
	return has;
}

void uaio_ready_submitted(struct uaio_group *group)
{
	struct uaio_group *home = uaio_ready_home(&group->ready);
	struct uaio_ready *ready = &home->ready;
	bool is_watched;

	uaio_lead_forget();
	/* relaxed: what we have kicked is seen */
	if (uaio_ready_tuning.caller_runs && load_relaxed(&ready->has_kicked))
		(void)uaio_ready_run(home, UAIO_RUN_BY_CALLER);
	/*
	 * [MB:led] seq_cst: parked, then looked who sleeps. Pairs with who is
	 * about to: lead.c, wait.c, standby.c.
	 */
	is_watched = load_seq_cst(&ready->is_led) ||
		     load_seq_cst(&ready->is_adopted);
	if (is_watched && !uaio_ready_arm(home))
		/* Some can only be asked now and then. */
		uaio_standby_nudge(home);
	if (is_watched && uaio_ready_has_kicked(ready))
		uaio_waiters_pass_on(home);
	else if (!is_watched && load_seq_cst(&ready->nr_waiters))
		uaio_waiters_pass_on(home);
	else if (!is_watched &&
		 (!uaio_ready_tuning.delays_kick || uaio_is_commons(home)))
		/* Nobody comes before the standby thread. */
		uaio_standby_nudge(home);
}

/*
 * Taking out
 */

static void close_group(struct uaio_group *group)
{
	/*
	 * [MB:closing] seq_cst: closed; the caller looks at states next. Pairs
	 * with uaio_ready_park().
	 */
	store_seq_cst(&group->ready.is_closing, 1);
}

static enum uaio_cancel cancel(struct uaio_req *req,
			       struct uaio_canceller *canceller,
			       struct list *ret_startable)
{
	enum uaio_lane_id id = uaio_lane_id_of(req);
	struct uaio_file *file = req->file;
	struct uaio_lane *lane = &file->lanes[id];
	enum uaio_cancel ret;
	bool was_first;

	(void)ret_startable;
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	ret = uaio_try_cancel_locked(req, UAIO_REQ_PARKED, canceller);
	if (ret == UAIO_CANCEL_TAKEN) {
		was_first = lane->parked.next == &req->link;
		list_remove(&req->link);
		uaio_timed_remove_locked(req);
		uaio_lane_count_out(lane, req);
		/* The next may need less, and has not been tried. */
		if (was_first && id != UAIO_LANE_POLL && !lane->is_running)
			uaio_lane_kick_locked(file, id, NULL);
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

	uaio_ready_tuning = (struct uaio_ready_tuning){
		.caller_runs = true,
		.delays_kick = true,
	};
	uaio_ready_counters = (struct uaio_ready_counters){ 0 };
	uaio_pollers_init();
	uaio_watches_init();
	uaio_timed_init();
	uaio_standby_init();
	uaio_commons_init();
	uaio_waits_register(UAIO_REQ_PARKED, &parked);
}
