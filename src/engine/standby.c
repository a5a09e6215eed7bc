/* SPDX-License-Identifier: MIT */
/*
 * The standby thread: for clients that do not call in (ready.h)
 *
 * A context that something is parked in is on its list. Every so often the
 * thread looks: if callers have completed requests since, or one sleeps in the
 * context's epoll, it leaves them to that. If not, it adopts the context: it arms
 * what is parked, watches the context's epoll by its own, and makes what gets
 * ready at once, until a caller makes some again. So it comes late, and only
 * where nobody else does, and then it does not come late any more.
 *
 *   I1  A context is on the list from when its first request is parked until the
 *       thread has seen that it is adopted, led, or has nothing parked and had
 *       not for a while; and it looks once more after it has said so
 *       (is_listed), as who parks counts before he looks at that.
 *   I2  nr_served counts the thread's stay in a context; who ends that waits.
 *   I3  The list is looked at every TICK_NS, less often while callers do
 *       everything. With nothing on it the thread sleeps in its epoll.
 */
#include <errno.h>

#include "base/check.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/thread.h"
#include "engine/readyint.h"
#include "engine/timed.h"
#include "engine/wait.h"

enum {
	TICK_NS = 1000000,
	TICK_NS_MAX = 16000000,
	IDLE_S = 5,
	/* Rounds in one context, others waiting. */
	ROUNDS = 16,
};

static struct {
	struct uaio_poller poller;

	/* under lock */
	struct uaio_lock lock; /* rank STANDBY */
	struct list listed;
	struct list adopted;
	bool has_thread;
	bool is_ticking; /* it comes by itself */
	uint32_t drain;  /* atomic: who ends a context sleeps on it */
} standby;

void uaio_standby_init(void)
{
	standby.lock = (struct uaio_lock){ 0 };
	list_init(&standby.listed);
	list_init(&standby.adopted);
	standby.has_thread = standby.is_ticking = false;
	standby.poller.lock = (struct uaio_lock){ 0 };
	uaio_poller_init(&standby.poller);
}

static void lock(void)
{
	uaio_lock(&standby.lock, UAIO_RANK_STANDBY);
}

static void unlock(void)
{
	uaio_unlock(&standby.lock, UAIO_RANK_STANDBY);
}

static struct uaio_group *group_of(struct uaio_ready *ready)
{
	return container_of(ready, struct uaio_group, ready);
}

/* Return: whether the thread has to be woken for it. */
static bool list_locked(struct uaio_ready *ready)
{
	if (list_is_empty(&ready->in_listed)) {
		list_add_tail(&standby.listed, &ready->in_listed);
		/* [MB:parked] seq_cst: pairs with uaio_ready_expect(). */
		store_seq_cst(&ready->is_listed, 1);
	}
	return !standby.is_ticking;
}

static void *stand_by(void *arg);

static int start_locked(void)
{
	if (standby.has_thread)
		return 0;
	if (uaio_poller_open(&standby.poller) < 0 ||
	    uaio_thread_start(stand_by, NULL) < 0)
		return -EAGAIN;
	standby.has_thread = true;
	standby.is_ticking = true; /* it looks before it sleeps */
	return 0;
}

int uaio_standby_start(void)
{
	int ret;

	lock();
	ret = start_locked();
	unlock();
	return ret;
}

int uaio_standby_list(struct uaio_group *group)
{
	bool must_wake = false;
	int ret;

	lock();
	ret = start_locked();
	if (ret == 0)
		must_wake = list_locked(&group->ready);
	if (ret == 0 && !uaio_ready_callers_run())
		must_wake = group->ready.is_urgent = true;
	unlock();
	if (must_wake)
		uaio_poller_wake(&standby.poller);
	return ret;
}

void uaio_standby_nudge(struct uaio_group *group)
{
	bool has_thread;

	lock();
	(void)start_locked();
	(void)list_locked(&group->ready);
	group->ready.is_urgent = true;
	has_thread = standby.has_thread;
	unlock();
	if (has_thread)
		uaio_poller_wake(&standby.poller);
}

/*
 * Adopting
 */

static void unlist_locked(struct uaio_ready *ready)
{
	list_remove(&ready->in_listed);
	/* [MB:parked] seq_cst: as in list_locked(). */
	store_seq_cst(&ready->is_listed, 0);
}

/* Return: false if there are no descriptors for it: it stays on the list. */
static bool adopt(struct uaio_ready *ready)
{
	bool is_ours = false;

	if (load_relaxed(&ready->is_adopted))
		return true;
	if (!uaio_poller_is_open(&ready->poller))
		return false;
	lock();
	if (uaio_poller_nest(&standby.poller, EPOLL_CTL_ADD, &ready->poller,
			     (uintptr_t)ready) == 0) {
		list_add_tail(&standby.adopted, &ready->in_adopted);
		/*
		 * [MB:led] seq_cst: who parks from here on arms it; what was
		 * parked before is armed after this. Pairs with
		 * uaio_ready_submitted().
		 */
		store_seq_cst(&ready->is_adopted, 1);
		is_ours = true;
	}
	unlock();
	return is_ours;
}

static void disown_locked(struct uaio_ready *ready)
{
	if (list_is_empty(&ready->in_adopted))
		return;
	(void)uaio_poller_nest(&standby.poller, EPOLL_CTL_DEL, &ready->poller,
			       0);
	list_remove(&ready->in_adopted);
	/* [MB:parked] seq_cst: as in list_locked(). */
	store_seq_cst(&ready->is_adopted, 0);
}

/*
 * Looking after one
 */

/*
 * Return: whether callers have completed something since the last time. Those of
 * one context of the commons do not see to the others.
 */
static bool is_attended(struct uaio_ready *ready)
{
	/* relaxed: a caller that begins now is seen the next time */
	uint32_t nr = load_relaxed(&ready->nr_attended);
	bool has_changed = nr != ready->seen_attended;

	ready->seen_attended = nr;
	return has_changed && !uaio_is_commons(group_of(ready));
}

static bool has_parked_more(struct uaio_ready *ready)
{
	/* relaxed: as above */
	uint32_t nr = load_relaxed(&ready->nr_parks);
	bool has_changed = nr != ready->seen_parks;

	ready->seen_parks = nr;
	return has_changed;
}

/* Run what is ready. Return: whether all is known to the epoll, none is left. */
static bool serve(struct uaio_ready *ready)
{
	struct uaio_group *group = group_of(ready);
	bool is_left = true;

	for (unsigned i = 0; i < ROUNDS && is_left; i++)
		is_left = uaio_ready_look(group, UAIO_RUN_BY_STANDBY);
	if (!uaio_ready_arm(group)) {
		uaio_ready_kick_refused(group);
		return false;
	}
	/* Arming kicks what cannot be polled, and what has not been tried. */
	is_left |= uaio_ready_look(group, UAIO_RUN_BY_STANDBY);
	/* One may have gone to sleep because we were at it. */
	if (is_left)
		uaio_waiters_pass_on(group);
	/* That look may have put something in doubt, or left it unarmed. */
	return !is_left && uaio_ready_is_armed(ready);
}

enum care { CARE_LEAVE, CARE_OTHERS, CARE_OURS };

/*
 * Look at a listed one. Return: CARE_LEAVE if it need not be on the list,
 * CARE_OTHERS if callers do what is to be done.
 */
static enum care look_at(struct uaio_ready *ready, bool is_urgent)
{
	bool attended = is_attended(ready), parks = has_parked_more(ready);
	bool is_adopted;
	/* relaxed: who stops leading puts it on the list */
	bool is_led = load_relaxed(&ready->is_led);

	if (!is_urgent && is_led) {
		/* Some can only be asked now and then, and it sleeps. */
		if (!uaio_ready_is_armed(ready) || uaio_ready_has_kicked(ready))
			uaio_waiters_pass_on(group_of(ready));
		return parks ? CARE_OTHERS : CARE_LEAVE;
	}
	if (!is_urgent && attended) {
		/* Callers may go on with some and never come to others. */
		uaio_ready_arm_stale(group_of(ready));
		(void)uaio_ready_look(group_of(ready), UAIO_RUN_BY_STANDBY);
		return CARE_OTHERS;
	}
	if (!load_relaxed(&ready->nr_parked))
		return parks ? CARE_OTHERS : CARE_LEAVE;
	if (is_led || attended)
		return serve(ready) ? CARE_OTHERS : CARE_OURS;
	is_adopted = adopt(ready);
	return serve(ready) && is_adopted ? CARE_LEAVE : CARE_OURS;
}

/*
 * An adopted one's epoll has something. If callers do things again, it is left to
 * them.
 */
static void answer(struct uaio_ready *ready)
{
	bool is_left;

	/* relaxed: as in look_at() */
	if (is_attended(ready) || load_relaxed(&ready->is_led)) {
		lock();
		disown_locked(ready);
		(void)list_locked(ready);
		unlock();
		return;
	}
	is_left = !serve(ready);
	if (!is_left)
		return;
	lock();
	(void)list_locked(ready);
	ready->is_urgent = true;
	unlock();
}

static void end_service(struct uaio_ready *ready)
{
	lock();
	ready->nr_served--;
	unlock();
	/* [MB:served] release: pairs with uaio_standby_forget(). */
	__atomic_fetch_add(&standby.drain, 1, __ATOMIC_RELEASE);
	uaio_wake(&standby.drain, INT32_MAX);
}

/* Of those in the list before last the next one, which stays until it is ended. */
static struct uaio_ready *next_listed(struct list *round, bool *ret_is_urgent)
{
	struct uaio_ready *ready = NULL;
	struct list *node;

	lock();
	node = list_pop(round);
	if (node) {
		ready = container_of(node, struct uaio_ready, in_listed);
		list_add_tail(&standby.listed, &ready->in_listed);
		ready->nr_served++;
		*ret_is_urgent = ready->is_urgent;
		ready->is_urgent = false;
	}
	unlock();
	return ready;
}

static void leave_listed(struct uaio_ready *ready)
{
	lock();
	unlist_locked(ready);
	/*
	 * [MB:parked] seq_cst: said, then looked. Pairs with
	 * uaio_ready_expect(). A leader does what is to be done, and the epoll
	 * tells of an adopted one what gets ready; but not of what was kicked
	 * before: a leader that stopped just now may have left that.
	 * relaxed: whoever left it has put the context on the list since, or is
	 * about to.
	 */
	if (ready->is_urgent ||
	    (load_seq_cst(&ready->nr_parked) && !load_seq_cst(&ready->is_led) &&
	     (!load_seq_cst(&ready->is_adopted) ||
	      load_relaxed(&ready->has_kicked))))
		(void)list_locked(ready);
	unlock();
}

/* Return: what is to be done about them all. */
static enum care look_at_all(void)
{
	enum care most = CARE_LEAVE;
	struct uaio_ready *ready;
	struct list round;
	bool is_urgent;

	list_init(&round);
	lock();
	list_splice_tail(&round, &standby.listed);
	unlock();
	while ((ready = next_listed(&round, &is_urgent))) {
		enum care care = look_at(ready, is_urgent);

		if (care == CARE_LEAVE)
			leave_listed(ready);
		most = care > most ? care : most;
		end_service(ready);
	}
	return most;
}

static void answer_all(const struct epoll_event *events, int nr)
{
	for (int i = 0; i < nr; i++) {
		struct uaio_ready *ready =
			(struct uaio_ready *)(uintptr_t)events[i].data.u64;
		bool is_ours;

		if (!ready)
			continue;
		lock();
		/* relaxed: under the lock; else it has gone, or begins anew */
		is_ours = load_relaxed(&ready->is_adopted);
		if (is_ours)
			ready->nr_served++;
		unlock();
		if (!is_ours)
			continue;
		answer(ready);
		end_service(ready);
	}
}

void uaio_standby_forget(struct uaio_group *group)
{
	struct uaio_ready *ready = &group->ready;

	for (;;) {
		/* [MB:served] acquire: pairs with end_service(). */
		uint32_t key = load_acquire(&standby.drain);
		bool is_served;

		lock();
		list_remove(&ready->in_listed);
		disown_locked(ready);
		is_served = ready->nr_served;
		unlock();
		if (!is_served)
			return;
		(void)uaio_sleep(&standby.drain, key, UAIO_FOREVER);
	}
}

/*
 * The thread
 */

/* Those that have nothing parked are not watched for ever. */
static void disown_idle_locked(void)
{
	list_for_each_safe (pos, &standby.adopted) {
		struct uaio_ready *ready =
			container_of(pos, struct uaio_ready, in_adopted);

		if (load_relaxed(&ready->nr_parked))
			continue;
		disown_locked(ready);
		/* [MB:parked] seq_cst: as in leave_listed(). */
		if (load_seq_cst(&ready->nr_parked))
			(void)list_locked(ready);
	}
}

/* Nothing has happened for long. Return: whether the thread is to end. */
static bool is_over(void)
{
	/* What is parked keeps no process. */
	bool is_over = uaio_threads_are_last();

	lock();
	disown_idle_locked();
	is_over = is_over || (list_is_empty(&standby.listed) &&
			      list_is_empty(&standby.adopted) &&
			      uaio_timed_next() == UAIO_FOREVER);
	if (is_over)
		standby.has_thread = standby.is_ticking = false;
	unlock();
	return is_over;
}

/* Return: when to look again, if nothing happens until then. */
static int64_t next_look(enum care care, int64_t *tick_ns)
{
	*tick_ns = care == CARE_OTHERS ? 2 * *tick_ns : TICK_NS;
	if (*tick_ns > TICK_NS_MAX)
		*tick_ns = TICK_NS_MAX;
	lock();
	standby.is_ticking = !list_is_empty(&standby.listed);
	unlock();
	return uaio_now_ns() +
	       (standby.is_ticking ? *tick_ns : IDLE_S * 1000000000ll);
}

/* What is over and just being tried is looked at again soon. */
static int64_t sooner(int64_t due)
{
	enum { SOON_NS = 50000 };
	int64_t next = uaio_timed_next(), soon;

	if (likely(next >= due))
		return due;
	soon = uaio_now_ns() + SOON_NS;
	return next > soon ? next : soon;
}

/* Return: when to look, after things may have changed: 0 for at once. */
static int64_t new_look(int64_t due)
{
	bool is_urgent = false;

	lock();
	list_for_each (pos, &standby.listed)
		is_urgent |= container_of(pos, struct uaio_ready, in_listed)
				     ->is_urgent;
	if (!standby.is_ticking && !list_is_empty(&standby.listed)) {
		standby.is_ticking = true;
		due = uaio_now_ns() + TICK_NS;
	}
	unlock();
	return is_urgent ? 0 : sooner(due);
}

/* Answer those that are adopted until it is time to look at the others. */
static int answer_until(int64_t due)
{
	enum { NR = 32 };
	struct epoll_event events[NR];
	struct uaio_poller_wait wait = {
		.life = uaio_poller_life(&standby.poller),
	};
	int nr;

	do {
		wait.deadline_ns = new_look(due);
		if (!wait.deadline_ns)
			return 1;
		due = wait.deadline_ns;
		nr = uaio_poller_wait(&standby.poller, events, NR, &wait);
		uaio_ready_add(&uaio_ready_counters.nr_standby_wakes, 1);
		answer_all(events, nr);
	} while (nr > 0 && uaio_now_ns() < due);
	return nr;
}

static void *stand_by(void *arg)
{
	int64_t tick_ns = TICK_NS;
	bool is_idle;

	(void)arg;
	uaio_thread_begin("uaio-ready");
	do {
		int64_t due;

		uaio_timed_end();
		due = next_look(look_at_all(), &tick_ns);

		is_idle = answer_until(due) == 0 && !standby.is_ticking;
	} while (!is_idle || !is_over());
	uaio_thread_end();
	return NULL;
}
