/* SPDX-License-Identifier: MIT */
/*
 * Care: what the fallback thread does for one queue that it looks after
 *
 * Only fallback.c calls these functions. The thread has a stay in the queue meanwhile:
 * it is counted in nr_served, so the queue's end waits (I2 of fallback.c).
 *
 * Tested by test-ready-alone.c and test-care.c.
 */

#include "native/native.h"
#include "ready/readyint.h"
#include "ready/waiter.h"

enum {
	/* How many runs one queue gets while other queues wait */
	ROUNDS = 16,
	/*
	 * A queue leaves the list after this many idle looks in a row. The intervals
	 * between looks grow (fallback.c), so a queue with a request every 10 ms stays.
	 * Listing it again would wake the fallback thread twice.
	 */
	IDLE_LOOKS = 3,
};

static bool has_completed_more(struct uaio_ready *ready)
{
	/* relaxed: a caller that begins now is seen the next time */
	uint32_t nr = load_relaxed(&ready->nr_attended);
	bool has_changed = nr != ready->seen_attended;

	ready->seen_attended = nr;
	return has_changed;
}

/* Return: whether callers who complete requests of the queue see to all that it has. */
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
	/* relaxed: a caller that parks now is seen the next time */
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
	/* Arming kicks files that the epoll refuses, or that have not been tried. */
	is_left |= uaio_ready_look(group, UAIO_RUN_BY_FALLBACK);
	/* A waiter may have gone to sleep because this thread was running the list. */
	if (is_left)
		uaio_waiters_pass_on(group);
	/* The last look may have put a file in doubt, or left it unarmed. */
	return !is_left && uaio_ready_is_armed(ready);
}

/* Callers see to the queue, or nothing is parked. */
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
	/* relaxed: a thread that stops leading puts the queue on the list */
	bool is_led = uaio_ready_has(ready, UAIO_LEADER);

	ready->nr_idle_looks =
		completes || parks ? 0 : ready->nr_idle_looks + 1;
	if (!is_urgent && is_led) {
		/*
		 * The epoll does not report all files, so some must be tried at
		 * intervals, and the leader sleeps.
		 */
		if (!uaio_ready_is_armed(ready) || uaio_ready_has_kicked(ready))
			uaio_waiters_pass_on(uaio_care_group(ready));
		return care_by_others(ready);
	}
	if (!is_urgent && attended) {
		/* Callers may go on with some files and never come to others. */
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
