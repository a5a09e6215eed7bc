/* SPDX-License-Identifier: MIT */
/*
 * If a client polls for events in a busy loop, the library makes it sleep briefly at
 * times, so that other threads get the processor
 *
 * Such a client may keep the threads that execute its requests from the processor; with
 * a real-time policy and one processor, for ever. (The kernel's own AIO completes by
 * interrupt, and does not have this problem.) Two signs betray such a client. First,
 * work items wait, and no worker gets to run. Second, no event comes while the client
 * polls for a long time, but one comes as soon as the client sleeps. So after 10 ms of
 * polls that find nothing, one poll sleeps a little. For a while after either sign,
 * polls sleep for up to half of the time. The library does not query the thread's
 * scheduling policy, as a sandbox may forbid that.
 *
 * All of this is heuristic. So accesses are relaxed, and it does no harm if two threads
 * that poll at the same time overwrite each other's values.
 *
 * Tested by test/oracle/realtime.c.
 */
#include "ready/waiter.h"

#include "base/atomic.h"
#include "base/check.h"
#include "base/sleep.h"
#include "wq/wq.h"

enum {
	LOOKS_PER_CHECK = 64,
	/*
	 * A client that checks less often than this has other things to do, and does
	 * not poll all the time.
	 */
	CHECK_NS = 5000000,
	STARVED_FOR_NS = 100000000,
};

/* relaxed throughout: the values are only guesses */
/*
 * atomic: until this time, a poll sleeps if no event came for UAIO_DOZE_NS; 0: only if
 * none came for 10 ms
 */
static int64_t starved_until;

static int64_t look_for_starved(int64_t now)
{
	int64_t until = load_relaxed(&starved_until);

	if (uaio_wq_is_starved(now))
		store_relaxed(&starved_until, until = now + STARVED_FOR_NS);
	else if (until && now >= until)
		store_relaxed(&starved_until, until = 0);
	return until;
}

bool uaio_vain_must_doze(struct uaio_vain *vain, uint64_t nr_done)
{
	int64_t now, until;

	if (likely(!load_relaxed(&starved_until)) &&
	    add_relaxed(&vain->nr_looks, 1) % LOOKS_PER_CHECK)
		return false;
	now = uaio_now_ns();
	until = look_for_starved(now);
	if (nr_done != load_relaxed(&vain->checked_done) ||
	    now - load_relaxed(&vain->checked_ns) > CHECK_NS)
		store_relaxed(&vain->since_ns, now);
	store_relaxed(&vain->checked_done, nr_done);
	store_relaxed(&vain->checked_ns, now);
	return now - load_relaxed(&vain->since_ns) >=
	       (until ? UAIO_DOZE_NS : UAIO_WQ_STARVED_NS);
}

void uaio_vain_has_dozed(struct uaio_vain *vain, bool has_event)
{
	int64_t now = uaio_now_ns();

	/*
	 * If the client had not kept the library's threads from running, the event
	 * would have come earlier, without this sleep. So let polls sleep more often
	 * for a while.
	 */
	if (has_event &&
	    now - load_relaxed(&vain->since_ns) >= UAIO_WQ_STARVED_NS)
		store_relaxed(&starved_until, now + STARVED_FOR_NS);
	store_relaxed(&vain->since_ns, now);
}
