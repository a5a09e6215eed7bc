/* SPDX-License-Identifier: MIT */
/*
 * Event count: a thread sleeps until a state may have changed, and misses no wake-up
 *
 * 	waiter					notifier
 * 	key = uaio_ec_prepare(ec)		change the state
 * 	if (state says go on)			uaio_ec_notify(ec, n)
 * 		uaio_ec_cancel(ec)
 * 	else
 * 		uaio_ec_wait(ec, key, ...)
 *
 *   I1  If there may be a waiter, uaio_ec_notify() advances the sequence.
 *   I2  A waiter sleeps only while the sequence has the value (key) that the waiter
 *       read before it looked at the state.
 *
 * So a waiter sees a change that is made before it looks. A later change either
 * advances the sequence before the waiter sleeps, or wakes the waiter. For this the
 * notifier must find the waiter in nr_waiters, or the waiter must see the change: the
 * notifier writes the state and then reads nr_waiters, the waiter writes nr_waiters and
 * then reads the state. This holds if all these accesses are sequentially consistent,
 * or if the state is accessed under a lock. All users of event counts use a lock.
 *
 * If no thread waits, uaio_ec_notify() makes only one load.
 */
#ifndef UAIO_BASE_EVENTCOUNT_H
#define UAIO_BASE_EVENTCOUNT_H

#include "base/atomic.h"
#include "base/sleep.h"

struct uaio_eventcount {
	uint32_t sequence;   /* atomic: advanced by notifiers */
	uint32_t nr_waiters; /* atomic: threads between prepare and return */
};

static inline uint32_t uaio_ec_prepare(struct uaio_eventcount *ec)
{
	/*
	 * [MB:ec] seq_cst: the waiter is counted before it looks at the state.
	 * Pairs with uaio_ec_notify().
	 */
	add_seq_cst(&ec->nr_waiters, 1);
	return load_seq_cst(&ec->sequence);
}

static inline void uaio_ec_cancel(struct uaio_eventcount *ec)
{
	/*
	 * relaxed: if a notifier still counts this thread, it only makes a needless
	 * system call
	 */
	sub_relaxed(&ec->nr_waiters, 1);
}

/* Return: like uaio_sleep(). */
static inline int uaio_ec_wait(struct uaio_eventcount *ec, uint32_t key,
			       int64_t deadline_ns)
{
	int ret = uaio_sleep(&ec->sequence, key, deadline_ns);

	uaio_ec_cancel(ec);
	return ret;
}

static inline void uaio_ec_notify(struct uaio_eventcount *ec, unsigned nr)
{
	/*
	 * [MB:ec] seq_cst: waiters are counted after the state was changed.
	 * Pairs with uaio_ec_prepare().
	 */
	if (!load_seq_cst(&ec->nr_waiters))
		return;
	add_seq_cst(&ec->sequence, 1);
	uaio_wake(&ec->sequence, nr);
}

#endif /* UAIO_BASE_EVENTCOUNT_H */
