/* SPDX-License-Identifier: MIT */
/*
 * Event count: sleep until something may have changed, without losing a wake
 *
 *	waiter					notifier
 *	key = uaio_ec_prepare(ec)		change the state
 *	if (state says go on)			uaio_ec_notify(ec, n)
 *		uaio_ec_cancel(ec)
 *	else
 *		uaio_ec_wait(ec, key, ...)
 *
 *   I1  The sequence is advanced by every notify that may find a waiter.
 *   I2  A waiter sleeps only while the sequence is the one it read before it
 *       looked at the state.
 *
 * So a change made before the waiter looks is seen by it, and a change made
 * after that either advances the sequence before the waiter sleeps, or wakes
 * it. One race remains: each side writes and then reads what the other writes,
 * the notifier the state and nr_waiters, the waiter nr_waiters and the state.
 * Either all these accesses are sequentially consistent read-modify-writes, or
 * the state is written and read under one lock; all users here do the latter.
 *
 * Progress: notify costs one load if nobody waits.
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
	/* relaxed: a notifier that still counts us makes a needless call */
	sub_relaxed(&ec->nr_waiters, 1);
}

/* Return: as uaio_sleep(). */
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
