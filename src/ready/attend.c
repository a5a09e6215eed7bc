/* SPDX-License-Identifier: MIT */
#include "ready/attend.h"

#include "base/check.h"
#include "base/slab.h"
#include "base/sleepcall.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "req/queue.h"
#include "native/native.h"
#include "ready/lead.h"
#include "ready/ready.h"
#include "ready/timer.h"
#include "ready/waiter.h"

_Thread_local uint32_t uaio_attended
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/*
 * How many times a thread tries the ready requests of one queue before it sleeps. After
 * that, it leaves the requests that are still ready to other threads.
 */
enum { ROUNDS = 16 };

/* A queue that this thread serves during its own poll() or epoll_wait(). */
struct attended {
	/*
	 * The queue may have been closed, and its memory reused for another client's
	 * queue. This is harmless, because the thread first compares the queue's
	 * generation with `opened`.
	 */
	struct uaio_queue *queue;
	/* the queue's generation when this thread stored the pointer */
	uint64_t opened;
	/*
	 * What is_left_to_another() last read from the queue's member `attender`. The
	 * pointer is only compared, never followed.
	 */
	const void *left_to;
	struct uaio_poller_hold hold;
	uint32_t generation; /* the poller's generation */
	/* how many sleeps in a row ended without an event of the queue */
	uint32_t nr_vain;
	bool is_led;
};

/*
 * The queues that one thread serves during its sleeps. The memory is in a slab, not on
 * the stack, because a signal handler may leave the sleep by siglongjmp().
 */
struct attender {
	struct uaio_slab_node slab;

	/*
	 * For other threads, this waiter is the leader of all queues that are marked
	 * is_led.
	 */
	struct uaio_waiter waiter;
	/* number of this thread's latest sleep */
	uint32_t serial;
	/*
	 * the thread sleeps as a leader; stays set if siglongjmp() leaves the sleep
	 */
	bool sleeps;
	/* set while the thread iterates over queues[], so no slot may change */
	bool is_fixed;
	unsigned nr;
	/* random number: selects the slot that a new queue takes over */
	uint32_t chance;
	uint32_t nr_begun;
	struct attended queues[UAIO_ATTENDED_MAX];
};

static struct uaio_slab attenders;

/*
 * In a child of fork(), mine() ignores this pointer, because it points to data of the
 * parent.
 */
static _Thread_local struct attender *own
	__attribute__((tls_model("initial-exec")));

void uaio_attend_init(void)
{
	uaio_slab_init(&attenders, sizeof(struct attender), 4096);
}

/*
 * Return: this thread's list of queues to serve in its sleeps; NULL if it has none.
 */
static inline struct attender *mine(void)
{
	return uaio_attended && uaio_attended == uaio_engine_start_nr() ? own
									: NULL;
}

/*
 * Make this thread's list of queues.
 * Return: NULL without memory, or if the library cannot learn of the thread's end.
 */

static __attribute__((noinline)) struct attender *make(void)
{
	struct attender *attender =
		uaio_lost_watch() ? uaio_slab_get(&attenders) : NULL;

	if (!attender)
		return NULL;
	attender->waiter = (struct uaio_waiter){ .wake_fd = -1 };
	attender->sleeps = attender->is_fixed = false;
	attender->nr = attender->chance = attender->nr_begun = 0;
	own = attender;
	uaio_attended = uaio_engine_start_nr();
	return attender;
}

/*
 * Return: how many queues a thread may serve in one sleep. If the library defers the
 * program's signal handlers (sleepcall.h), the sleep ends before a handler runs.
 * Otherwise the handler runs inside the sleep, and may run for long, or leave the sleep
 * by siglongjmp(). Meanwhile no thread serves the queues, so the thread may serve only
 * one (I5).
 */
static unsigned max_nr(void)
{
	return uaio_sleep_ends_for_handlers() ? UAIO_ATTENDED_MAX : 1;
}

/*
 * Remove queues that were closed. If all slots are used, also remove queues in which no
 * request is parked (waits for its file).
 */
static void drop_some(struct attender *attender)
{
	bool is_full = attender->nr >= max_nr();
	unsigned nr = 0;

	for (unsigned i = 0; i < attender->nr; i++) {
		const struct attended *attended = &attender->queues[i];
		const struct uaio_queue *queue = attended->queue;

		/*
		 * relaxed, both loads: lead() checks the queue again under its lock
		 */
		if (load_relaxed(&queue->generation) == attended->opened &&
		    (!is_full || load_relaxed(&queue->group.ready.nr_parked)))
			attender->queues[nr++] = *attended;
	}
	attender->nr = nr;
}

static struct attended *find(struct attender *attender,
			     const struct uaio_queue *queue)
{
	for (unsigned i = 0; i < attender->nr; i++)
		if (attender->queues[i].queue == queue)
			return &attender->queues[i];
	return NULL;
}

/*
 * Return: a slot for one more queue, or NULL. If all slots are used, a random queue
 * loses its slot. A queue gets a slot again when the thread next parks a request there.
 * So busy queues have most of the slots.
 */
static struct attended *make_place(struct attender *attender)
{
	/*
	 * While the thread sleeps, or iterates over the slots, no queue loses its slot.
	 */
	bool is_fixed = attender->sleeps || attender->is_fixed;

	if (!is_fixed)
		drop_some(attender);
	if (attender->nr < max_nr())
		return &attender->queues[attender->nr++];
	attender->chance = attender->chance * 1664525 + 1013904223;
	return is_fixed ? NULL
			: &attender->queues[(attender->chance >> 16) %
					    attender->nr];
}

void uaio_attend_note(struct uaio_queue *queue)
{
	struct attender *attender = mine();
	struct attended *attended;

	/*
	 * A thread of the library comes here when it starts a linked request. It never
	 * leads, so it needs no list.
	 */
	if (uaio_is_own_thread() || (!attender && !(attender = make())))
		return;
	attended = find(attender, queue);
	if (!attended) {
		attended = make_place(attender);
		if (!attended)
			return;
		*attended = (struct attended){ .queue = queue };
	}
	/*
	 * relaxed, all: the caller keeps the queue alive, and the queue's `attender` is
	 * only a hint about which thread shall lead it
	 */
	attended->opened = load_relaxed(&queue->generation);
	attended->nr_vain = 0;
	if (load_relaxed(&queue->group.ready.attender) != attender)
		store_relaxed(&queue->group.ready.attender, attender);
}

/*
 * A sleep begins
 */

/*
 * Execute requests that are ready, and put the files of all others into the queue's
 * epoll.
 * Return: whether the epoll now reports everything that the queue waits for. The epoll
 * does not report timers, so the fallback thread serves a queue that has timers.
 */
static bool prepare(struct uaio_group *group)
{
	bool has_retried = false;

	for (unsigned i = 0; i < ROUNDS; i++) {
		if (uaio_ready_run(group, UAIO_RUN_BY_LEADER))
			continue;
		if (!uaio_ready_arm(group)) {
			/*
			 * If a file becomes ready just after a thread has tried its
			 * requests, the epoll may not report that file. So try the
			 * requests once more. If that does not help, or the epoll
			 * refuses the file, leave the queue to the fallback thread.
			 */
			if (has_retried)
				return false;
			has_retried = true;
			uaio_ready_kick_refused(group);
			continue;
		}
		if (!uaio_ready_has_kicked(&group->ready))
			return uaio_timers_sooner(&group->ready,
						  UAIO_FOREVER) == UAIO_FOREVER;
	}
	return false;
}

/*
 * Return: whether the thread leaves the queue to the fallback thread in this sleep. It
 * does so if many sleeps in a row ended without an event of the queue. This saves time
 * if a thread has many queues, and most are idle.
 */
static bool is_quiet(const struct attender *attender,
		     const struct attended *attended)
{
	enum { PATIENCE = 64, LOOK_EVERY = 16 };

	return attender->nr > 1 && attended->nr_vain > PATIENCE &&
	       attender->nr_begun % LOOK_EVERY;
}

/*
 * Return: whether this thread lets another thread lead the queue in this sleep: the
 * thread that last parked a request there. If the other thread has not become the
 * leader by this thread's next sleep, this thread may lead the queue. So a thread that
 * never sleeps in its own poll() cannot keep others from leading the queue.
 */
static bool is_left_to_another(struct attender *attender,
			       struct attended *attended)
{
	/* relaxed: a hint */
	const void *last = load_relaxed(&attended->queue->group.ready.attender);
	bool is_left = last != attender && last != attended->left_to;

	attended->left_to = last;
	return is_left;
}

/*
 * Make the thread the leader of the queue, if the queue is open and has no leader.
 * Return: whether the thread leads it now. *ret_is_at_rest, if so: whether the thread
 * may sleep without prepare(). If not, the queue is pinned (kept alive) for the caller.
 */
static bool lead(struct attender *attender, struct attended *attended,
		 bool *ret_is_at_rest)
{
	struct uaio_queue *queue = attended->queue;
	struct uaio_ready *ready = &queue->group.ready;

	uaio_queue_lock(queue);
	attended->is_led =
		!uaio_queue_is_over_locked(queue, attended->opened) &&
		uaio_queue_is_open_locked(queue) &&
		uaio_lead_unpinned_locked(queue, &attender->waiter);
	if (attended->is_led) {
		store_relaxed(&ready->attender, attender);
		attended->generation = uaio_poller_generation(&ready->poller);
		*ret_is_at_rest =
			uaio_ready_is_at_rest(ready) &&
			!uaio_native_nr(&queue->group) &&
			uaio_timers_sooner(ready, UAIO_FOREVER) == UAIO_FOREVER;
		if (!*ret_is_at_rest)
			uaio_ready_pin(ready);
	}
	uaio_queue_unlock(queue);
	return attended->is_led;
}

/*
 * Try to lead one queue in the sleep that begins.
 * Return: the descriptor of the queue's epoll, for which the thread must poll; -1 if
 * the thread does not lead the queue.
 */
static int begin_one(struct attender *attender, struct attended *attended)
{
	struct uaio_queue *queue = attended->queue;
	bool is_ready = false;
	int fd = -1;

	attended->is_led = false;
	if (is_quiet(attender, attended))
		return -1;
	attended->nr_vain++;
	/*
	 * relaxed: if a thread parks a request after this read, the parking thread
	 * itself makes sure that some thread serves the queue
	 */
	if (!load_relaxed(&queue->group.ready.nr_parked) ||
	    uaio_ready_has(&queue->group.ready, UAIO_LEADER) ||
	    is_left_to_another(attender, attended) ||
	    !lead(attender, attended, &is_ready))
		return -1;
	if (!is_ready) {
		is_ready = prepare(&queue->group);
		uaio_ready_unpin(&queue->group.ready);
	}
	/*
	 * The hold keeps the epoll open. If the queue is closed from here on, the
	 * closing thread wakes this thread from its sleep.
	 */
	if (is_ready)
		fd = uaio_poller_hold(&queue->group.ready.poller,
				      attended->generation, &attended->hold);
	if (fd >= 0)
		return fd;
	attended->is_led = false;
	uaio_lead_end(queue, &attender->waiter, false);
	return -1;
}

static bool begin(struct attender *attender, struct uaio_attend *ret)
{
	ret->nr = 0;
	drop_some(attender);
	attender->nr_begun++;
	attender->is_fixed = true;
	for (unsigned i = 0; i < attender->nr; i++) {
		int fd = begin_one(attender, &attender->queues[i]);

		if (fd >= 0)
			ret->fds[ret->nr++] = fd;
	}
	attender->is_fixed = false;
	if (!ret->nr)
		return false;
	uaio_ready_count_sleep();
	ret->serial = ++attender->serial;
	attender->sleeps = true;
	return true;
}

bool uaio_attend_begin(struct uaio_attend *ret)
{
	struct attender *attender;
	bool has_begun;

	if (!uaio_engine_is_here() || !uaio_enter())
		return false;
	uaio_lead_forget();
	attender = mine();
	has_begun = attender && begin(attender, ret);
	if (has_begun)
		(void)uaio_step_out_to(false);
	else
		uaio_leave();
	return has_begun;
}

/*
 * A sleep ends
 */

/*
 * Execute the requests of one queue on files that the queue's epoll reports as ready.
 */
static void run(const struct attender *attender,
		const struct attended *attended)
{
	enum { NR = 64 };
	struct uaio_group *group = &attended->queue->group;
	struct epoll_event events[NR];
	int nr;

	if (!uaio_lead_pin_again(attended->queue, &attender->waiter))
		return;
	nr = uaio_poller_collect(&group->ready.poller, attended->generation,
				 events, NR);
	(void)uaio_ready_run_events(group, UAIO_RUN_BY_LEADER, events,
				    nr > 0 ? nr : 0);
	uaio_ready_unpin(&group->ready);
}

/*
 * End the sleep. ready: one bit for each queue that the thread leads, in the order of
 * queues[]; set: the queue's epoll has events. is_lost: another function than
 * uaio_attend_end() ends the sleep, so events that the thread had taken may be lost
 * (lead.h).
 */
static void end(struct attender *attender, uint32_t ready, bool is_lost)
{
	/*
	 * The thread is awake now. Clear `sleeps` before requests run: while they run,
	 * the library may call uaio_attend_forget(), which would end the sleep as lost.
	 */
	attender->sleeps = false;
	attender->is_fixed = true;
	for (unsigned i = 0; i < attender->nr; i++) {
		struct attended *attended = &attender->queues[i];

		if (!attended->is_led)
			continue;
		attended->is_led = false;
		uaio_poller_release(&attended->hold);
		if (ready & 1) {
			attended->nr_vain = 0;
			run(attender, attended);
		}
		ready >>= 1;
		uaio_lead_end(attended->queue, &attender->waiter, is_lost);
	}
	attender->is_fixed = false;
}

void uaio_attend_end(const struct uaio_attend *attend, uint32_t ready)
{
	struct attender *attender;

	if (!uaio_enter())
		return;
	/*
	 * A signal handler may have called fork() in the sleep. In the child the
	 * library's engine does not run, so there is no sleep to end.
	 */
	attender = uaio_engine_is_here() ? mine() : NULL;
	if (attender && attender->sleeps && attender->serial == attend->serial)
		end(attender, ready, false);
	uaio_leave();
}

void uaio_attend_awake_slowly(void)
{
	const struct attender *attender = mine();

	if (likely(!attender || !attender->sleeps) || !uaio_engine_is_here() ||
	    !uaio_enter())
		return;
	uaio_attend_forget();
	uaio_leave();
}

void uaio_attend_forget(void)
{
	struct attender *attender = mine();

	if (unlikely(attender && attender->sleeps))
		end(attender, 0, true);
}

void uaio_attend_leave(bool keeps)
{
	struct attender *attender = mine();

	uaio_attended = 0;
	own = NULL;
	/*
	 * Queues that the thread still leads point to the waiter in this memory, so the
	 * memory must stay allocated.
	 */
	if (!attender || (keeps && attender->sleeps))
		return;
	if (attender->sleeps)
		end(attender, 0, true);
	uaio_slab_put(&attenders, attender);
}
