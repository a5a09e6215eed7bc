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
 * So a change made before the look is seen by the look, and one made after it
 * advances the sequence before the sleep or wakes it. What remains is the
 * store of the state against the load of nr_waiters on the other side: each
 * writes, then reads what the other wrote. Both are sequentially consistent
 * read-modify-writes, or are made under one lock, which is how all users here
 * do it (the state is a list under the lock that both sides take).
 *
 * Progress: notify with nobody waiting is one load.
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
	/* [MB:ec] seq_cst: announce, then read. Pairs with uaio_ec_notify(). */
	add_seq_cst(&ec->nr_waiters, 1);
	return load_seq_cst(&ec->sequence);
}

static inline void uaio_ec_cancel(struct uaio_eventcount *ec)
{
	/* relaxed: a notifier that still counts us makes one call too many */
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
	/* [MB:ec] seq_cst: after the change. Pairs with uaio_ec_prepare(). */
	if (!load_seq_cst(&ec->nr_waiters))
		return;
	add_seq_cst(&ec->sequence, 1);
	uaio_wake(&ec->sequence, nr);
}

#endif /* UAIO_BASE_EVENTCOUNT_H */
