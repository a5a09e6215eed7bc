/* SPDX-License-Identifier: MIT */
#include "ready/attend.h"

#include "base/check.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "req/queue.h"
#include "ready/lead.h"
#include "ready/ready.h"
#include "ready/timer.h"
#include "ready/waiter.h"

_Thread_local uint32_t uaio_attended
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Rounds before a sleep; requests still ready then are left to other threads. */
enum { ROUNDS = 16 };

/*
 * The queue in which this thread last parked such a request. Its memory may belong
 * to another client by now, which does no harm. In a child of fork() it is the
 * parent's, and is not used.
 */
static _Thread_local struct uaio_queue *attended
	__attribute__((tls_model("initial-exec")));

void uaio_attend_note(struct uaio_queue *queue)
{
	attended = queue;
	uaio_attended = uaio_engine_start_nr();
}

/* Return: whether the waiter leads now; then it has a pin. */
static bool lead(struct uaio_queue *queue, struct uaio_waiter *waiter)
{
	bool leads;

	uaio_queue_lock(queue);
	leads = uaio_queue_is_open_locked(queue) &&
		uaio_lead_locked(queue, waiter);
	uaio_queue_unlock(queue);
	return leads;
}

/*
 * Return: whether from here on the epoll tells of all that is to be done. It does
 * not tell the time: timers are the fallback thread's.
 */
static bool prepare(struct uaio_group *group)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		if (uaio_ready_run(group, UAIO_RUN_BY_LEADER))
			continue;
		/* Files that the epoll refuses are the fallback thread's. */
		if (!uaio_ready_arm(group))
			return false;
		if (!uaio_ready_has_kicked(&group->ready))
			return uaio_timers_sooner(&group->ready,
						  UAIO_FOREVER) == UAIO_FOREVER;
	}
	return false;
}

/* Return: whether the thread leads and may sleep. Either way it holds no pin. */
static bool begin(struct uaio_attend *attend)
{
	struct uaio_group *group = &attend->queue->group;
	struct uaio_poller *poller = &group->ready.poller;
	bool is_ready;

	if (!lead(attend->queue, attend->waiter))
		return false;
	attend->generation = uaio_poller_generation(poller);
	is_ready = prepare(group);
	if (is_ready)
		uaio_ready_count_sleep();
	uaio_ready_unpin(&group->ready);
	/* A queue that ends from here on wakes the waiter that is counted. */
	if (is_ready)
		attend->fd = uaio_poller_enter(poller, attend->generation,
					       &attend->serial);
	if (is_ready && attend->fd >= 0)
		return true;
	uaio_lead_stop(attend->queue, attend->waiter);
	return false;
}

bool uaio_attend_begin(struct uaio_attend *ret)
{
	struct uaio_queue *queue;
	bool has_begun;

	if (!uaio_engine_is_here() || !uaio_enter())
		return false;
	uaio_lead_forget();
	queue = uaio_attended == uaio_engine_start_nr() ? attended : NULL;
	/* relaxed: other threads see to what they park, or tell the leader */
	has_begun = queue && load_relaxed(&queue->group.ready.nr_parked) &&
		    !uaio_ready_has(&queue->group.ready, UAIO_LEADER) &&
		    uaio_lost_watch() && (ret->waiter = uaio_waiter_new(queue));
	if (has_begun) {
		ret->queue = queue;
		has_begun = begin(ret);
		if (!has_begun)
			uaio_waiter_put(ret->waiter);
	}
	if (has_begun)
		(void)uaio_step_out_to(false);
	else
		uaio_leave();
	return has_begun;
}

/* The caller has a pin. */
static void run(const struct uaio_attend *attend)
{
	enum { NR = 64 };
	struct uaio_group *group = &attend->queue->group;
	struct epoll_event events[NR];
	int nr = uaio_poller_collect(&group->ready.poller, attend->generation,
				     events, NR);

	(void)uaio_ready_run_events(group, UAIO_RUN_BY_LEADER, events,
				    nr > 0 ? nr : 0);
}

void uaio_attend_end(const struct uaio_attend *attend, bool is_ready)
{
	struct uaio_queue *queue = attend->queue;

	if (!uaio_enter())
		return;
	/* A signal handler may have forked: its child has no engine. */
	if (!uaio_engine_is_here()) {
		uaio_leave();
		return;
	}
	uaio_poller_leave(attend->serial);
	if (uaio_lead_pin_again(queue, attend->waiter)) {
		if (is_ready)
			run(attend);
		uaio_ready_unpin(&queue->group.ready);
		uaio_lead_stop(queue, attend->waiter);
	}
	uaio_waiter_put(attend->waiter);
	uaio_leave();
}
