/* SPDX-License-Identifier: MIT */
#include "ready/lead.h"

#include <errno.h>

#include "base/check.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "req/queue.h"
#include "native/native.h"
#include "ready/attend.h"
#include "ready/ready.h"
#include "ready/timer.h"

/* If the epoll does not report all files, the leader sleeps no longer than this. */
enum { SLICE_NS = 1000000 };

/* The most events that a leader takes from the epoll in one call */
enum { EVENTS = 64 };

/*
 * A thread begins to lead: wake the waiters that came while there was no leader. They
 * did not check yet whether the leader is lost (lead.h, I5); from now on they do. This
 * is rare, so they are woken under the lock.
 */
static void tell_leaderless_locked(struct uaio_queue *queue)
{
	struct uaio_wakeups wakeups = { 0 };

	list_for_each_safe (pos, &queue->waiters) {
		struct uaio_waiter *waiter =
			container_of(pos, struct uaio_waiter, node);

		if (waiter->is_leaderless)
			uaio_waiter_tell_locked(queue, waiter, &wakeups);
	}
	uaio_wakeups_deliver(&wakeups);
}

bool uaio_lead_unpinned_locked(struct uaio_queue *queue,
			       struct uaio_waiter *waiter)
{
	struct uaio_ready *ready = &queue->group.ready;

	/*
	 * [MB:led] [step: LEAD_LOOK] seq_cst: the waiter counts itself in nr_waiters,
	 * then reads nr_parked. Pairs with uaio_ready_submitted().
	 */
	if (queue->leader || !load_seq_cst(&ready->nr_parked) ||
	    !uaio_ready_callers_run())
		return false;
	queue->leader = waiter;
	/*
	 * [MB:led] seq_cst: the leader writes UAIO_LEADER, then looks at the files.
	 * Pairs with uaio_ready_submitted().
	 */
	or_seq_cst(&ready->keepers, UAIO_LEADER);
	tell_leaderless_locked(queue);
	return true;
}

bool uaio_lead_locked(struct uaio_queue *queue, struct uaio_waiter *waiter)
{
	/*
	 * relaxed, both: other threads read these two flags only if the waiter leads,
	 * and then under the lock
	 */
	store_relaxed(&waiter->is_told, 0);
	store_relaxed(&waiter->is_asleep, 0);
	if (!uaio_lead_unpinned_locked(queue, waiter))
		return false;
	waiter->leads = waiter->is_leading = true;
	uaio_ready_pin(&queue->group.ready);
	return true;
}

/*
 * Wake the next waiter that may become the leader.
 * Return: whether there was one.
 */
static bool tell_next_locked(struct uaio_queue *queue,
			     struct uaio_wakeups *wakeups)
{
	list_for_each_safe (pos, &queue->waiters) {
		struct uaio_waiter *waiter =
			container_of(pos, struct uaio_waiter, node);

		if (!waiter->may_lead)
			continue;
		uaio_waiter_tell_locked(queue, waiter, wakeups);
		return true;
	}
	return false;
}

/*
 * Return: whether the fallback thread will serve the queue without being notified.
 * Three conditions must hold. First, the queue was on the fallback thread's list when
 * the leader stopped. That thread takes a queue off the list before it checks for a
 * leader, so it will see that there is none. Second, no waiter is left that could lead.
 * Third, the queue has no timer, because the list alone does not make the fallback
 * thread wake for a timer.
 */
static bool is_listed(const struct uaio_queue *queue, uint32_t keepers)
{
	/*
	 * [MB:timer] seq_cst: the caller has cleared UAIO_LEADER before this read.
	 * Pairs with uaio_timer_tell_sleeper().
	 */
	int64_t next = load_seq_cst(&queue->group.ready.next_ns);

	return keepers & UAIO_LIST && list_is_empty(&queue->waiters) &&
	       next == UAIO_FOREVER;
}

/*
 * From here on no waiter serves the parked requests. is_lost: a signal handler may have
 * left the leader's sleep by siglongjmp(). Events that the leader had read from the
 * epoll are then lost, so kick all files.
 * Return: whether the caller must notify a thread that serves the requests. Then the
 * queue is pinned (kept alive).
 */
static bool let_go_locked(struct uaio_queue *queue, bool is_lost)
{
	struct uaio_ready *ready = &queue->group.ready;

	/*
	 * [MB:parked] [step: DEPOSED_LOOK] seq_cst: clears UAIO_LEADER, then reads
	 * nr_parked. Pairs with uaio_ready_expect().
	 */
	uint32_t keepers = and_seq_cst(&ready->keepers, ~(uint32_t)UAIO_LEADER),
		 nr_parked = load_seq_cst(&ready->nr_parked);

	if (!nr_parked || (!is_lost && is_listed(queue, keepers)))
		return false;
	uaio_ready_pin(ready);
	if (is_lost)
		uaio_ready_kick_all(&queue->group);
	return true;
}

/*
 * The waiter stops leading: clear the leader, and wake another waiter that may lead.
 * Return: whether the caller must notify a thread that serves the requests. Then the
 * queue is pinned (let_go_locked()).
 */
static bool depose_locked(struct uaio_queue *queue, bool is_lost,
			  struct uaio_wakeups *wakeups)
{
	queue->leader = NULL;
	if (!let_go_locked(queue, is_lost))
		return false;
	(void)tell_next_locked(queue, wakeups);
	return true;
}

static void leave_to_others(struct uaio_queue *queue,
			    struct uaio_wakeups *wakeups)
{
	uaio_wakeups_deliver(wakeups);
	(void)uaio_fallback_list(&queue->group);
	uaio_ready_unpin(&queue->group.ready);
}

void uaio_lead_end(struct uaio_queue *queue, const struct uaio_waiter *waiter,
		   bool is_lost)
{
	struct uaio_wakeups wakeups = { 0 };
	bool is_left;

	uaio_queue_lock(queue);
	is_left = queue->leader == waiter &&
		  depose_locked(queue, is_lost, &wakeups);
	uaio_queue_unlock(queue);
	if (is_left)
		leave_to_others(queue, &wakeups);
}

void uaio_lead_stop(struct uaio_queue *queue, struct uaio_waiter *waiter)
{
	waiter->is_leading = false;
	uaio_lead_end(queue, waiter, false);
}

/* Put the queue on the fallback thread's list, if it is not there. */
static void list(struct uaio_group *group)
{
	/*
	 * relaxed: the fallback thread first takes a queue off its list, and then looks
	 * for kicked files under a lock. This thread has kicked files under that lock.
	 * So this thread sees UAIO_LIST cleared, or the fallback thread sees the files.
	 */
	if (!uaio_ready_has(&group->ready, UAIO_LIST))
		(void)uaio_fallback_list(group);
}

void uaio_waiters_pass_on(struct uaio_group *group)
{
	struct uaio_queue *queue = uaio_queue_of(group);
	struct uaio_wakeups wakeups = { 0 };
	bool is_led, was_told = false;

	uaio_queue_lock(queue);
	/* [step: PASS_ON] */
	/*
	 * relaxed: UAIO_LEADER changes only under the queue's lock, which this thread
	 * holds
	 */
	is_led = uaio_ready_has(&group->ready, UAIO_LEADER);
	if (is_led)
		uaio_poller_wake(&group->ready.poller);
	else if (!queue->leader)
		was_told = tell_next_locked(queue, &wakeups);
	uaio_queue_unlock(queue);
	uaio_wakeups_deliver(&wakeups);
	/*
	 * The waiter that was woken to lead may leave without looking at the files. It
	 * may have timed out, or have enough events, or a signal handler may leave its
	 * sleep by siglongjmp(). So the fallback thread looks at the files, too.
	 */
	if (was_told)
		list(group);
	else if (!is_led)
		uaio_fallback_nudge(group);
}

void uaio_waiters_back_up(struct uaio_group *group)
{
	/*
	 * relaxed: a leader first sets UAIO_LEADER, and then takes the lock to look at
	 * the lists. This thread has added a watch to a list under the same lock. So
	 * this thread sees UAIO_LEADER, or the leader sees the watch.
	 */
	if (uaio_ready_has(&group->ready, UAIO_LEADER))
		uaio_waiters_pass_on(group);
	else
		list(group);
}

bool uaio_lead_pin_again(struct uaio_queue *queue,
			 const struct uaio_waiter *waiter)
{
	struct uaio_ready *ready = &queue->group.ready;
	bool leads;

	uaio_queue_lock(queue);
	/* [step: AWAKE] */
	leads = queue->leader == waiter;
	queue->nr_leads++;
	if (leads)
		uaio_ready_pin(ready);
	/*
	 * relaxed: UAIO_LEADER changes only under the queue's lock, which this thread
	 * holds
	 */
	if (leads && unlikely(!uaio_ready_has(ready, UAIO_LEADER)))
		/* [MB:led] seq_cst: pairs with uaio_ready_submitted(). */
		or_seq_cst(&ready->keepers, UAIO_LEADER);
	uaio_queue_unlock(queue);
	return leads;
}

/*
 * The program has closed the epoll, by a system call that the library does not see. So
 * sleep without it. Without the epoll, nothing wakes the thread when the kernel
 * completes a request. So if the kernel has requests, wake after SLICE_NS.
 */
static int sleep_without(const struct uaio_queue *queue,
			 const struct uaio_wait *wait, int64_t until)
{
	int64_t soon = uaio_now_ns() + SLICE_NS;
	int depth = uaio_step_out_to(wait->is_cancel_point), ret;

	if (uaio_native_nr(&queue->group) && soon < until)
		until = soon;
	ret = uaio_wait_poll(-1, wait, until);

	uaio_step_in_from(wait->is_cancel_point, depth);
	return ret;
}

/*
 * The leader sleeps in the epoll. Before the sleep it releases its pin (reference to
 * the queue), because a signal handler may leave the sleep and never come back. After
 * the sleep it takes a pin again.
 * Return: the number of events, on which the caller must act; -EINTR; -EINVAL: the
 * waiter no longer leads. With an error the thread holds no pin on the queue.
 */
static int sleep_leading(struct uaio_queue *queue, struct uaio_waiter *waiter,
			 const struct uaio_wait *wait, int64_t until,
			 struct epoll_event events[EVENTS])
{
	struct uaio_poller *poller = &queue->group.ready.poller;
	const struct uaio_poller_wait poller_wait = {
		.deadline_ns = until,
		.mask = wait->mask,
		.mask_bytes = wait->mask_bytes,
		.generation = uaio_poller_generation(poller),
		.is_cancel_point = wait->is_cancel_point,
		.outlasts_stops = wait->outlasts_stops,
	};
	int nr = 0;

	uaio_ready_count_sleep();
	/*
	 * [MB:lead] [step: ASLEEP] seq_cst: writes is_asleep, then reads is_told. Pairs
	 * with uaio_waiter_tell_locked().
	 */
	store_seq_cst(&waiter->is_asleep, 1);
	uaio_ready_unpin(&queue->group.ready);
	if (!load_seq_cst(&waiter->is_told))
		nr = uaio_poller_wait(poller, events, EVENTS, &poller_wait);
	/*
	 * [MB:lead] seq_cst: a thread that closes the queue sets is_told before it
	 * closes the epoll. So if is_told is clear, the program closed the epoll.
	 */
	if (nr == -EBADF && !load_seq_cst(&waiter->is_told))
		nr = sleep_without(queue, wait, until);
	store_relaxed(&waiter->is_asleep, 0);
	if (!uaio_lead_pin_again(queue, waiter)) {
		/*
		 * A signal handler in this thread has called the library, which made
		 * another waiter the leader. The events were meant for that leader, so
		 * wake it.
		 */
		if (nr > 0) {
			uaio_ready_kick_all(&queue->group);
			uaio_poller_wake(poller);
		}
		return nr == -EINTR ? -EINTR : -EINVAL;
	}
	if (nr != -EINTR)
		return nr > 0 ? nr : 0;
	uaio_ready_unpin(&queue->group.ready);
	return nr;
}

int uaio_lead(struct uaio_queue *queue, struct uaio_waiter *waiter,
	      const struct uaio_wait *wait)
{
	struct uaio_group *group = &queue->group;
	struct epoll_event events[EVENTS];
	int ret = 0;

	for (;;) {
		bool is_left = uaio_ready_run_events(group, UAIO_RUN_BY_LEADER,
						     events, ret);
		int64_t until = wait->deadline_ns, now = uaio_now_ns();

		/*
		 * [MB:woken] acquire: the thread that has set is_woken no longer
		 * accesses this waiter. Pairs with uaio_waiter_tell_locked().
		 */
		ret = load_acquire(&waiter->is_woken) ? 1
		      : now >= until                  ? -ETIMEDOUT
						      : 0;
		if (ret)
			break;
		if (is_left)
			continue;
		if (!uaio_ready_arm(group)) {
			uaio_ready_kick_refused(group);
			if (until - now > SLICE_NS)
				until = now + SLICE_NS;
		} else if (uaio_ready_has_kicked(&group->ready)) {
			/* [step: LEAD_LAST_LOOK] */
			continue;
		}
		ret = sleep_leading(queue, waiter, wait,
				    uaio_timers_sooner(&group->ready, until),
				    events);
		if (ret < 0)
			return ret == -EINVAL ? 0 : ret;
	}
	uaio_ready_unpin(&group->ready);
	return ret < 0 ? ret : 0;
}

void uaio_lead_forget(void)
{
	struct uaio_waiter *waiter = uaio_waiter_leading();

	uaio_attend_forget();
	if (likely(!waiter) || uaio_entry.run)
		return;
	waiter->is_leading = false;
	/*
	 * The signal handler may return before the interrupted thread sleeps. Then
	 * is_told keeps that thread from sleeping.
	 */
	store_relaxed(&waiter->is_told, 1);
	uaio_lead_end(waiter->queue, waiter, true);
}

void uaio_lead_challenge(struct uaio_queue *queue, struct uaio_waiter *waiter,
			 uint64_t *seen)
{
	struct uaio_ready *ready = &queue->group.ready;
	bool is_lost, is_left = false;

	uaio_queue_lock(queue);
	is_lost = queue->leader && queue->nr_leads == *seen;
	if (is_lost) {
		/*
		 * relaxed: UAIO_LEADER changes only under the queue's lock, which this
		 * thread holds
		 */
		is_left = uaio_ready_has(ready, UAIO_LEADER) &&
			  let_go_locked(queue, true);
	} else if (queue->leader) {
		*seen = queue->nr_leads;
		uaio_poller_wake(&ready->poller);
	} else {
		waiter->is_leaderless = true;
	}
	uaio_queue_unlock(queue);
	if (!is_left)
		return;
	uaio_fallback_nudge(&queue->group);
	uaio_ready_unpin(ready);
}
