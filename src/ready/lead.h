/* SPDX-License-Identifier: MIT */
/*
 * Leading: the waiter that executes what gets ready
 *
 * While requests of a queue are parked (ready.h), one of its waiters leads: it
 * sleeps in the queue's epoll, so that what makes a file ready wakes it, and
 * executes the requests itself.
 *
 *   I1  At most one waiter leads a queue; leader and UAIO_LEADER change under the
 *       group's lock.
 *   I2  A waiter that stops leading tells another waiter, and sees to it that
 *       the fallback thread knows, if something is parked. A waiter that is
 *       told may leave without having looked: the queue is on the fallback
 *       thread's list meanwhile.
 *   I3  When something is parked while waiters sleep and none leads, one of
 *       them is made to lead: the thread that parks counts nr_parked, then
 *       looks at nr_waiters; a waiter does the reverse.
 *   I4  The leader holds a pin while it is awake, and none while it sleeps: a
 *       handler may leave the sleep by siglongjmp(), and the queue may go away.
 *       Awake again it looks, under the group's lock, whether it still leads.
 *   I5  A leader that never came back is found by the next call of its thread
 *       that waits, or parks something; and by other waiters, which wake the
 *       leader now and then, and see whether it has been awake (nr_leads).
 *       Waiters that came while none led are told when one begins to, and do
 *       the same.
 *   I6  A leader that other waiters take for lost may only be slow. So it stays
 *       the leader, but does not count as one (UAIO_LEADER): the fallback thread
 *       looks after the queue until the leader is awake, or its thread calls
 *       again or ends. No other waiter leads meanwhile: at most one sleeps in
 *       the epoll, since of two each would take wake-ups that are for the
 *       other.
 *
 * test/model/ready.pml is a model of I1 to I6. Without either side of I3 it
 * loses a request (its faults WAITERS_NOT_TOLD, WAITER_DOES_NOT_LOOK);
 * test-ready-served.c has both sides of the code meet. With two leaders in one
 * epoll it loses a wake-up (TWO_SLEEP_IN_AN_EPOLL); test-ready-races.c.
 *
 * Tested by test-ready-caller.c and test-ready-signals.c.
 */
#ifndef UAIO_READY_LEAD_H
#define UAIO_READY_LEAD_H

#include <stdbool.h>

#include "ready/waiter.h"

struct uaio_wait;

/*
 * Have waiter, which is on the queue's list, lead if none does and something is
 * parked. The group's lock is held.
 * Return: whether it leads; then it holds a pin.
 */
bool uaio_lead_locked(struct uaio_queue *queue, struct uaio_waiter *waiter);

/*
 * The same without a pin, for a thread that may lead several queues by one waiter
 * (attend.h), which is on no list.
 */
bool uaio_lead_unpinned_locked(struct uaio_queue *queue,
			       struct uaio_waiter *waiter);

/*
 * The end of that. is_lost: the thread has left its sleep behind, perhaps with events.
 */
void uaio_lead_end(struct uaio_queue *queue, const struct uaio_waiter *waiter,
		   bool is_lost);

/*
 * Execute what gets ready, and sleep, until the waiter is told that there are
 * events enough. Releases the pin.
 * Return: 0 to look again, -EINTR, -ETIMEDOUT.
 */
int uaio_lead(struct uaio_queue *queue, struct uaio_waiter *waiter,
	      const struct uaio_wait *wait);

/* Stop leading, if the waiter still leads: others look after what is parked. */
void uaio_lead_stop(struct uaio_queue *queue, struct uaio_waiter *waiter);

/*
 * Called after a sleep, also one in a call of the thread's own (attend.h).
 * Return: whether the waiter still leads; then it holds a pin.
 */
bool uaio_lead_pin_again(struct uaio_queue *queue,
			 const struct uaio_waiter *waiter);

/* If this thread leads, a handler has left that sleep behind: stop it. */
void uaio_lead_forget(void);

/*
 * Is the leader still there? Called by a waiter that does not lead and has
 * slept for a while. seen keeps what it saw the last time; at first UINT64_MAX.
 * If the leader is lost, the fallback thread looks after the queue from here on.
 * If none leads, the waiter is noted as leaderless.
 */
void uaio_lead_challenge(struct uaio_queue *queue, struct uaio_waiter *waiter,
			 uint64_t *seen);

#endif /* UAIO_READY_LEAD_H */
