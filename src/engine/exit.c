/* SPDX-License-Identifier: MIT */
/*
 * The end of the process
 *
 * Writes and syncs of regular files that were accepted are finished first,
 * however long the disk takes: the kernel would have finished them, too.
 * Reads, and what waits for its file to be ready, are dropped.
 */
#include "engine/engine.h"
#include "engine/entry.h"

#include "base/atomic.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "engine/exit.h"
#include "engine/report.h"

static uint32_t nr_pending; /* atomic: such requests, accepted, not finished */
static uint32_t is_ending;  /* atomic: no more are accepted */

void uaio_exit_init(void)
{
	store_relaxed(&nr_pending, 0);
	store_relaxed(&is_ending, 0);
}

void uaio_exit_hold(void)
{
	/* relaxed: the exiting thread has seen the call return, or it races */
	add_relaxed(&nr_pending, 1);
}

void uaio_exit_release(void)
{
	/* [MB:exit] release: the write has returned. Pairs with drain(). */
	if (sub_release(&nr_pending, 1) == 1)
		uaio_wake(&nr_pending, ~0u);
}

bool uaio_exit_is_near(void)
{
	/* relaxed: who does not see it yet is waited for, or races the end */
	return load_relaxed(&is_ending);
}

static void drain(void)
{
	uint32_t nr;

	/* [MB:exit] acquire: pairs with uaio_exit_release(). */
	while ((nr = load_acquire(&nr_pending)))
		(void)uaio_sleep_outside(&nr_pending, nr, UAIO_FOREVER);
}

void uaio_engine_exiting(void)
{
	if (uaio_engine_is_ours()) {
		/* Other threads may go on submitting until the very end. */
		store_relaxed(&is_ending, 1);
		drain();
	}
	uaio_report(false);
}
