/* SPDX-License-Identifier: MIT */
/*
 * Timers, and requests with a time limit
 *
 * A timer (UAIO_OP_TIMER) is a request without a file. When it expires it completes
 * with -ETIME; a linked timer instead cancels the request to which it is linked
 * (link.h). A request that is parked on a socket may have a time limit (SO_RCVTIMEO,
 * SO_SNDTIMEO). When the limit expires, the request completes with EAGAIN, or with the
 * bytes transferred so far. A timer that is already due when it is submitted completes
 * inside the submitting call.
 *
 * All these requests are in one heap, by time: the member `timed` of their queue's
 * home. The home is the queue itself, or the commons if the queue has no epoll of its
 * own (commons.c). Three kinds of threads complete what is due. The leader of the home
 * sleeps no longer than until the first request is due. A thread of the program that
 * runs the queue's parked requests looks at the heap, too. The fallback thread serves
 * homes without a leader.
 *
 *   I1  A request with a time is in the heap while it is in the state TIMED, or while
 *       it is in a wait queue. While a request is in a wait queue, it has a reference to
 *       its file; it enters and leaves the heap under that file's lock as well. So a
 *       thread that finds such a request in the heap may take a reference to the file.
 *
 *   I2  A timer counts as parked from just before it enters the heap until it leaves
 *       the heap. So I6 of ready.h holds for timers, too: some thread serves the
 *       timer's home.
 *
 *   I3  The thread that serves a home sleeps no longer than until the first request is
 *       due. A leader sets UAIO_LEADER, then reads next_ns. A thread that adds a
 *       request which is now the first writes next_ns, then reads whether a thread
 *       leads. It wakes that leader, or notifies the fallback thread under that
 *       thread's lock. The fallback thread holds this lock while it computes when it
 *       must wake, so the notice is not lost.
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
 * Compute when a timer that starts now expires. now: the time by CLOCK_MONOTONIC, just
 * read. If the timer has another clock, the function also reads that clock.
 * Return: the time of expiry by CLOCK_MONOTONIC; at least 1, and never UAIO_FOREVER. If
 * the time is not after now, the timer has expired already.
 */
int64_t uaio_timer_due(const struct uaio_sqe *sqe, int64_t now);

/* Called when a queue is opened. The caller holds ready->lock. */
static inline void uaio_timers_init_home(struct uaio_ready *ready)
{
	heap_init(&ready->timed);
	store_relaxed(&ready->next_ns, UAIO_FOREVER);
}

/* Like uaio_ready_park(), for a request without a file. */
bool uaio_timer_park(struct uaio_req *req, enum uaio_req_state from);
/* The cancel function of struct uaio_wait_ops for requests in the state TIMED. */
enum uaio_cancel uaio_timer_cancel(struct uaio_req *req,
				   struct uaio_canceller *canceller,
				   struct list *ret_startable);

/*
 * Change the time of the queue's first timer that matches. Timers that a link or drain
 * holds back do not count. The new time is by the timer's own clock, and relative to
 * now unless is_absolute. A multishot timer then repeats for ever, and each further
 * interval is time_ns long. is_meant: whether a timer matches; it is called with the
 * queue's lock held.
 * Return: 0; -ENOENT: none matches; -EALREADY: another thread is just completing the
 * timer.
 */
struct uaio_timer_aim {
	bool (*is_meant)(const struct uaio_timer_aim *aim,
			 const struct uaio_sqe *sqe);
	/* user_data of the timers that may match */
	uint64_t data;
	int64_t time_ns;
	bool is_absolute;
};

int uaio_timer_change(struct uaio_queue *queue,
		      const struct uaio_timer_aim *aim);

/*
 * req enters a wait queue: if it has a time limit, put it into the heap, too. The
 * file's lock is held.
 * Return: whether req now expires before all other requests of its home. Then the
 * caller must call uaio_timer_tell_sleeper() after releasing its locks.
 */
bool uaio_timer_add_locked(struct uaio_req *req);
/*
 * req leaves its wait queue: remove it from the heap, if it is there. The file's lock
 * is held.
 */
void uaio_timer_remove_locked(struct uaio_req *req);

/*
 * The first request of home now expires earlier: wake the leader, or notify the
 * fallback thread (I3).
 */
void uaio_timer_tell_sleeper(struct uaio_group *home);

/*
 * Complete timers, and requests with a time limit, that are due in home. Requests that
 * are just being tried are left out.
 */
void uaio_timers_run(struct uaio_group *home);

static inline void uaio_timers_end(struct uaio_group *home)
{
	/*
	 * relaxed: a thread that adds a request wakes the threads that rely on next_ns
	 */
	if (unlikely(load_relaxed(&home->ready.next_ns) != UAIO_FOREVER))
		uaio_timers_run(home);
}

/*
 * Return: the time until which a thread may sleep: deadline_ns, or when the first
 * request in ready is due, if that is sooner. If that request is overdue, another
 * thread is trying it. Then the caller sleeps only a moment, and checks again.
 */
static inline int64_t uaio_timers_sooner(const struct uaio_ready *ready,
					 int64_t deadline_ns)
{
	enum { SOON_NS = 50000 };
	/*
	 * [MB:timer] seq_cst: the thread sets UAIO_LEADER, then reads next_ns here.
	 * Pairs with uaio_timer_tell_sleeper().
	 */
	int64_t next = load_seq_cst(&ready->next_ns), now;

	if (likely(next >= deadline_ns))
		return deadline_ns;
	now = uaio_now_ns();
	return next > now ? next : now + SOON_NS;
}

#endif /* UAIO_READY_TIMER_H */
