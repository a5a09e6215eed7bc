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
 * The state of the gate is one of the following. With EXEC, LONG and ENDING, the upper bits
 * hold the id of the thread in exit or exec (the leaving thread).
 */
enum {
	GATE_OPEN,
	GATE_EXEC,   /* a thread finishes pending requests, then calls exec */
	GATE_ENDING, /* the process ends as soon as no request is pending */
	GATE_ENDED,  /* no request was pending: the process is about to end */
	GATE_LONG,   /* as EXEC, but waiting threads have timed out (I4) */
	GATE_MASK = 7,
	GATE_TID_SHIFT = 3,
};

/* How long threads wait at the gate while no request is pending. */
static int64_t patience_ns = 1000000000;

/* How often the leaving thread looks for reads for which writes wait (drain_here()). */
enum { LOOK_AGAIN_NS = 10000000 };
/* How often the leaving thread looks for completions of the kernel's own AIO (native.h). */
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
	/* relaxed: drain_here() says why no request is missed */
	add_relaxed(&nr_pending, 1);
}

void uaio_gate_delay_over(void)
{
	/*
	 * [MB:exit] seq_cst, which releases: the write has returned, and the thread that
	 * completes the last request sees the closed gate. Pairs with drain_here().
	 */
	if (sub_seq_cst(&nr_pending, 1) == 1 &&
	    load_seq_cst(&gate) != GATE_OPEN)
		uaio_wake(&nr_pending, ~0u);
}

bool uaio_gate_is_closed(void)
{
	/*
	 * relaxed: callers hold the lock of a list of requests. The leaving thread closes the
	 * gate before it takes this lock to search the list.
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
 * Change the gate's state from seen, and wake the threads that wait there.
 * Return: false, having done nothing, if the state is no longer `seen`.
 */
static bool change(uint32_t seen, uint32_t state)
{
	/* relaxed: woken threads read the state again */
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
	 * At an exec the sleeping thread counts as inside the library (entry.h): it may hold
	 * tickets, so a signal handler must not leave from here by siglongjmp(). If the
	 * process ends, tickets no longer matter. Then the thread counts as outside, so that a
	 * handler which calls _exit() can wait for pending requests.
	 */
	if (state_of(seen) == GATE_EXEC)
		(void)uaio_sleep(&gate, seen, deadline_ns);
	else
		(void)uaio_sleep_outside(&gate, seen, deadline_ns);
}

/* Wait until an exec has failed, the process may end, or the wait times out. */
static void wait_at_gate(void)
{
	int64_t lost = uaio_now_ns() + patience_ns;
	uint32_t seen;

	for (;;) {
		/* relaxed: no other data is read because of this state */
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
	 * relaxed: if this thread sees the gate open although it is closed, the leaving
	 * thread finds the request in the queue
	 */
	uint32_t seen = load_relaxed(&gate);

	/*
	 * In the states ENDED and LONG the request is not queued: the thread that starts it
	 * executes it.
	 */
	if (likely(seen == GATE_OPEN) || seen == GATE_ENDED ||
	    state_of(seen) == GATE_LONG)
		return;
	/*
	 * This thread itself is leaving: it runs a signal handler, or a siglongjmp ended its
	 * exec or exit. It must not wait for itself.
	 */
	if (seen == closed_by_me(state_of(seen)))
		return;
	uaio_req_hand_over(handover);
	wait_at_gate();
}

/*
 * Return: whether req delays the exit, or a request that delays the exit may be waiting for
 * req.
 */
static bool is_wanted(const struct uaio_req *req, const void *arg)
{
	(void)arg;
	return uaio_req_delays_exit(req) || uaio_waits_may_await(req);
}

static void take_native(struct uaio_group *group)
{
	(void)uaio_ready_take_native(group);
}

/*
 * Finish all requests that delay the exit. The gate is closed. This thread finds requests that
 * were queued before that in the work queue, under its lock. Later the work queue refuses
 * requests, as it checks the gate under the same lock; the thread that starts such a request
 * executes it. If a request waits for another one in the order of its file, it was counted
 * before that one completed.
 *
 * Reads are dropped, except for a read for which a write waits. Such a read may be queued
 * after this thread has looked for it, or the write may begin to wait later. So this thread
 * looks again every LOOK_AGAIN_NS.
 *
 * No thread is created for requests that may start then, because the caller may be a signal
 * handler that interrupted malloc. If the exec fails, uaio_engine_stay() creates the
 * threads.
 */
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
		 * [MB:exit] seq_cst, which acquires: read the count after closing the gate.
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

/*
 * Use the library's descriptor table (table.h), in which requests have their descriptors, and
 * not a private table of this thread.
 */
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
	 * Other threads may submit until the process has ended.
	 * [MB:exit] seq_cst: close the gate before drain() reads the count.
	 */
	store_seq_cst(&gate, closed_by_me(GATE_ENDING));
	drain();
	store_relaxed(&gate, GATE_ENDED);
	uaio_wake(&gate, ~0u);
}

static void close_gate(uint32_t mine)
{
	uint32_t seen = GATE_OPEN;

	/* [MB:exit] seq_cst: close the gate before drain() reads the count. */
	while (!cas_seq_cst(&gate, &seen, mine)) {
		if (state_of(seen) == GATE_LONG)
			continue;
		/*
		 * The process ends, or this thread is in a signal handler that interrupted its
		 * own exec.
		 */
		if (state_of(seen) != GATE_EXEC || seen == mine)
			return;
		wait_at_gate();
		seen = GATE_OPEN;
	}
}

bool uaio_gate_leave(void)
{
	uint32_t mine = closed_by_me(GATE_EXEC);
	/* relaxed: only this thread stores its own id with EXEC */
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
