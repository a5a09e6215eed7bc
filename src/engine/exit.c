/* SPDX-License-Identifier: MIT */
#include "engine/exit.h"

#include <errno.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "engine/engine.h"
#include "engine/entry.h"
#include "engine/report.h"
#include "engine/req.h"

enum door {
	DOOR_OPEN,
	DOOR_EXEC,   /* a thread finishes what is pending, then calls exec */
	DOOR_ENDING, /* the process ends once nothing is pending */
	DOOR_ENDED,  /* and is about to */
};

/*
 * A handler that interrupts exec between the last write and the kernel, and
 * never comes back (siglongjmp), leaves the door closed. So who has waited for
 * as long as this with nothing pending opens it; an exec that really takes as
 * long loses what is queued meanwhile.
 */
enum { LOST_NS = 1000000000 };

static uint32_t nr_pending; /* atomic: requests held */
static uint32_t door;       /* atomic: enum door */
static uint32_t exec_tid;   /* atomic: who closed it, under DOOR_EXEC */

void uaio_exit_init(void)
{
	store_relaxed(&nr_pending, 0);
	store_relaxed(&exec_tid, 0);
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

/* Return: whether the exec under way is of this thread: a handler asks. */
static bool is_own_exec(void)
{
	/* relaxed: only this thread stores its own number */
	return load_relaxed(&exec_tid) == (uint32_t)sys_gettid();
}

static void open_door(void)
{
	uint32_t seen = DOOR_EXEC;

	store_relaxed(&exec_tid, 0);
	/* relaxed: those at the door ask again */
	if (cas_relaxed(&door, &seen, DOOR_OPEN))
		uaio_wake(&door, ~0u);
}

/* Wait until the exec of another thread has failed. */
static void wait_at_door(void)
{
	int64_t lost = uaio_now_ns() + LOST_NS;

	/* relaxed: counts are looked at, nothing else */
	while (load_relaxed(&door) == DOOR_EXEC) {
		/*
		 * Not stepped out: the caller has tickets out, so handlers
		 * must not leave by siglongjmp from here.
		 */
		(void)uaio_sleep(&door, DOOR_EXEC, lost);
		if (load_relaxed(&nr_pending))
			lost = uaio_now_ns() + LOST_NS;
		else if (uaio_now_ns() >= lost)
			open_door();
	}
}

int uaio_exit_gate(struct uaio_kick *kick)
{
	/* relaxed: who finds it open still is found in the queue */
	if (likely(load_relaxed(&door) == DOOR_OPEN))
		return 0;
	if (load_relaxed(&door) == DOOR_EXEC) {
		if (is_own_exec())
			return -EAGAIN;
		uaio_wq_kick(kick);
		wait_at_door();
	}
	return load_relaxed(&door) == DOOR_ENDING ? -EAGAIN : 0;
}

static bool is_held(const struct uaio_req *req, const void *arg)
{
	(void)arg;
	return uaio_req_is_held(req);
}

/*
 * The door is closed. What was queued before is found in the queue, under its
 * lock; what comes to it later finds the door closed under that lock and is
 * made by its starter, who does not return before. What waits for either in the
 * order of its file was counted before that one was through.
 */
static void drain(void)
{
	struct uaio_req *req;
	uint32_t nr;

	while ((req = uaio_wq_take(is_held, NULL)))
		uaio_req_complete(req, uaio_req_make(req));
	/*
	 * [MB:exit] seq_cst, which acquires: after the door was closed. Pairs
	 * with uaio_exit_release().
	 */
	while ((nr = load_seq_cst(&nr_pending)))
		(void)uaio_sleep_outside(&nr_pending, nr, UAIO_FOREVER);
}

static void end(void)
{
	/*
	 * Other threads may go on submitting until the very end.
	 * [MB:exit] seq_cst: before drain() counts.
	 */
	store_seq_cst(&door, DOOR_ENDING);
	uaio_wake(&door, ~0u);
	drain();
	store_relaxed(&door, DOOR_ENDED);
}

void uaio_engine_exiting(void)
{
	if (uaio_engine_is_ours())
		end();
	uaio_report(false);
}

bool uaio_engine_leave(void)
{
	uint32_t seen = DOOR_OPEN;

	if (!uaio_engine_is_ours())
		return false;
	/* [MB:exit] seq_cst: before drain() counts. */
	while (!cas_seq_cst(&door, &seen, DOOR_EXEC)) {
		if (seen != DOOR_EXEC || is_own_exec())
			break;
		wait_at_door();
		seen = DOOR_OPEN;
	}
	store_relaxed(&exec_tid, (uint32_t)sys_gettid());
	drain();
	uaio_report(true);
	return true;
}

void uaio_engine_stay(void)
{
	/* relaxed: our own, or there is nothing to take back */
	if (load_relaxed(&door) == DOOR_EXEC && is_own_exec())
		open_door();
}
