/* SPDX-License-Identifier: MIT */
/*
 * The leader: the waiting thread that executes requests whose files become ready
 *
 * While requests of a queue are parked (ready.h), one of its waiters is the leader. (A
 * waiter is a thread that waits for completions.) The leader sleeps in the queue's
 * epoll. When a file becomes ready, the leader wakes and executes the requests itself.
 *
 *   I1  At most one waiter leads a queue. The members `leader` and UAIO_LEADER (a bit
 *       of keepers) change under the queue's lock.
 *
 *   I2  A waiter that stops leading wakes another waiter, which leads next. That waiter
 *       may leave without looking at the files. So if a request is parked, the thread that
 *       stops also makes sure that the queue is on the fallback thread's list.
 *
 *   I3  If a request is parked while threads wait and none leads, one of them must
 *       become the leader. The parking thread raises nr_parked, then reads nr_waiters;
 *       a waiter raises nr_waiters, then reads nr_parked. So at least one of them sees
 *       the other.
 *
 *   I4  The leader holds a pin (a reference to the queue) while it is awake, and none
 *       while it sleeps. The reason is that a signal handler may leave the sleep by
 *       siglongjmp(), and that the queue may be closed during the sleep. After the sleep
 *       the thread checks, under the queue's lock, whether it still leads.
 *
 *   I5  A leader may never come back from its sleep, if a signal handler leaves the
 *       sleep by siglongjmp(). The leader's thread detects this in its next call that
 *       waits or parks a request. Other waiters detect it, too: at intervals they wake
 *       the leader, and check whether it was awake since (nr_leads). Waiters that came
 *       while there was no leader are woken when one begins to lead, and then check at
 *       intervals as well.
 *
 *   I6  A leader that other waiters consider lost may only be slow. So it stays the
 *       leader, but UAIO_LEADER is cleared. The fallback thread then serves the queue
 *       until the leader is awake again, or its thread makes another call, or ends. No
 *       other waiter becomes the leader meanwhile, so at most one thread sleeps in the
 *       epoll. If two threads slept there, each could consume a wake-up that was meant
 *       for the other.
 *
 * test/model/ready.pml is a model of I1 to I6. If one of the two threads in I3 omits
 * its read, a request is never executed. The model's planted faults WAITERS_NOT_TOLD
 * and WAITER_DOES_NOT_LOOK show this, and test-ready-served.c runs the code of both
 * threads. Two leaders in one epoll lose a wake-up, as fault TWO_SLEEP_IN_AN_EPOLL and
 * test-ready-races.c show.
 *
 * Tested by test-ready-caller.c and test-ready-signals.c.
 */
#ifndef UAIO_READY_LEAD_H
#define UAIO_READY_LEAD_H

#include <stdbool.h>

#include "ready/waiter.h"

struct uaio_wait;

/*
 * Make waiter the leader of the queue, if there is none and a request is parked. waiter
 * is on the queue's list. The queue's lock is held.
 * Return: whether it leads; then it holds a pin (a reference to the queue).
 */
bool uaio_lead_locked(struct uaio_queue *queue, struct uaio_waiter *waiter);

/*
 * Like uaio_lead_locked(), but takes no pin on the queue, and waiter is on no list:
 * for a thread that leads several queues by one waiter (attend.h).
 */
bool uaio_lead_unpinned_locked(struct uaio_queue *queue,
			       struct uaio_waiter *waiter);

/*
 * Undo uaio_lead_unpinned_locked(). is_lost: a signal handler has interrupted the thread's
 * sleep, or left it by siglongjmp(). Events that the thread had taken may then be lost.
 */
void uaio_lead_end(struct uaio_queue *queue, const struct uaio_waiter *waiter,
		   bool is_lost);

/*
 * The leader's loop: sleep, and execute requests whose files become ready, until
 * another thread sets is_woken, or the time is over. Releases the caller's pin on the
 * queue.
 * Return: 0: check again whether the waiter's need is met; -EINTR; -ETIMEDOUT.
 */
int uaio_lead(struct uaio_queue *queue, struct uaio_waiter *waiter,
	      const struct uaio_wait *wait);

/*
 * Stop leading, if the waiter still leads. Then other threads serve the parked
 * requests.
 */
void uaio_lead_stop(struct uaio_queue *queue, struct uaio_waiter *waiter);

/*
 * Called after the leader's sleep in the epoll or in its own poll (attend.h).
 * Return: whether the waiter still leads; then it holds a pin on the queue.
 */
bool uaio_lead_pin_again(struct uaio_queue *queue,
			 const struct uaio_waiter *waiter);

/*
 * If this thread still counts as a leader, a signal handler has left its sleep by
 * siglongjmp(), or runs in that sleep: stop leading. But a leader that executes requests
 * (uaio_entry.run) is awake, and goes on leading, whatever it submits.
 */
void uaio_lead_forget(void);

/*
 * Check whether the leader is lost (I5). The leader is lost if it was not awake since
 * the last check: nr_leads still equals *seen. Called by another waiter after it has
 * slept for a while; *seen is UINT64_MAX before the first check. If the leader is lost,
 * the fallback thread serves the queue from here on. If there is no leader, mark the
 * waiter is_leaderless: a new leader then wakes it.
 */
void uaio_lead_challenge(struct uaio_queue *queue, struct uaio_waiter *waiter,
			 uint64_t *seen);

#endif /* UAIO_READY_LEAD_H */
