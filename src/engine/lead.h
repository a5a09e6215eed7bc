/* SPDX-License-Identifier: MIT */
/*
 * Leading: the waiter that makes what gets ready
 *
 * While requests of a context wait until their files are ready (ready.h), one of
 * its waiters leads: it sleeps in the context's epoll, so that what makes a file
 * ready wakes it, and makes the requests itself.
 *
 *   I1  At most one leads a context; leader and is_led change under the group's
 *       lock.
 *   I2  Who stops leading tells another waiter, and sees to it that the standby
 *       thread knows, if something is parked.
 *   I3  What is parked while waiters sleep and none leads makes one of them lead:
 *       the one side counts nr_parked, then looks at nr_waiters; a waiter does
 *       the reverse.
 *   I4  Who leads holds a pin while it is awake, and none while it sleeps: a
 *       handler may leave the sleep by siglongjmp(), and a context may go away.
 *       Awake again it looks, under the group's lock, whether it leads still.
 *   I5  One who never came back is found by the next call of his thread that
 *       waits, or parks something; and by other waiters, who wake who leads now
 *       and then, and see whether he has been awake (nr_leads). Waiters that
 *       came while nobody led are told when somebody begins to, and do the same.
 */
#ifndef UAIO_ENGINE_LEAD_H
#define UAIO_ENGINE_LEAD_H

#include <stdbool.h>

#include "engine/wait.h"

struct uaio_wait;

/* Of the context's waiters, under its group's lock. Return: whether it leads. */
bool uaio_lead_locked(struct uaio_queue *queue, struct uaio_waiter *waiter);

/*
 * Make what gets ready until somebody tells us that there are events enough.
 * Return: 0 to look again, -EINTR, -ETIMEDOUT. No pin is held any more.
 */
int uaio_lead(struct uaio_queue *queue, struct uaio_waiter *waiter,
	      const struct uaio_wait *wait);

/* Others see to what is parked. Nothing if it leads no more. */
void uaio_lead_stop(struct uaio_queue *queue, struct uaio_waiter *waiter);

/*
 * After a sleep of its own (attend.h). Return: whether it leads still: then it
 * holds a pin.
 */
bool uaio_lead_pin_again(struct uaio_queue *queue,
			 const struct uaio_waiter *waiter);

/* What this thread leads, if it does, was left behind by a handler. */
void uaio_lead_forget(void);

/*
 * For a waiter that does not lead and has slept for a while: is the leader still
 * there? seen is the answer of the last time, at first UINT64_MAX.
 * Return: whether he is lost; then nobody leads. Where nobody did the waiter is
 * noted to be alone.
 */
bool uaio_lead_challenge(struct uaio_queue *queue, struct uaio_waiter *waiter,
			 uint64_t *seen);

#endif /* UAIO_ENGINE_LEAD_H */
