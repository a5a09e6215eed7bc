/* SPDX-License-Identifier: MIT */
/*
 * The fallback thread: it serves parked requests (ready.h) if no other thread does
 *
 * A queue with parked requests is on this thread's list. At intervals the thread looks
 * at the queue. If threads of the program have completed requests since the last look,
 * or one of them leads (lead.h), the queue is left to them. Otherwise the thread adopts
 * the queue: it adds all files to the queue's epoll, and adds that epoll to the
 * thread's own epoll. Then it executes each request as soon as the file becomes ready,
 * until a thread of the program completes a request again. So only the first requests
 * of a queue are late, and only if no other thread serves the queue.
 *
 *   I1  A queue is put on the list when its first request is parked. It stays until the
 *       thread has adopted it, or sees a leader, or has seen no parked request for a
 *       while. After the thread has cleared UAIO_LIST (the bit of a queue on the list),
 *       it checks once more for parked requests; a thread that parks counts its
 *       request, then reads UAIO_LIST. So one of the two sees the other.
 *
 *   I2  While the thread works in a queue, the queue's nr_served is raised by one. This
 *       time is called a stay. A thread that closes the queue waits until nr_served is 0.
 *
 *   I3  The thread sleeps no longer than until the first timer of its queues is due
 *       (timer.h). So if one of these queues may have a timer, the thread looks at all
 *       of them before it sleeps.
 *
 *   I4  The thread looks at its list every TICK_NS, and less often while threads of the
 *       program serve all queues. It looks within TICK_NS at a queue that was just
 *       added. If the list is empty it sleeps in its epoll.
 *
 *   I5  While the kernel executes native requests (native.h) of any queue, the thread
 *       does not end, and takes their completions at intervals. The eventfd that
 *       reports them may be lost: the program may have closed it by a system call that
 *       the library does not see.
 *
 * Tested by test-ready-alone.c; I5 by src/native/test-native-rings.c.
 */
#include <errno.h>

#include "base/check.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/thread.h"
#include "native/native.h"
#include "ready/readyint.h"
#include "ready/timer.h"

enum {
	TICK_NS = 1000000,
	TICK_NS_MAX = 16000000,
};

static struct {
	struct uaio_poller poller;

	/* under lock */
	struct uaio_lock lock; /* rank FALLBACK */
	struct list listed;
	struct list adopted;
	bool has_thread;
	/* the thread looks at the list `listed` at intervals */
	bool is_ticking;
	bool is_slow;    /* the thread looks at intervals longer than TICK_NS */
	bool has_new;    /* a queue was put on the list since the last look */
	bool has_timers; /* a queue that the thread serves may have timers */
	int64_t due_ns;  /* when the thread wakes if nothing happens */
	uint32_t
		/*
		 * atomic: counts how often the thread has finished its work in a queue
		 * (a stay, I2); threads that close a queue sleep on this count
		 */
		drain;
} fallback;

void uaio_fallback_init(void)
{
	fallback.lock = (struct uaio_lock){ 0 };
	list_init(&fallback.listed);
	list_init(&fallback.adopted);
	fallback.has_thread = fallback.is_ticking = false;
	fallback.is_slow = fallback.has_new = false;
	fallback.has_timers = false;
	fallback.due_ns = 0;
	fallback.poller.lock = (struct uaio_lock){ 0 };
	uaio_poller_init(&fallback.poller);
}

static void lock(void)
{
	uaio_lock(&fallback.lock, UAIO_RANK_FALLBACK);
}

static void unlock(void)
{
	uaio_unlock(&fallback.lock, UAIO_RANK_FALLBACK);
}

/* Return: whether the thread would wake too late for the queue's first timer. */
static bool note_timers_locked(const struct uaio_ready *ready)
{
	/*
	 * [MB:timer] seq_cst: the queue's leader cleared UAIO_LEADER before this read.
	 * A thread that adds a timer may have seen that leader, and notified only that
	 * leader. Pairs with uaio_timer_tell_sleeper().
	 */
	int64_t next = load_seq_cst(&ready->next_ns);

	if (likely(next == UAIO_FOREVER))
		return false;
	fallback.has_timers = true;
	return next < fallback.due_ns;
}

/*
 * Put the queue on the list, if it is not there.
 * Return: whether the caller must wake the fallback thread.
 */
static bool list_locked(struct uaio_ready *ready)
{
	if (list_is_empty(&ready->in_listed)) {
		list_add_tail(&fallback.listed, &ready->in_listed);
		/* [MB:parked] seq_cst: pairs with uaio_ready_expect(). */
		or_seq_cst(&ready->keepers, UAIO_LIST);
	}
	return note_timers_locked(ready) || !fallback.is_ticking;
}

static void *stand_by(void *arg);

static int start_locked(void)
{
	if (fallback.has_thread)
		return 0;
	if (uaio_poller_open(&fallback.poller) < 0 ||
	    uaio_wq_start_for_all(stand_by, NULL) < 0)
		return -EAGAIN;
	fallback.has_thread = true;
	/* the new thread looks at the list before it sleeps */
	fallback.is_ticking = true;
	return 0;
}

void uaio_fallback_reserve(void)
{
	(void)uaio_poller_open(&fallback.poller);
}

int uaio_fallback_start(void)
{
	int ret;

	lock();
	ret = start_locked();
	unlock();
	return ret;
}

int uaio_fallback_list(struct uaio_group *group)
{
	bool must_wake = false;
	int ret;

	lock();
	/* [step: LIST] */
	ret = start_locked();
	if (ret == 0) {
		fallback.has_new |= list_is_empty(&group->ready.in_listed);
		must_wake = list_locked(&group->ready) ||
			    (fallback.has_new && fallback.is_slow);
	}
	if (ret == 0 && !uaio_ready_callers_run())
		must_wake = group->ready.is_urgent = true;
	unlock();
	if (must_wake)
		uaio_poller_wake(&fallback.poller);
	return ret;
}

void uaio_fallback_hurry(struct uaio_group *group)
{
	bool must_wake;

	lock();
	must_wake = note_timers_locked(&group->ready) && fallback.has_thread;
	unlock();
	if (must_wake)
		uaio_poller_wake(&fallback.poller);
}

void uaio_fallback_nudge(struct uaio_group *group)
{
	bool has_thread;

	lock();
	/* [step: NUDGE] */
	(void)start_locked();
	(void)list_locked(&group->ready);
	group->ready.is_urgent = true;
	has_thread = fallback.has_thread;
	unlock();
	if (has_thread)
		uaio_poller_wake(&fallback.poller);
}

/*
 * Adopting
 */

static void unlist_locked(struct uaio_ready *ready)
{
	list_remove(&ready->in_listed);
	/* [MB:parked] seq_cst: pairs with uaio_ready_expect(). */
	and_seq_cst(&ready->keepers, ~(uint32_t)UAIO_LIST);
}

/*
 * Adopt the queue: add its epoll to the thread's own epoll.
 * Return: false if that is not possible; the queue then stays on the list.
 */
static bool adopt(struct uaio_ready *ready)
{
	bool is_ours = false;

	if (uaio_ready_has(ready, UAIO_ADOPTER))
		return true;
	if (!uaio_poller_is_open(&ready->poller))
		return false;
	lock();
	if (uaio_poller_nest(&fallback.poller, EPOLL_CTL_ADD, &ready->poller,
			     (uintptr_t)ready) == 0) {
		list_add_tail(&fallback.adopted, &ready->in_adopted);
		/*
		 * [MB:led] [step: ADOPT] seq_cst: a thread that parks from here on adds
		 * the file to the epoll itself; the caller adds files of earlier
		 * requests. Pairs with uaio_ready_submitted().
		 */
		or_seq_cst(&ready->keepers, UAIO_ADOPTER);
		is_ours = true;
	}
	unlock();
	return is_ours;
}

static void disown_locked(struct uaio_ready *ready)
{
	if (list_is_empty(&ready->in_adopted))
		return;
	(void)uaio_poller_nest(&fallback.poller, EPOLL_CTL_DEL, &ready->poller,
			       0);
	list_remove(&ready->in_adopted);
	/* [MB:parked] seq_cst: pairs with uaio_ready_expect(). */
	and_seq_cst(&ready->keepers, ~(uint32_t)UAIO_ADOPTER);
}

/* Serving one queue of the list */

/*
 * Threads of the program serve this queue again: disown it and put it on the list. If
 * workers have submitted requests to the kernel, serve the queue again at once, because
 * perhaps no thread of the program wakes to complete these requests.
 */
static void leave_to_callers(struct uaio_ready *ready)
{
	lock();
	/* [step: DISOWN] */
	disown_locked(ready);
	(void)list_locked(ready);
	/*
	 * Read the count of workers' requests only after disown_locked(): a worker
	 * counts its request, then reads keepers.
	 */
	if (uaio_native_has_by_workers(uaio_care_group(ready)))
		ready->is_urgent = true;
	unlock();
}

/*
 * Serve an adopted queue whose epoll has events. If threads of the program serve it
 * again, leave it to them.
 */
static void answer(struct uaio_ready *ready)
{
	bool is_left;

	/* relaxed: if the leader stops just now, it puts the queue on the list again */
	if (uaio_care_is_attended(ready) ||
	    uaio_ready_has(ready, UAIO_LEADER)) {
		leave_to_callers(ready);
		return;
	}
	is_left = !uaio_care_serve(ready);
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
	/*
	 * [MB:served] release: the thread's work in the queue (a stay, I2) is over.
	 * Pairs with uaio_fallback_forget().
	 */
	__atomic_fetch_add(&fallback.drain, 1, __ATOMIC_RELEASE);
	uaio_wake(&fallback.drain, INT32_MAX);
}

/*
 * Take the first queue of `round`, the queues at which the thread has not yet looked in
 * this round. Put it back on the thread's list (`listed`), and begin to work in it (a
 * stay, I2).
 */
static struct uaio_ready *next_listed(struct list *round, bool *ret_is_urgent)
{
	struct uaio_ready *ready = NULL;
	struct list *node;

	lock();
	node = list_pop(round);
	if (node) {
		ready = container_of(node, struct uaio_ready, in_listed);
		list_add_tail(&fallback.listed, &ready->in_listed);
		ready->nr_served++;
		*ret_is_urgent = ready->is_urgent;
		ready->is_urgent = false;
	}
	unlock();
	return ready;
}

/*
 * Called after UAIO_LIST was cleared. A leader may have stopped just before, and left
 * files that no epoll reports.
 * Return: whether the queue must go back on the list. It must if a request is parked,
 * no thread leads, and this thread's epoll may not report all files. The last condition
 * holds if this thread has not adopted the queue, or if a file is kicked, missing in
 * the queue's epoll, or in doubt (ready.h).
 */
static bool is_left_to_us(struct uaio_ready *ready)
{
	/*
	 * [MB:parked] [step: UNLISTED_LOOK] seq_cst: pairs with uaio_ready_expect() and
	 * let_go_locked(). The read of has_kicked is relaxed: threads write it under
	 * the lock that uaio_ready_is_armed() takes.
	 */
	uint32_t nr_parked = load_seq_cst(&ready->nr_parked),
		 keepers = load_seq_cst(&ready->keepers);

	return nr_parked && !(keepers & UAIO_LEADER) &&
	       (!(keepers & UAIO_ADOPTER) || !uaio_ready_is_armed(ready) ||
		load_relaxed(&ready->has_kicked));
}

static void leave_listed(struct uaio_ready *ready)
{
	bool is_urgent;

	lock();
	unlist_locked(ready);
	is_urgent = ready->is_urgent;
	unlock();
	if (!is_urgent && !is_left_to_us(ready))
		return;
	lock();
	(void)list_locked(ready);
	unlock();
}

/*
 * Call uaio_care_for() for each queue on the list.
 * Return: the greatest of its answers: OURS if any queue still needs this thread.
 */
static enum uaio_care look_at_all(void)
{
	enum uaio_care most = UAIO_CARE_LEAVE;
	struct uaio_ready *ready;
	struct list round;
	bool is_urgent;

	list_init(&round);
	lock();
	fallback.has_new = false;
	list_splice_tail(&round, &fallback.listed);
	unlock();
	while ((ready = next_listed(&round, &is_urgent))) {
		enum uaio_care care = uaio_care_for(ready, is_urgent, adopt);

		if (care == UAIO_CARE_LEAVE)
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
		/*
		 * relaxed: UAIO_ADOPTER changes only under the lock. If it is clear,
		 * the queue was closed meanwhile.
		 */
		is_ours = uaio_ready_has(ready, UAIO_ADOPTER);
		if (is_ours)
			ready->nr_served++;
		unlock();
		if (!is_ours)
			continue;
		answer(ready);
		end_service(ready);
	}
}

void uaio_fallback_forget(struct uaio_group *group)
{
	struct uaio_ready *ready = &group->ready;

	for (;;) {
		/*
		 * [MB:served] acquire: this thread sees all that the fallback thread
		 * did in the stays (I2) that `drain` counts. Pairs with end_service().
		 */
		uint32_t key = load_acquire(&fallback.drain);
		bool is_served;

		lock();
		list_remove(&ready->in_listed);
		disown_locked(ready);
		is_served = ready->nr_served;
		unlock();
		if (!is_served)
			return;
		(void)uaio_sleep(&fallback.drain, key, UAIO_FOREVER);
	}
}

/*
 * The thread
 */

/* After a long time without events: disown queues without parked requests. */
static void disown_idle_locked(void)
{
	list_for_each_safe (pos, &fallback.adopted) {
		struct uaio_ready *ready =
			container_of(pos, struct uaio_ready, in_adopted);

		if (load_relaxed(&ready->nr_parked))
			continue;
		disown_locked(ready);
		/*
		 * [MB:parked] [step: DISOWNED_LOOK] seq_cst: UAIO_ADOPTER was cleared
		 * before this read, as in is_left_to_us().
		 */
		if (load_seq_cst(&ready->nr_parked))
			(void)list_locked(ready);
	}
}

/* Return: whether the thread must end, after a long time without events. */
static bool is_over(void)
{
	/*
	 * If only threads of the library are left, the process ends when they end. So
	 * this thread then ends despite parked requests.
	 */
	bool is_over = uaio_threads_are_last();

	lock();
	disown_idle_locked();
	is_over = is_over || (list_is_empty(&fallback.listed) &&
			      list_is_empty(&fallback.adopted));
	if (is_over)
		fallback.has_thread = fallback.is_ticking = false;
	unlock();
	return is_over;
}

/* Return: when to look at the list again if nothing happens until then. */
static int64_t next_look(enum uaio_care care, int64_t *tick_ns)
{
	*tick_ns = care == UAIO_CARE_OTHERS ? 2 * *tick_ns : TICK_NS;
	if (*tick_ns > TICK_NS_MAX)
		*tick_ns = TICK_NS_MAX;
	lock();
	fallback.is_ticking = !list_is_empty(&fallback.listed);
	fallback.is_slow = *tick_ns > TICK_NS;
	unlock();
	return uaio_now_ns() +
	       (fallback.is_ticking ? *tick_ns : UAIO_FALLBACK_IDLE_NS);
}

/* The first timers of the queues that the thread serves */
struct timers {
	/* timers up to `now` are due; `next`: when the thread must look again */
	int64_t now, next;
	unsigned nr;
	/*
	 * queues whose timers are due; nr_served of each is raised for this thread (I2)
	 */
	struct uaio_ready *due[32];
};

static void look_for_due_locked(struct uaio_ready *ready, struct timers *timers)
{
	/*
	 * Both loads are relaxed: while a queue has a leader, the leader completes its
	 * timers. A leader that stops puts the queue on the fallback thread's list,
	 * where note_timers_locked() finds the timers.
	 */
	int64_t next = load_relaxed(&ready->next_ns);

	if (likely(next == UAIO_FOREVER) || uaio_ready_has(ready, UAIO_LEADER))
		return;
	fallback.has_timers = true;
	timers->next = uaio_timers_sooner(ready, timers->next);
	if (next <= timers->now && timers->nr < 32) {
		ready->nr_served++;
		timers->due[timers->nr++] = ready;
	}
}

static void look_for_timers_locked(struct timers *timers)
{
	if (likely(!fallback.has_timers))
		return;
	fallback.has_timers = false;
	list_for_each (pos, &fallback.listed)
		look_for_due_locked(
			container_of(pos, struct uaio_ready, in_listed),
			timers);
	list_for_each (pos, &fallback.adopted)
		look_for_due_locked(
			container_of(pos, struct uaio_ready, in_adopted),
			timers);
}

/*
 * Complete timers that are due. If more queues have such timers than due[] holds, the
 * thread soon looks again.
 */
static void end_timers(void)
{
	struct timers timers = { .now = uaio_now_ns() };

	lock();
	look_for_timers_locked(&timers);
	unlock();
	for (unsigned i = 0; i < timers.nr; i++) {
		uaio_timers_end(uaio_care_group(timers.due[i]));
		end_service(timers.due[i]);
	}
}

/*
 * Return: when to look at the list again; earlier than `due` if a queue was listed, or
 * if a timer expires earlier; 0: at once.
 */
static int64_t new_look(int64_t due)
{
	struct timers timers = { .now = 0 };
	bool is_urgent = false;

	lock();
	list_for_each (pos, &fallback.listed)
		is_urgent |= container_of(pos, struct uaio_ready, in_listed)
				     ->is_urgent;
	if (!list_is_empty(&fallback.listed) &&
	    (!fallback.is_ticking || (fallback.has_new && fallback.is_slow))) {
		int64_t soon = uaio_now_ns() + TICK_NS;

		due = soon < due ? soon : due;
		fallback.is_ticking = true;
		fallback.is_slow = false;
	}
	timers.next = due;
	look_for_timers_locked(&timers);
	fallback.due_ns = is_urgent ? 0 : timers.next;
	unlock();
	return fallback.due_ns;
}

/*
 * Wait for events of the queues that this thread has adopted (adopt()), and serve these
 * queues. Stop when it is time to look at the list of other queues.
 * Return: 0 if the last wait ended without events.
 */
static int answer_until(int64_t due)
{
	enum { NR = 32 };
	struct epoll_event events[NR];
	struct uaio_poller_wait wait = {
		.generation = uaio_poller_generation(&fallback.poller),
	};
	int nr;

	do {
		wait.deadline_ns = new_look(due);
		if (!wait.deadline_ns)
			return 1;
		due = wait.deadline_ns;
		nr = uaio_poller_wait(&fallback.poller, events, NR, &wait);
		uaio_ready_add(&uaio_ready_counters.nr_fallback_wakes, 1);
		answer_all(events, nr);
	} while (nr > 0 && uaio_now_ns() < due);
	return nr;
}

static void *stand_by(void *arg)
{
	int64_t tick_ns = TICK_NS, looked_ns = uaio_now_ns();
	bool is_idle, has_natives = false;

	(void)arg;
	uaio_thread_begin("uaio-ready");
	do {
		int64_t due;

		end_timers();
		due = next_look(look_at_all(), &tick_ns);

		is_idle = answer_until(due) == 0 && !fallback.is_ticking &&
			  uaio_now_ns() >= due;
		has_natives = uaio_natives_look(&looked_ns, has_natives);
	} while (!is_idle || has_natives || !is_over());
	uaio_thread_end();
	return NULL;
}
