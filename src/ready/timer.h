/* SPDX-License-Identifier: MIT */
/*
 * Timers: requests that end at a time
 *
 * A timer (UAIO_OP_TIMER) has no file. When it expires it completes with -ETIME. A
 * linked timer instead cancels the request that it is linked to (link.h). A request
 * that is parked on a socket may have a time limit (SO_RCVTIMEO, SO_SNDTIMEO); when the
 * limit expires it completes with EAGAIN, or with the bytes transferred so far. A timer
 * that is due when it is submitted completes in that call.
 *
 * All of these are in one heap, by time: `timed` of their queue's home, which is the
 * queue itself, or the commons if the queue has no epoll of its own (commons.c). Three
 * threads complete what is due: the leader, which sleeps no longer than until the first
 * is due; a caller that comes by; and the fallback thread, for all homes that it looks
 * after.
 *
 *   I1  A request with a time is in the heap while it is in the state TIMED, or in its
 *       wait queue. A request of a wait queue enters and leaves the heap under its
 *       file's lock, too. The request holds its file meanwhile, so a thread that finds
 *       the request in the heap may take a reference to the file.
 *
 *   I2  A timer counts as parked while it is in the heap, and from a moment before. So
 *       I6 of ready.h covers it: some thread looks after its home.
 *
 *   I3  That thread sleeps no longer than until the first is due. A leader says that it
 *       looks after the home (UAIO_LEADER), then reads next_ns. A thread that adds a
 *       request as the first writes next_ns, then looks whether a thread leads, and
 *       wakes that leader, or notifies the fallback thread. The fallback thread does
 *       both under its own lock.
 *
 * Thread-safety: any thread.
 */
#ifndef UAIO_READY_TIMER_H
#define UAIO_READY_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/sleep.h"
#include "req/queue.h"
#include "req/req.h"
#include "req/waits.h"

struct uaio_sqe;

/*
 * now: the time by CLOCK_MONOTONIC, just read. If the timer goes by another clock, that
 * clock is read here.
 * Return: when a timer that is set now expires, by CLOCK_MONOTONIC; at least 1, and
 * never UAIO_FOREVER. If it is not after now, the timer has expired by its own clock.
 */
int64_t uaio_timer_due(const struct uaio_sqe *sqe, int64_t now);

/* Called when a queue is opened; its lock is held. */
static inline void uaio_timers_init_home(struct uaio_ready *ready)
{
	heap_init(&ready->timed);
	store_relaxed(&ready->next_ns, UAIO_FOREVER);
}

/* uaio_ready_park() for a request that has no file. */
bool uaio_timer_park(struct uaio_req *req, enum uaio_req_state from);
/* The function cancel of struct uaio_wait_ops, for timers. */
enum uaio_cancel uaio_timer_cancel(struct uaio_req *req,
				   struct uaio_canceller *canceller,
				   struct list *ret_startable);

/*
 * Set another time for the first timer of a queue that matches and is not held (by a
 * link or drain). The time is by the timer's own clock, and relative to now unless
 * is_absolute. is_meant says whether a timer matches; it is called with the queue's
 * lock held.
 * Return: 0; -ENOENT: none matches; -EALREADY: the timer is just completing.
 */
struct uaio_timer_aim {
	bool (*is_meant)(const struct uaio_timer_aim *aim,
			 const struct uaio_sqe *sqe);
	uint64_t data; /* the data (user_data) of the timers that match */
	int64_t time_ns;
	bool is_absolute;
};

int uaio_timer_change(struct uaio_queue *queue,
		      const struct uaio_timer_aim *aim);

/*
 * Put req, which may have a time limit, into the heap as it enters its wait queue; the
 * file's lock is held.
 * Return: whether req is now the first to expire; then the caller calls
 * uaio_timer_tell_sleeper() without locks.
 */
bool uaio_timer_add_locked(struct uaio_req *req);
/* Remove req from the heap as it leaves its wait queue; the file's lock is held. */
void uaio_timer_remove_locked(struct uaio_req *req);

/*
 * Wake the thread that sleeps for home: another request is now the first to expire
 * (I3).
 */
void uaio_timer_tell_sleeper(struct uaio_group *home);

/* Complete what is due in home, except requests that are being tried. */
void uaio_timers_run(struct uaio_group *home);

static inline void uaio_timers_end(struct uaio_group *home)
{
	/*
	 * relaxed: a thread that adds a request notifies the threads that rely on
	 * next_ns
	 */
	if (unlikely(load_relaxed(&home->ready.next_ns) != UAIO_FOREVER))
		uaio_timers_run(home);
}

/*
 * Return: deadline, or when the first in ready is due, if that is sooner. A request
 * that is overdue is being tried by another thread; it is looked at again soon.
 */
static inline int64_t uaio_timers_sooner(const struct uaio_ready *ready,
					 int64_t deadline_ns)
{
	enum { SOON_NS = 50000 };
	/*
	 * [MB:timer] seq_cst: the thread has written UAIO_LEADER, then reads next_ns.
	 * Pairs with uaio_timer_tell_sleeper().
	 */
	int64_t next = load_seq_cst(&ready->next_ns), now;

	if (likely(next >= deadline_ns))
		return deadline_ns;
	now = uaio_now_ns();
	return next > now ? next : now + SOON_NS;
}

#endif /* UAIO_READY_TIMER_H */
