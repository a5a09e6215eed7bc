/* SPDX-License-Identifier: MIT */
/*
 * What the fallback thread does for one queue that it serves
 *
 * Only fallback.c calls these functions. Meanwhile the fallback thread is counted in
 * the queue's nr_served, so a thread that closes the queue waits (I2 of fallback.c).
 *
 * Tested by test-ready-alone.c and test-care.c.
 */

#include "native/native.h"
#include "ready/readyint.h"
#include "ready/waiter.h"

enum {
	/*
	 * How many times the thread tries one queue's ready requests before it turns to
	 * the next queue
	 */
	ROUNDS = 16,
	/*
	 * The fallback thread looks at each queue of its list at growing intervals
	 * (fallback.c). If this number of looks in a row finds nothing new, the queue
	 * leaves the list. These looks take so long that a queue with a request every
	 * 10 ms stays. Adding it again for each request would wake the thread twice per
	 * request.
	 */
	IDLE_LOOKS = 3,
};

static bool has_completed_more(struct uaio_ready *ready)
{
	/*
	 * relaxed: if a thread of the program completes a request just now, a later
	 * check sees the new count
	 */
	uint32_t nr = load_relaxed(&ready->nr_attended);
	bool has_changed = nr != ready->seen_attended;

	ready->seen_attended = nr;
	return has_changed;
}

/*
 * Return: whether the threads of the program that serve the queue can complete all its
 * requests. This is false for the commons, the shared queue of all queues without an
 * epoll (commons.c). It is also false if workers have submitted requests to the kernel,
 * because perhaps no thread of the program wakes to complete them.
 */
static bool callers_see_to_all(struct uaio_ready *ready)
{
	return !uaio_is_commons(uaio_care_group(ready)) &&
	       !uaio_native_has_by_workers(uaio_care_group(ready));
}

bool uaio_care_is_attended(struct uaio_ready *ready)
{
	return has_completed_more(ready) && callers_see_to_all(ready);
}

static bool has_parked_more(struct uaio_ready *ready)
{
	/* relaxed: if a thread parks a request just now, a later check sees the new count */
	uint32_t nr = load_relaxed(&ready->nr_parks);
	bool has_changed = nr != ready->seen_parks;

	ready->seen_parks = nr;
	return has_changed;
}

bool uaio_care_serve(struct uaio_ready *ready)
{
	struct uaio_group *group = uaio_care_group(ready);
	bool is_left = true;

	for (unsigned i = 0; i < ROUNDS && is_left; i++)
		is_left = uaio_ready_look(group, UAIO_RUN_BY_FALLBACK);
	if (!uaio_ready_arm(group)) {
		uaio_ready_kick_refused(group);
		return false;
	}
	/*
	 * uaio_ready_arm() kicks (marks to be tried) files that the epoll refuses, or
	 * whose requests no thread has tried.
	 */
	is_left |= uaio_ready_look(group, UAIO_RUN_BY_FALLBACK);
	/*
	 * While the fallback thread was running the list of kicked files, a thread of
	 * the program may have gone to sleep. That thread left the kicked files to the
	 * fallback thread. If some are still kicked, wake a thread of the program for
	 * them.
	 */
	if (is_left)
		uaio_waiters_pass_on(group);
	/*
	 * The epoll may not report each file even now. During the last
	 * uaio_ready_look() a file may have been left out of the epoll. Or the file
	 * polls ready, but calls fail with EAGAIN (in doubt: ready.h).
	 */
	return !is_left && uaio_ready_is_armed(ready);
}

/*
 * Called for a queue that threads of the program serve, or that has no parked request.
 * Return: LEAVE (the queue leaves the fallback thread's list) if the thread's last
 * IDLE_LOOKS looks at it found nothing new; else OTHERS (the queue stays on the list).
 */
static enum uaio_care care_by_others(struct uaio_ready *ready)
{
	if (ready->nr_idle_looks < IDLE_LOOKS)
		return UAIO_CARE_OTHERS;
	ready->nr_idle_looks = 0;
	return UAIO_CARE_LEAVE;
}

enum uaio_care uaio_care_for(struct uaio_ready *ready, bool is_urgent,
			     uaio_adopt_fn *adopt)
{
	bool completes = has_completed_more(ready),
	     parks = has_parked_more(ready);
	bool attended = completes && callers_see_to_all(ready);
	bool is_adopted;
	/* relaxed: if the leader stops just now, it puts the queue on the list again */
	bool is_led = uaio_ready_has(ready, UAIO_LEADER);

	ready->nr_idle_looks =
		completes || parks ? 0 : ready->nr_idle_looks + 1;
	if (!is_urgent && is_led) {
		/*
		 * The leader sleeps, but its epoll does not report all files, so a
		 * thread must try some of them at intervals: wake the leader.
		 */
		if (!uaio_ready_is_armed(ready) || uaio_ready_has_kicked(ready))
			uaio_waiters_pass_on(uaio_care_group(ready));
		return care_by_others(ready);
	}
	if (!is_urgent && attended) {
		/*
		 * Threads of the program may be busy with some files of the queue, and
		 * never try the requests of the other files. Add these other files to
		 * the epoll, so that it reports them.
		 */
		uaio_ready_arm_stale(uaio_care_group(ready));
		(void)uaio_ready_look(uaio_care_group(ready),
				      UAIO_RUN_BY_FALLBACK);
		return UAIO_CARE_OTHERS;
	}
	if (!load_relaxed(&ready->nr_parked))
		return care_by_others(ready);
	if (is_led || attended)
		return uaio_care_serve(ready) ? UAIO_CARE_OTHERS
					      : UAIO_CARE_OURS;
	is_adopted = adopt(ready);
	return uaio_care_serve(ready) && is_adopted ? UAIO_CARE_LEAVE
						    : UAIO_CARE_OURS;
}
