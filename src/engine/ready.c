/* SPDX-License-Identifier: MIT */
#include "engine/ready.h"

#include <errno.h>
#include <linux/fs.h>
#include <poll.h>

#include "base/sys.h"
#include "engine/ctx.h"
#include "engine/lead.h"
#include "engine/readyint.h"
#include "engine/wait.h"

enum {
	/* Tries of one run: others are to have their turn, deadlines as well. */
	RUN_TRIES = 64,
	/* Of those parked since anybody looked so many are tried, newest first. */
	FRESH_TRIES = 16,
};

struct uaio_ready_tuning uaio_ready_tuning;
struct uaio_ready_counters uaio_ready_counters;

/*
 * The gate: who tries is inside, who holds it keeps everybody out. Who enters
 * writes nr_inside and looks at is_held, who holds does the reverse.
 */
static struct {
	struct uaio_lock lock; /* rank TRYING: held by who holds the gate */
	uint32_t nr_inside;    /* atomic */
	uint32_t is_held;      /* atomic */
} gate;

void uaio_ready_init(void)
{
	gate.lock = (struct uaio_lock){ 0 };
	store_relaxed(&gate.nr_inside, 0);
	store_relaxed(&gate.is_held, 0);
	uaio_ready_tuning = (struct uaio_ready_tuning){
		.caller_runs = true,
		.delays_kick = true,
	};
	uaio_ready_counters = (struct uaio_ready_counters){ 0 };
	uaio_pollers_init();
	uaio_watches_init();
	uaio_standby_init();
}

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
	store_relaxed(&ready->nr_parked, 0);
	store_relaxed(&ready->nr_pins, 0);
	store_relaxed(&ready->nr_attended, 0);
	store_relaxed(&ready->is_led, 0);
	store_relaxed(&ready->nr_waiters, 0);
	store_relaxed(&ready->is_listed, 0);
	store_relaxed(&ready->is_adopted, 0);
	store_relaxed(&ready->is_closing, 0);
	store_relaxed(&ready->nr_parks, 0);
	list_init(&ready->watches);
	list_init(&ready->kicked);
	list_init(&ready->fresh);
	list_init(&ready->unarmed);
	list_init(&ready->refused);
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

/*
 * The gate
 */

static void leave_gate(void)
{
	/* [MB:gate] seq_cst: count, then look. Pairs with uaio_ready_hold(). */
	if (sub_seq_cst(&gate.nr_inside, 1) == 1 && load_seq_cst(&gate.is_held))
		uaio_wake(&gate.nr_inside, 1);
}

static void enter_gate(void)
{
	for (;;) {
		/* [MB:gate] seq_cst: as in leave_gate(). */
		add_seq_cst(&gate.nr_inside, 1);
		if (likely(!load_seq_cst(&gate.is_held)))
			return;
		leave_gate();
		(void)uaio_sleep(&gate.is_held, 1, UAIO_FOREVER);
	}
}

void uaio_ready_hold(void)
{
	uint32_t nr;

	uaio_lock(&gate.lock, UAIO_RANK_TRYING);
	/* [MB:gate] seq_cst: shut, then count. Pairs with enter_gate(). */
	store_seq_cst(&gate.is_held, 1);
	while ((nr = load_seq_cst(&gate.nr_inside)))
		(void)uaio_sleep(&gate.nr_inside, nr, UAIO_FOREVER);
}

void uaio_ready_release(void)
{
	/* [MB:gate] seq_cst: what was done is done. Pairs with enter_gate(). */
	store_seq_cst(&gate.is_held, 0);
	uaio_unlock(&gate.lock, UAIO_RANK_TRYING);
	uaio_wake(&gate.is_held, INT32_MAX);
}

/*
 * Parking
 */

int uaio_ready_expect(struct uaio_group *group)
{
	struct uaio_ready *ready = &group->ready;
	int ret;

	/*
	 * [MB:parked] seq_cst: counted, then looked whether somebody looks after
	 * us. Pairs with the standby thread and who stops leading.
	 */
	add_seq_cst(&ready->nr_parked, 1);
	if (likely(load_seq_cst(&ready->is_listed) ||
		   load_seq_cst(&ready->is_adopted)))
		return 0;
	ret = uaio_standby_list(group);
	if (ret < 0)
		uaio_ready_unexpect(group);
	return ret;
}

void uaio_ready_unexpect(struct uaio_group *group)
{
	sub_relaxed(&group->ready.nr_parked, 1);
}

/* What has to be run now, or looked at before anybody sleeps. */
static void note_parked_locked(struct uaio_req *req, bool was_idle)
{
	struct uaio_watch *watch = req->watch;
	struct uaio_file *file = req->file;
	enum uaio_lane_id id = uaio_lane_id_of(req);
	uint32_t events = uaio_ready_events_of(req);
	bool is_armed = (watch->armed & events) == events && watch->armed;
	/* relaxed: changed under the lock */
	bool was_tried = req->edges == load_relaxed(&file->nr_edges);

	/* What is behind others waits for them. */
	if (!was_idle && id != UAIO_LANE_POLL && is_armed)
		return;
	if (file->is_unpollable || (is_armed && !was_tried) || !req->edges)
		uaio_watch_kick(watch, 1u << id, is_armed);
	else
		uaio_watch_freshen(watch, 1u << id);
}

bool uaio_ready_park(struct uaio_req *req)
{
	struct uaio_lane *lane = &req->file->lanes[uaio_lane_id_of(req)];
	struct uaio_ready *ready = &req->group->ready;
	struct uaio_file *file = req->file;
	bool was_idle, parks;

	uaio_lock(&file->lock, UAIO_RANK_FILE);
	/*
	 * [MB:closing] seq_cst: parked, then looked. Pairs with
	 * uaio_ready_close_group().
	 */
	uaio_req_move_seq_cst(req, UAIO_REQ_PREPPED, UAIO_REQ_PARKED);
	parks = !load_seq_cst(&ready->is_closing);
	if (parks) {
		was_idle = list_is_empty(&lane->parked) && !lane->is_running;
		list_add_tail(&lane->parked, &req->link);
		/* relaxed: submitters peek at their own file's */
		store_relaxed(&lane->nr, load_relaxed(&lane->nr) + 1);
		note_parked_locked(req, was_idle);
	} else {
		uaio_req_move(req, UAIO_REQ_PARKED, UAIO_REQ_PREPPED);
	}
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	if (!parks) {
		uaio_ready_unexpect(req->group);
		return false;
	}
	add_relaxed(&ready->nr_parks, 1);
	uaio_ready_add(&uaio_ready_counters.nr_parked, 1);
	return true;
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
	struct uaio_ready *ready = &group->ready;
	bool is_watched;

	uaio_lead_forget();
	if (uaio_ready_tuning.caller_runs && uaio_ready_has_kicked(ready))
		(void)uaio_ready_run(group, UAIO_RUN_BY_CALLER);
	/*
	 * [MB:led] seq_cst: parked, then looked who sleeps. Pairs with who is
	 * about to: wait.c, standby.c.
	 */
	is_watched = load_seq_cst(&ready->is_led) ||
		     load_seq_cst(&ready->is_adopted);
	if (is_watched && !uaio_ready_arm(group))
		/* Some can only be asked now and then. */
		uaio_standby_nudge(group);
	if (is_watched && uaio_ready_has_kicked(ready))
		uaio_waiters_pass_on(group);
	else if (!is_watched && load_seq_cst(&ready->nr_waiters))
		uaio_waiters_pass_on(group);
	else if (!is_watched && !uaio_ready_tuning.delays_kick)
		uaio_standby_nudge(group);
}

/*
 * Running
 */

/* One that is neither parked nor being tried any more. */
static void count_out(struct uaio_lane *lane, struct uaio_req *req)
{
	/* relaxed, both: submitters peek; others look after locks */
	store_relaxed(&lane->nr, load_relaxed(&lane->nr) - 1);
	sub_relaxed(&req->group->ready.nr_parked, 1);
}

/* For files that know no call that does not block: is it worth one? */
static bool is_ready_now(const struct uaio_req *req, int fd)
{
	static const struct timespec zero;
	struct pollfd slot = {
		.fd = fd,
		.events = (short)uaio_ready_events_of(req),
	};

	/* Nobody can tell under a limit of no descriptors. */
	return sys_ppoll(&slot, 1, &zero, NULL, 0) != 0;
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

	uaio_ready_add(&uaio_ready_counters.nr_tries, 1);
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
	struct uaio_req *next = NULL;

	uaio_lock(&file->lock, UAIO_RANK_FILE);
	count_out(lane, req);
	lane->is_running = false;
	if (!list_is_empty(&lane->parked)) {
		next = container_of(lane->parked.next, struct uaio_req, link);
		uaio_watch_kick(next->watch, 1u << id, false);
		uaio_standby_nudge(next->group);
	}
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
}

static void complete(struct uaio_req *req, int64_t res, enum uaio_runner by)
{
	uaio_ready_add(by == UAIO_RUN_BY_STANDBY
			       ? &uaio_ready_counters.nr_by_standby
			       : &uaio_ready_counters.nr_by_caller,
		       1);
	uaio_req_complete(req, res);
}

/* A pass over one lane, which is ours (is_running). */
struct run {
	struct uaio_file *file;
	struct uaio_lane *lane;
	enum uaio_runner by;
	unsigned *budget;
	unsigned nr_done;
};

enum outcome { IS_DONE, WAITS_ON, LANE_IS_LEFT };

/*
 * Try req, which stays in the lane meanwhile: who arms goes by what is there.
 * LANE_IS_LEFT: the lane is a worker's now.
 */
static enum outcome run_one_locked(struct run *run, struct uaio_req *req)
{
	struct uaio_file *file = run->file;
	bool is_unpollable = file->is_unpollable;
	int fd = uaio_file_use_locked(file);
	int64_t res;

	uaio_req_move(req, UAIO_REQ_PARKED, UAIO_REQ_RUNNING);
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	res = try(req, fd);
	uaio_file_unuse(file);
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	--*run->budget;

	if (res == -EAGAIN && is_unpollable)
		res = -EOPNOTSUPP;
	/* relaxed: who closes waits until no try is under way after it */
	if (res == -EAGAIN && !load_relaxed(&req->group->ready.is_closing)) {
		uaio_req_move(req, UAIO_REQ_RUNNING, UAIO_REQ_PARKED);
		return WAITS_ON;
	}
	list_remove(&req->link);
	if (res != -EOPNOTSUPP)
		count_out(run->lane, req);
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	if (res == -EOPNOTSUPP)
		hand_to_worker(req);
	else
		complete(req,
			 res == -EAGAIN ? uaio_req_cancelled_res(req) : res,
			 run->by);
	run->nr_done++;
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	return res == -EOPNOTSUPP ? LANE_IS_LEFT : IS_DONE;
}

/* Return: false if the lane is a worker's now. */
static bool run_stream_locked(struct run *run)
{
	struct list *parked = &run->lane->parked;
	enum outcome outcome = IS_DONE;

	while (*run->budget && !list_is_empty(parked) &&
	       (outcome == IS_DONE || run->lane->is_kicked)) {
		run->lane->is_kicked = false;
		outcome = run_one_locked(
			run, container_of(parked->next, struct uaio_req, link));
		if (outcome == LANE_IS_LEFT)
			return false;
	}
	return true;
}

/* Each is tried once. What is cancelled meanwhile was not being tried. */
static void run_polls_locked(struct run *run)
{
	struct list *parked = &run->lane->parked, *pos, *last;

	do {
		run->lane->is_kicked = false;
		last = parked;
		while (*run->budget && last->next != parked) {
			pos = last->next;
			if (run_one_locked(run,
					   container_of(pos, struct uaio_req,
							link)) == WAITS_ON)
				last = pos;
		}
	} while (*run->budget && run->lane->is_kicked);
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
	return is_ours && !*run->budget && !list_is_empty(&lane->parked);
}

/* Return: how many came to an end. */
static unsigned run_file(struct uaio_group *group, struct uaio_file *file,
			 uint32_t lanes, enum uaio_runner by, unsigned *budget)
{
	struct run run = { .file = file, .by = by, .budget = budget };
	struct uaio_watch *watch;
	uint32_t left = 0;

	uaio_lock(&file->lock, UAIO_RANK_FILE);
	for (unsigned i = 0; i < UAIO_NR_LANES; i++)
		if (lanes & 1u << i && (!*budget || run_lane_locked(&run, i)))
			left |= 1u << i;
	watch = left ? uaio_watch_find_locked(group, file) : NULL;
	/* Without one the group has just gone away. */
	if (watch)
		uaio_watch_kick(watch, left, false);
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	return run.nr_done;
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

bool uaio_ready_run(struct uaio_group *group, enum uaio_runner by)
{
	struct uaio_ready *ready = &group->ready;
	unsigned budget = RUN_TRIES, nr_fresh = FRESH_TRIES, nr_done = 0;
	struct uaio_file *file;
	bool is_left, was_fresh;
	uint32_t lanes;

	/* relaxed: a request of this thread is counted, and others race */
	if (!load_relaxed(&ready->nr_parked))
		return false;
	enter_gate();
	if (!begin_drain(ready)) {
		uaio_unlock(&ready->lock, UAIO_RANK_READY);
		leave_gate();
		return false;
	}
	while (budget && (file = uaio_watch_pop_locked(ready, nr_fresh, &lanes,
						       &was_fresh))) {
		uaio_unlock(&ready->lock, UAIO_RANK_READY);
		nr_fresh -= was_fresh;
		nr_done += run_file(group, file, lanes, by, &budget);
		uaio_file_put(file);
		uaio_lock(&ready->lock, UAIO_RANK_READY);
	}
	/* I5 */
	is_left = !list_is_empty(&ready->kicked);
	ready->is_draining = false;
	uaio_unlock(&ready->lock, UAIO_RANK_READY);
	leave_gate();
	if (by != UAIO_RUN_BY_STANDBY && nr_done)
		add_relaxed(&ready->nr_attended, 1);
	if (is_left && by == UAIO_RUN_BY_CALLER)
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

/*
 * Taking out
 */

void uaio_ready_close_group(struct uaio_group *group)
{
	/* [MB:closing] seq_cst: closed, then looked. Pairs with park(). */
	store_seq_cst(&group->ready.is_closing, 1);
	/* What is being tried just now is parked again, or not. */
	uaio_ready_hold();
	uaio_ready_release();
}

bool uaio_ready_cancel(struct uaio_req *req)
{
	struct uaio_file *file = req->file;
	bool was_parked;

	uaio_lock(&file->lock, UAIO_RANK_FILE);
	was_parked = uaio_req_state(req) == UAIO_REQ_PARKED;
	if (was_parked) {
		uaio_req_move(req, UAIO_REQ_PARKED, UAIO_REQ_RUNNING);
		list_remove(&req->link);
		count_out(&file->lanes[uaio_lane_id_of(req)], req);
	}
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	return was_parked;
}
