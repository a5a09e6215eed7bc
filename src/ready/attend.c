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
 * How many runs a queue gets before a sleep; requests that are still ready then are
 * left to other threads.
 */
enum { ROUNDS = 16 };

/* A queue that a thread attends to. */
struct attended {
	/*
	 * Its memory may belong to another client by now, which does no harm: the
	 * generation is checked.
	 */
	struct uaio_queue *queue;
	uint64_t opened; /* the queue's generation when it was noted */
	/*
	 * The attender to which this thread left the queue last: another thread's,
	 * which had noted the queue later (see is_left_to_another()).
	 */
	const void *left_to;
	struct uaio_poller_hold hold;
	uint32_t generation; /* the poller's generation */
	/* how many sleeps in a row ended without an event of the queue */
	uint32_t nr_vain;
	bool is_led;
};

/* What one thread attends to. In slab memory, as siglongjmp() may leave a sleep. */
struct attender {
	struct uaio_slab_node slab;

	/* leads all queues marked is_led; on no queue's list */
	struct uaio_waiter waiter;
	uint32_t serial; /* number of the last sleep */
	bool sleeps;     /* leads, and is in a sleep or has left it */
	bool is_fixed;   /* the thread iterates over queues[] */
	unsigned nr;
	uint32_t chance; /* random: which queue the next new one replaces */
	uint32_t nr_begun;
	struct attended queues[UAIO_ATTENDED_MAX];
};

static struct uaio_slab attenders;

/* In a child of fork() this is the parent's, and is not used. */
static _Thread_local struct attender *own
	__attribute__((tls_model("initial-exec")));

void uaio_attend_init(void)
{
	uaio_slab_init(&attenders, sizeof(struct attender), 4096);
}

/* Return: the data of this thread's attending, or NULL if it does not attend. */
static inline struct attender *mine(void)
{
	return uaio_attended && uaio_attended == uaio_engine_start_nr() ? own
									: NULL;
}

/* The queues to which a thread attends */

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
 * Return: how many queues a thread may attend to. If the library cannot defer a signal
 * handler, the handler may keep the thread in its sleep, or leave the sleep for good:
 * then only one queue shall be without a thread (I5).
 */
static unsigned max_nr(void)
{
	return uaio_sleep_ends_for_handlers() ? UAIO_ATTENDED_MAX : 1;
}

/*
 * Drop queues that have ended; if all slots are used, also queues without parked
 * requests.
 */
static void drop_some(struct attender *attender)
{
	bool is_full = attender->nr >= max_nr();
	unsigned nr = 0;

	for (unsigned i = 0; i < attender->nr; i++) {
		const struct attended *attended = &attender->queues[i];
		const struct uaio_queue *queue = attended->queue;

		/* relaxed, both: lead() looks under the lock */
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
 * Return: a slot for one more queue, or NULL. If all slots are used, it is the slot of
 * a random queue: so if there are more queues than slots, the busy queues get most of
 * them.
 */
static struct attended *make_place(struct attender *attender)
{
	/* A queue that is led keeps its slot. */
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
	 * A thread of the library, which may start a linked request, does not attend.
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
	 * relaxed, all: the caller keeps the queue alive; which thread leads it is only
	 * a hint
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
 * Return: whether from here on the epoll reports everything. It does not report timers:
 * a queue that has some is left to the fallback thread.
 */
static bool prepare(struct uaio_group *group)
{
	bool has_retried = false;

	for (unsigned i = 0; i < ROUNDS; i++) {
		if (uaio_ready_run(group, UAIO_RUN_BY_LEADER))
			continue;
		if (!uaio_ready_arm(group)) {
			/*
			 * A file that became ready after it was tried is in doubt, so
			 * try once more. Files that stay in doubt, or that the epoll
			 * refuses, are left to the fallback thread.
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
 * Return: whether the thread leaves the queue to the fallback thread this time, since
 * many sleeps in a row ended without an event of the queue. Of many queues most may be
 * idle.
 */
static bool is_quiet(const struct attender *attender,
		     const struct attended *attended)
{
	enum { PATIENCE = 64, LOOK_EVERY = 16 };

	return attender->nr > 1 && attended->nr_vain > PATIENCE &&
	       attender->nr_begun % LOOK_EVERY;
}

/*
 * Return: whether to let another thread lead the queue, which has noted the queue since
 * this thread did. The other thread has the time of one sleep of this thread to become
 * the leader. So each of the threads that sleep leads the queues in which it has parked
 * requests, and a thread that never sleeps in this way does not keep a queue from being
 * led.
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
 * Return: whether the thread leads the queue. *ret_is_at_rest: nothing has to be
 * prepared before the sleep.
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
 * Return: the descriptor to be polled if the thread leads the queue, and may sleep;
 * else -1.
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
	 * relaxed: a thread that parks a request meanwhile makes sure itself that a
	 * thread looks after it, or wakes the leader
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
	 * If the queue ends from here on, that wakes the thread that holds its epoll.
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

/* Execute the requests whose files the epoll reports. */
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
 * End the sleep. ready: a bit for each queue that is led, in their order: its epoll has
 * events.
 */
static void end(struct attender *attender, uint32_t ready, bool is_lost)
{
	/*
	 * From here on the thread is awake: what it runs must not take this sleep for a
	 * lost one.
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
	/* A signal handler may have forked: in the child the engine does not run. */
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
	 * Queues that the thread leads have the address of its waiter, so that memory
	 * is kept.
	 */
	if (!attender || (keeps && attender->sleeps))
		return;
	if (attender->sleeps)
		end(attender, 0, true);
	uaio_slab_put(&attenders, attender);
}
