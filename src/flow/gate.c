/* SPDX-License-Identifier: MIT */
#include "flow/gate.h"

#include "base/atomic.h"
#include "base/check.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/table.h"
#include "req/req.h"
#include "req/waits.h"
#include "native/native.h"
#include "ready/ready.h"
#include "split/whole.h"
#include "flow/flow.h"

/*
 * The state of the gate is one of these; with EXEC, LONG and ENDING the bits above
 * hold the thread id of the thread that leaves.
 */
enum {
	GATE_OPEN,
	GATE_EXEC,   /* a thread finishes what is pending, then calls exec */
	GATE_ENDING, /* the process ends as soon as nothing is pending */
	GATE_ENDED,  /* nothing was pending: the process is about to end */
	GATE_LONG,   /* as EXEC, and the others have lost patience (I4) */
	GATE_MASK = 7,
	GATE_TID_SHIFT = 3,
};

/* For so long threads wait at the gate while nothing is pending. */
static int64_t patience_ns = 1000000000;

/* How often the thread that leaves looks again for reads in the way (drain()). */
enum { LOOK_AGAIN_NS = 10000000 };
/* The same for what the kernel has completed, if it has requests (native.h). */
enum { LOOK_SOON_NS = 100000 };

static uint32_t nr_pending; /* atomic: requests that delay the exit (I1) */
static uint32_t gate;       /* atomic */

void uaio_gate_init(void)
{
	store_relaxed(&nr_pending, 0);
	store_relaxed(&gate, GATE_OPEN);
}

void uaio_gate_delay(void)
{
	/* relaxed: see drain() */
	add_relaxed(&nr_pending, 1);
}

void uaio_gate_delay_over(void)
{
	/*
	 * [MB:exit] seq_cst, which releases: the write has returned, and the
	 * last one sees the closed gate. Pairs with drain().
	 */
	if (sub_seq_cst(&nr_pending, 1) == 1 &&
	    load_seq_cst(&gate) != GATE_OPEN)
		uaio_wake(&nr_pending, ~0u);
}

bool uaio_gate_is_closed(void)
{
	/*
	 * relaxed: the thread that leaves closes the gate, and then takes the
	 * lock of the queue to look through it; callers ask under that lock
	 */
	return load_relaxed(&gate) != GATE_OPEN;
}

static uint32_t closed_by_me(uint32_t state)
{
	return (uint32_t)sys_gettid() << GATE_TID_SHIFT | state;
}

static uint32_t state_of(uint32_t seen)
{
	return seen & GATE_MASK;
}

/*
 * Change the gate, and let the threads that wait there look at it.
 * Return: false if its state is not seen any more: nothing was done.
 */
static bool change(uint32_t seen, uint32_t state)
{
	/* relaxed: the threads at the gate look again */
	if (!cas_relaxed(&gate, &seen, state))
		return false;
	uaio_wake(&gate, ~0u);
	return true;
}

static void lose_patience(uint32_t seen)
{
	uint32_t tid_bits = seen & ~(uint32_t)GATE_MASK;

	(void)change(seen, state_of(seen) == GATE_EXEC ? tid_bits | GATE_LONG
						       : GATE_ENDED);
}

static void sleep_at_gate(uint32_t seen, int64_t deadline_ns)
{
	/*
	 * At an exec the thread stays inside (entry.h) while it sleeps: it has
	 * tickets out, so a handler must not leave by siglongjmp from here. If
	 * the process ends, tickets do not matter any more; there the thread is
	 * outside, so that a handler which calls _exit() can wait for what is
	 * pending.
	 */
	if (state_of(seen) == GATE_EXEC)
		(void)uaio_sleep(&gate, seen, deadline_ns);
	else
		(void)uaio_sleep_outside(&gate, seen, deadline_ns);
}

/* Wait until the exec of another thread has failed, or the process may end. */
static void wait_at_gate(void)
{
	int64_t lost = uaio_now_ns() + patience_ns;
	uint32_t seen;

	for (;;) {
		/* relaxed: nothing but the state is read */
		seen = load_relaxed(&gate);
		if (state_of(seen) != GATE_EXEC &&
		    state_of(seen) != GATE_ENDING)
			return;
		sleep_at_gate(seen, lost);
		if (load_relaxed(&nr_pending) || load_relaxed(&gate) != seen)
			lost = uaio_now_ns() + patience_ns;
		else if (uaio_now_ns() >= lost)
			lose_patience(seen);
	}
}

void uaio_gate_pass(struct uaio_handover *handover)
{
	/*
	 * relaxed: if this thread finds the gate open although it is closed, the
	 * request is found in the queue
	 */
	uint32_t seen = load_relaxed(&gate);

	/* At the last two the request is not queued: its starter executes it. */
	if (likely(seen == GATE_OPEN) || seen == GATE_ENDED ||
	    state_of(seen) == GATE_LONG)
		return;
	/*
	 * This thread is the one that leaves: it runs a signal handler, or has
	 * jumped out of the leaving by siglongjmp. It must not wait for itself.
	 */
	if (seen == closed_by_me(state_of(seen)))
		return;
	uaio_req_hand_over(handover);
	wait_at_gate();
}

/* It delays the exit, or a request that does so may wait for it. */
static bool is_wanted(const struct uaio_req *req, const void *arg)
{
	(void)arg;
	return uaio_req_delays_exit(req) || uaio_waits_may_await(req);
}

/*
 * Finish all requests that delay the exit. The gate is closed. A request that was
 * queued before is found in the queue, under its lock. A request that is queued
 * later is refused by the queue, which finds the gate closed under that lock; its
 * starter executes it before it returns. A request that waits for either in the
 * order of its file was counted before that one was complete.
 *
 * Reads are dropped, except for one that a write waits for. Such a read may be
 * queued after this thread has looked for it, or the write may come to wait for it
 * later. So this thread looks again now and then.
 *
 * No thread is created for requests that may start then, because the caller may be
 * a signal handler that interrupted malloc. If the exec fails,
 * uaio_engine_stay() creates the threads.
 */
static void take_native(struct uaio_group *group)
{
	(void)uaio_ready_take_native(group);
}

static void drain_here(void)
{
	struct uaio_req *req;
	int64_t pause;
	uint32_t nr;

	for (;;) {
		while ((req = uaio_waits_take(is_wanted, NULL)))
			uaio_req_complete_by(req, uaio_req_execute(req), true,
					     NULL);
		/*
		 * [MB:exit] seq_cst, which acquires: after the gate was closed.
		 * Pairs with uaio_gate_delay_over().
		 */
		nr = load_seq_cst(&nr_pending);
		if (!nr)
			return;
		pause = uaio_natives_each(take_native) ? LOOK_SOON_NS
						       : LOOK_AGAIN_NS;
		(void)uaio_sleep_outside(&nr_pending, nr,
					 uaio_now_ns() + pause);
	}
}

static long drain_for_other(const void *arg)
{
	(void)arg;
	drain_here();
	return 0;
}

/* The descriptors of requests are those of the engine's table (table.h). */
static void drain(void)
{
	if (likely(!uaio_table_is_other()))
		drain_here();
	else
		(void)uaio_table_call(drain_for_other, NULL, true);
}

void uaio_gate_end(void)
{
	/*
	 * Other threads may go on submitting until the very end.
	 * [MB:exit] seq_cst: before drain() counts.
	 */
	store_seq_cst(&gate, closed_by_me(GATE_ENDING));
	drain();
	store_relaxed(&gate, GATE_ENDED);
	uaio_wake(&gate, ~0u);
}

static void close_gate(uint32_t mine)
{
	uint32_t seen = GATE_OPEN;

	/* [MB:exit] seq_cst: before drain() counts. */
	while (!cas_seq_cst(&gate, &seen, mine)) {
		if (state_of(seen) == GATE_LONG)
			continue;
		/* The process ends, or this is a handler inside our own exec. */
		if (state_of(seen) != GATE_EXEC || seen == mine)
			return;
		wait_at_gate();
		seen = GATE_OPEN;
	}
}

bool uaio_gate_leave(void)
{
	uint32_t mine = closed_by_me(GATE_EXEC);
	/* relaxed: only this thread stores its own number, with EXEC */
	uint32_t seen = load_relaxed(&gate);

	close_gate(mine);
	drain();
	return seen != mine && seen != closed_by_me(GATE_LONG);
}

void uaio_gate_leave_again(void)
{
	if (load_relaxed(&gate) == closed_by_me(GATE_LONG))
		(void)uaio_gate_leave();
}

void uaio_gate_stay(void)
{
	if (change(closed_by_me(GATE_EXEC), GATE_OPEN) ||
	    change(closed_by_me(GATE_LONG), GATE_OPEN))
		uaio_req_revive();
}

void uaio_gate_have_patience(int64_t ns)
{
	patience_ns = ns;
}
