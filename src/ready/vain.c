/* SPDX-License-Identifier: MIT */
/*
 * When a client that polls without waiting must sleep briefly
 *
 * A client that looks for events again and again without waiting may keep the threads
 * that execute its requests from the processor: with a real-time policy and one
 * processor, for ever. (The kernel's own AIO does not have this problem, as it
 * completes by interrupt.) Two signs give such a client away: work items that no worker
 * gets to run; and an event that does not come for long, but comes as soon as the
 * client sleeps. So after 10 ms of looks that find nothing, one look sleeps a little.
 * For a while after either sign, looks sleep for up to half of the time. The library
 * does not query the scheduling policy of the thread: a sandbox may forbid that.
 *
 * All of this is guesses: accesses are relaxed, and two threads that look at the same
 * time do no harm if they mix up theirs.
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
	 * A client whose checks are further apart has other things to do, and does not
	 * spin.
	 */
	CHECK_NS = 5000000,
	STARVED_FOR_NS = 100000000,
};

/* relaxed throughout: guesses */
static int64_t starved_until; /* atomic: until then looks sleep; or 0 */

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
	 * The event would have come by itself, had the client not kept the library's
	 * threads from running.
	 */
	if (has_event &&
	    now - load_relaxed(&vain->since_ns) >= UAIO_WQ_STARVED_NS)
		store_relaxed(&starved_until, now + STARVED_FOR_NS);
	store_relaxed(&vain->since_ns, now);
}
