/* SPDX-License-Identifier: MIT */
/*
 * Leading: the waiter that executes requests whose files become ready
 *
 * While requests of a queue are parked (ready.h), one of its waiters (threads that wait
 * for completions) is the leader. The leader sleeps in the queue's epoll, so a file
 * that becomes ready wakes it, and executes the requests itself.
 *
 *   I1  At most one waiter leads a queue; leader and UAIO_LEADER change under the
 *       group's lock.
 *
 *   I2  A waiter that stops leading wakes another waiter and, if a request is parked,
 *       makes sure that the queue is on the fallback thread's list: the waiter that was
 *       woken may leave without having looked.
 *
 *   I3  If a request is parked while waiters sleep and none leads, one of the waiters
 *       is made to lead. The thread that parks counts nr_parked, then reads nr_waiters;
 *       a waiter counts nr_waiters, then reads nr_parked.
 *
 *   I4  The leader holds a pin while it is awake, and none while it sleeps: a signal
 *       handler may leave the sleep by siglongjmp(), and the queue may be closed. After
 *       the sleep the thread looks, under the group's lock, whether it still leads.
 *
 *   I5  A leader may never come back from its sleep. The next call of its thread that
 *       waits or parks a request finds that. So do other waiters: now and then they
 *       wake the leader, and see whether it has been awake (nr_leads). Waiters that
 *       came while there was no leader are woken when one begins to lead, and then do
 *       the same.
 *
 *   I6  A leader that other waiters consider lost may only be slow. So it stays the
 *       leader, but does not count as one (UAIO_LEADER is cleared): the fallback thread
 *       looks after the queue until the leader is awake, or its thread calls again or
 *       ends. No other waiter leads meanwhile, so at most one thread sleeps in the
 *       epoll: of two threads, each would consume wake-ups meant for the other.
 *
 * test/model/ready.pml is a model of I1 to I6. If either side of I3 omits its read, the
 * model loses a request (its faults WAITERS_NOT_TOLD, WAITER_DOES_NOT_LOOK); in
 * test-ready-served.c both sides of the code meet. With two leaders in one epoll the
 * model loses a wake-up (TWO_SLEEP_IN_AN_EPOLL); test-ready-races.c.
 *
 * Tested by test-ready-caller.c and test-ready-signals.c.
 */
#ifndef UAIO_READY_LEAD_H
#define UAIO_READY_LEAD_H

#include <stdbool.h>

#include "ready/waiter.h"

struct uaio_wait;

/*
 * Make waiter, which is on the queue's list, the leader, if there is none and a request
 * is parked. The group's lock is held.
 * Return: whether it leads; then it holds a pin.
 */
bool uaio_lead_locked(struct uaio_queue *queue, struct uaio_waiter *waiter);

/*
 * uaio_lead_locked() without a pin, for a thread that may lead several queues by one
 * waiter (attend.h), which is on no list.
 */
bool uaio_lead_unpinned_locked(struct uaio_queue *queue,
			       struct uaio_waiter *waiter);

/*
 * End what uaio_lead_unpinned_locked() began. is_lost: a signal handler has left the
 * thread's sleep, and events that it took may be lost.
 */
void uaio_lead_end(struct uaio_queue *queue, const struct uaio_waiter *waiter,
		   bool is_lost);

/*
 * Execute requests whose files become ready, and sleep, until another thread tells the
 * waiter that there are enough events. Releases the pin.
 * Return: 0 to look again, -EINTR, -ETIMEDOUT.
 */
int uaio_lead(struct uaio_queue *queue, struct uaio_waiter *waiter,
	      const struct uaio_wait *wait);

/*
 * Stop leading, if the waiter still leads: other threads look after the parked
 * requests.
 */
void uaio_lead_stop(struct uaio_queue *queue, struct uaio_waiter *waiter);

/*
 * Called after a sleep in the epoll, or in the thread's own poll (attend.h).
 * Return: whether the waiter still leads; then it holds a pin.
 */
bool uaio_lead_pin_again(struct uaio_queue *queue,
			 const struct uaio_waiter *waiter);

/* If this thread still leads, a signal handler has left its sleep: stop leading. */
void uaio_lead_forget(void);

/*
 * Check whether the leader is lost. Called by a waiter that does not lead and has slept
 * for a while. seen keeps nr_leads of the last check; UINT64_MAX at first. If the
 * leader is lost, the fallback thread looks after the queue from here on. If there is
 * no leader, the waiter is marked is_leaderless.
 */
void uaio_lead_challenge(struct uaio_queue *queue, struct uaio_waiter *waiter,
			 uint64_t *seen);

#endif /* UAIO_READY_LEAD_H */
