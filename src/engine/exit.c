/* SPDX-License-Identifier: MIT */
#include "engine/exit.h"

#include "base/atomic.h"
#include "base/check.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/table.h"
#include "engine/engine.h"
#include "engine/report.h"
#include "engine/req.h"
#include "engine/waits.h"

/* The state of the door: one of these, and over EXEC and ENDING the thread's
 * number. */
enum {
	DOOR_OPEN,
	DOOR_EXEC,   /* a thread finishes what is pending, then calls exec */
	DOOR_ENDING, /* the process ends once nothing is pending */
	DOOR_ENDED,  /* and is about to */
	DOOR_MASK = 3,
	DOOR_TID_SHIFT = 2,
};

/*
 * A handler that interrupts exec between the last write and the kernel, and
 * never comes back (siglongjmp), leaves the door closed. So who has waited for
 * as long as this with nothing pending opens it; an exec that really takes as
 * long loses what is queued meanwhile. The same of the end of the process loses
 * nothing: from then on who submits a write makes it.
 */
enum { LOST_NS = 1000000000 };

/* Who leaves looks again so often whether reads are in the way (drain()). */
enum { LOOK_AGAIN_NS = 10000000 };

static uint32_t nr_pending; /* atomic: requests held */
static uint32_t door;       /* atomic */

void uaio_exit_init(void)
{
	store_relaxed(&nr_pending, 0);
	store_relaxed(&door, DOOR_OPEN);
}

void uaio_exit_hold(void)
{
	/* relaxed: see drain() */
	add_relaxed(&nr_pending, 1);
}

void uaio_exit_release(void)
{
	/*
	 * [MB:exit] seq_cst, which releases: the write has returned, and the
	 * last one sees who waits. Pairs with drain().
	 */
	if (sub_seq_cst(&nr_pending, 1) == 1 &&
	    load_seq_cst(&door) != DOOR_OPEN)
		uaio_wake(&nr_pending, ~0u);
}

bool uaio_exit_is_near(void)
{
	/* relaxed: who leaves looks under the lock of a queue after he said so,
	 * who queues asks under that lock */
	return load_relaxed(&door) != DOOR_OPEN;
}

static uint32_t closed_by_me(uint32_t state)
{
	return (uint32_t)sys_gettid() << DOOR_TID_SHIFT | state;
}

static uint32_t state_of(uint32_t seen)
{
	return seen & DOOR_MASK;
}

/* Return: whether it was as seen; then what it waits for is over. */
static bool let_in(uint32_t seen)
{
	uint32_t state = state_of(seen) == DOOR_EXEC ? DOOR_OPEN : DOOR_ENDED;

	/* relaxed: those at the door ask again */
	if (!cas_relaxed(&door, &seen, state))
		return false;
	uaio_wake(&door, ~0u);
	return true;
}

static void sleep_at_door(uint32_t seen, int64_t deadline_ns)
{
	/*
	 * Not stepped out: the caller has tickets out, so handlers must not
	 * leave by siglongjmp from here. A process that ends has no use for
	 * them; there a handler that ends it at once is to find us outside, and
	 * waits for what is pending.
	 */
	if (state_of(seen) == DOOR_EXEC)
		(void)uaio_sleep(&door, seen, deadline_ns);
	else
		(void)uaio_sleep_outside(&door, seen, deadline_ns);
}

/* Wait until the exec of another thread has failed, or the end is near. */
static void wait_at_door(void)
{
	int64_t lost = uaio_now_ns() + LOST_NS;
	uint32_t seen;

	for (;;) {
		/* relaxed: counts are looked at, nothing else */
		seen = load_relaxed(&door);
		if (state_of(seen) != DOOR_EXEC &&
		    state_of(seen) != DOOR_ENDING)
			return;
		sleep_at_door(seen, lost);
		if (load_relaxed(&nr_pending) || load_relaxed(&door) != seen)
			lost = uaio_now_ns() + LOST_NS;
		else if (uaio_now_ns() >= lost)
			(void)let_in(seen);
	}
}

void uaio_exit_gate(struct uaio_kick *kick)
{
	/* relaxed: who finds it open still is found in the queue */
	uint32_t seen = load_relaxed(&door);

	/* Made by who submits it, when the end is near. */
	if (likely(seen == DOOR_OPEN) || seen == DOOR_ENDED)
		return;
	/* A handler while we leave, or one that jumped out of that: go on. */
	if (seen == closed_by_me(state_of(seen)))
		return;
	uaio_req_kick(kick);
	wait_at_door();
}

/* Held itself, or in the way of what may be. */
static bool is_wanted(const struct uaio_req *req, const void *arg)
{
	(void)arg;
	return uaio_req_is_held(req) || uaio_waits_may_await(req);
}

/*
 * The door is closed. What was queued before is found in the queue, under its
 * lock; what comes to it later finds the door closed under that lock and is
 * made by its starter, who does not return before. What waits for either in the
 * order of its file was counted before that one was through. A read is dropped,
 * but for one that a write waits for; that may be queued, or be found to be in the
 * way, later than it is looked for, so who leaves looks again now and then.
 *
 * No thread is created for what may start then: the caller may be a handler
 * that interrupted malloc, and whoever comes back sees to it.
 */
static void drain_here(void)
{
	struct uaio_req *req;
	uint32_t nr;

	for (;;) {
		while ((req = uaio_waits_take(is_wanted, NULL)))
			uaio_req_complete_by(req, uaio_req_make(req), true,
					     NULL);
		/*
		 * [MB:exit] seq_cst, which acquires: after the door was closed.
		 * Pairs with uaio_exit_release().
		 */
		nr = load_seq_cst(&nr_pending);
		if (!nr)
			return;
		(void)uaio_sleep_outside(&nr_pending, nr,
					 uaio_now_ns() + LOOK_AGAIN_NS);
	}
}

static long drain_for_other(const void *arg)
{
	(void)arg;
	drain_here();
	return 0;
}

/* The numbers that requests have are of the engine's table. */
static void drain(void)
{
	if (likely(!uaio_table_is_other()))
		drain_here();
	else
		(void)uaio_table_call(drain_for_other, NULL, true);
}

static void end(void)
{
	/*
	 * Other threads may go on submitting until the very end.
	 * [MB:exit] seq_cst: before drain() counts.
	 */
	store_seq_cst(&door, closed_by_me(DOOR_ENDING));
	drain();
	store_relaxed(&door, DOOR_ENDED);
	uaio_wake(&door, ~0u);
}

void uaio_engine_exiting(void)
{
	if (uaio_engine_is_ours())
		end();
	uaio_report(false);
}

static void close_door(uint32_t mine)
{
	uint32_t seen = DOOR_OPEN;

	/* [MB:exit] seq_cst: before drain() counts. */
	while (!cas_seq_cst(&door, &seen, mine)) {
		/* The process ends, or a handler is in our own exec. */
		if (state_of(seen) != DOOR_EXEC || seen == mine)
			return;
		wait_at_door();
		seen = DOOR_OPEN;
	}
}

bool uaio_engine_leave(void)
{
	uint32_t mine = closed_by_me(DOOR_EXEC);
	bool is_first;

	if (!uaio_engine_is_ours())
		return false;
	/* relaxed: only this thread stores its own number */
	is_first = load_relaxed(&door) != mine;
	close_door(mine);
	drain();
	if (!is_first)
		return false;
	uaio_report(true);
	/* That may take long enough for others to lose patience. */
	if (load_relaxed(&door) == DOOR_OPEN) {
		close_door(mine);
		drain();
	}
	return true;
}

void uaio_engine_stay(void)
{
	if (let_in(closed_by_me(DOOR_EXEC)))
		uaio_req_revive();
}
