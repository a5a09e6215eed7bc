/* SPDX-License-Identifier: MIT */
/*
 * Event count: lets a thread sleep until a state changes, without losing a wake-up
 *
 * 	waiter					notifier
 * 	key = uaio_ec_prepare(ec)		change the state
 * 	if (state says go on)			uaio_ec_notify(ec, n)
 * 		uaio_ec_cancel(ec)
 * 	else
 * 		uaio_ec_wait(ec, key, ...)
 *
 *   I1  If there may be a waiter, uaio_ec_notify() increments the sequence.
 *   I2  A waiter sleeps only while the sequence still has the value (key) that the waiter
 *       read before it checked the state.
 *
 * A wake-up is lost only if the waiter misses the change of the state, and the notifier
 * misses the waiter in nr_waiters. The notifier writes the state and then reads
 * nr_waiters; the waiter writes nr_waiters and then reads the state. So at least one of
 * them sees the other's write, if all these accesses are sequentially consistent, or if
 * the state is accessed under a lock. All users of event counts use a lock.
 *
 * If no thread waits, uaio_ec_notify() costs one load.
 */
#ifndef UAIO_BASE_EVENTCOUNT_H
#define UAIO_BASE_EVENTCOUNT_H

#include "base/atomic.h"
#include "base/sleep.h"

struct uaio_eventcount {
	/* atomic: incremented by notifiers */
	uint32_t sequence;
	/*
	 * atomic: number of threads from uaio_ec_prepare() to the end of their wait
	 */
	uint32_t nr_waiters;
};

static inline uint32_t uaio_ec_prepare(struct uaio_eventcount *ec)
{
	/*
	 * [MB:ec] seq_cst: the waiter increments nr_waiters before it reads the state.
	 * Pairs with uaio_ec_notify().
	 */
	add_seq_cst(&ec->nr_waiters, 1);
	return load_seq_cst(&ec->sequence);
}

static inline void uaio_ec_cancel(struct uaio_eventcount *ec)
{
	/*
	 * relaxed: if a notifier still sees this thread in nr_waiters, it only makes a
	 * needless system call
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
	 * [MB:ec] seq_cst: the notifier reads nr_waiters after it has changed the
	 * state. Pairs with uaio_ec_prepare().
	 */
	if (!load_seq_cst(&ec->nr_waiters))
		return;
	add_seq_cst(&ec->sequence, 1);
	uaio_wake(&ec->sequence, nr);
}

#endif /* UAIO_BASE_EVENTCOUNT_H */
