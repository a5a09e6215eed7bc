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
 * States of the gate. In EXEC, LONG and ENDING the upper bits hold the thread id of the
 * leaving thread: the thread that is in exit or exec.
 */
enum {
	GATE_OPEN,
	/* the leaving thread finishes pending requests, then calls exec */
	GATE_EXEC,
	GATE_ENDING, /* the process ends as soon as no request is pending */
	/* no request is pending any more: the process is about to end */
	GATE_ENDED,
	/* as GATE_EXEC, but threads that waited at the gate have timed out (I4) */
	GATE_LONG,
	GATE_MASK = 7,
	GATE_TID_SHIFT = 3,
};

/* After this time a thread stops waiting at the gate, if no request is pending. */
static int64_t patience_ns = 1000000000;

/*
 * How often the leaving thread looks for reads that have to finish before a write
 * (drain_here()).
 */
enum { LOOK_AGAIN_NS = 10000000 };
/* How often the leaving thread looks for completions of kernel AIO (native.h). */
enum { LOOK_SOON_NS = 100000 };

static uint32_t nr_pending; /* atomic: how many requests delay the exit (I1) */
static uint32_t gate;       /* atomic */

void uaio_gate_init(void)
{
	store_relaxed(&nr_pending, 0);
	store_relaxed(&gate, GATE_OPEN);
}

void uaio_gate_delay(void)
{
	/*
	 * relaxed: the comment at drain_here() says why the leaving thread misses no
	 * request
	 */
	add_relaxed(&nr_pending, 1);
}

void uaio_gate_delay_over(void)
{
	/*
	 * [MB:exit] seq_cst, which also releases: the system call of the write has
	 * returned. This thread decrements the count before it reads the gate. So the
	 * thread that completes the last request sees the closed gate. Pairs with
	 * drain_here().
	 */
	if (sub_seq_cst(&nr_pending, 1) == 1 &&
	    load_seq_cst(&gate) != GATE_OPEN)
		uaio_wake(&nr_pending, ~0u);
}

bool uaio_gate_is_closed(void)
{
	/*
	 * relaxed: the caller holds the lock of a list of requests. The leaving thread
	 * closes the gate, and then takes this lock to search the list. So the caller
	 * sees the gate closed, or the leaving thread finds the request.
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
 * Change the gate's state from `seen` to `state`, and wake the threads that wait at the
 * gate.
 * Return: false, having done nothing, if the state is no longer `seen`.
 */
static bool change(uint32_t seen, uint32_t state)
{
	/* relaxed: each woken thread reads the state again */
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
	 * In an exec, the sleeping thread counts as inside the library (entry.h). That
	 * thread may hold tickets (reserved slots of an event ring, ctx.h), so a signal
	 * handler must not leave from here by siglongjmp(). If the process ends, tickets
	 * no longer matter, and the thread counts as outside. So a handler that calls
	 * _exit() in this thread can wait for pending requests.
	 */
	if (state_of(seen) == GATE_EXEC)
		(void)uaio_sleep(&gate, seen, deadline_ns);
	else
		(void)uaio_sleep_outside(&gate, seen, deadline_ns);
}

/*
 * Wait until another thread's exec has failed, or the process ends and no request is
 * pending any more. Time out if no request has been pending for patience_ns.
 */
static void wait_at_gate(void)
{
	int64_t lost = uaio_now_ns() + patience_ns;
	uint32_t seen;

	for (;;) {
		/* relaxed: the state publishes no other data */
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
	 * relaxed: if this thread still reads the gate as open, the leaving thread finds
	 * the request in the work queue
	 */
	uint32_t seen = load_relaxed(&gate);

	/*
	 * In the states ENDED and LONG this thread does not wait, and its write or sync
	 * is not queued: the thread that starts such a request executes it.
	 */
	if (likely(seen == GATE_OPEN) || seen == GATE_ENDED ||
	    state_of(seen) == GATE_LONG)
		return;
	/*
	 * This thread has closed the gate itself, and must not wait for itself. It runs a
	 * signal handler during its exec or exit, or has left the exec or exit by
	 * siglongjmp.
	 */
	if (seen == closed_by_me(state_of(seen)))
		return;
	uaio_req_hand_over(handover);
	wait_at_gate();
}

/*
 * Return: whether the exit has to wait for req: req delays the exit, or a request that
 * delays the exit may be waiting for req.
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
 * Finish all requests that delay the exit. The gate is closed. Requests that were queued
 * before the gate closed are in the work queue, and this thread finds them there, under the
 * queue's lock. Later the work queue refuses requests, as it checks the gate under the same
 * lock, and the thread that starts such a request executes it. A request that waits for an
 * older request of its file is counted before the older one completes. So the count does
 * not become 0 in between.
 *
 * Reads are dropped, except a read for which a write waits. Such a read may be queued after
 * this thread has looked for it, or the write may begin to wait later. So this thread looks
 * again every LOOK_AGAIN_NS.
 *
 * Completing requests may start others. No thread is created for these, because the caller
 * may be a signal handler that interrupted malloc. If the exec fails, uaio_engine_stay()
 * creates the threads.
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
 * Requests have their descriptors in the library's descriptor table (table.h). So if this
 * thread has a descriptor table of its own, a thread of the library finishes the requests
 * for it.
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
	 * The gate stays closed for good, as other threads may submit until the process has
	 * ended.
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
		 * The process ends, or this thread has closed the gate already: it is in a
		 * signal handler that interrupted its own exec.
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
	/*
	 * relaxed: no other thread stores this thread's id in the state, so this thread
	 * knows whether it has closed the gate before
	 */
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
