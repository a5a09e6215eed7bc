/* SPDX-License-Identifier: MIT */
/*
 * Waiting for completions
 *
 * A waiter is a thread that waits until its need is met, for example until there are a
 * number of completions. A thread that posts a completion asks the queue's sink whether
 * a waiter's need is met, and only then wakes the waiter (flow/post.c). (The sink is
 * the front-end's functions for a queue's completions.) Ready files and due timers also
 * wake the waiter that leads (lead.h). Closing a queue wakes all its waiters. A
 * waiter's memory is in a slab, not on its thread's stack: a signal handler may leave
 * the sleep by siglongjmp() and never come back. Then only that memory is lost, until
 * the thread ends.
 *
 *   I1  A waiter is on its queue's list until another thread wakes it, or it stops
 *       waiting. The list changes, and is_woken is set, under the queue's lock.
 *
 *   I2  A thread that takes a waiter off the list writes to the waiter under the queue's
 *       lock, and never after it has released that lock. To wake the waiter later, it
 *       uses only the address of the waiter's futex.
 *
 *   I3  Before a waiter sleeps, it asks the sink under the queue's lock, so it misses no
 *       completion between the check and the sleep.
 *
 *   I4  If the sink has no room for a further completion, it must report each need as
 *       met, so that all waiters are woken.
 *
 *   I5  A sleeping waiter does not keep its queue alive. It stores for which generation
 *       (use) of the queue it waits. When it wakes it checks, under the lock, whether
 *       that generation has ended.
 */
#ifndef UAIO_READY_WAITER_H
#define UAIO_READY_WAITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/slab.h"

struct uaio_group;
struct uaio_queue;

/* How long a thread waits, and how. */
struct uaio_wait {
	/* by CLOCK_MONOTONIC; 0: do not wait */
	int64_t deadline_ns;
	/*
	 * the signal mask during the wait, in the kernel's format; NULL: do not change
	 * it
	 */
	const void *mask;
	size_t mask_bytes;
	/*
	 * only sleep: the thread executes no requests, and uses no descriptor of the
	 * library (table.h)
	 */
	bool sleeps_only;
	bool is_cancel_point; /* the thread may be cancelled in its sleep */
	/*
	 * Only a signal handler ends the wait with -EINTR. If not set, the wait may also
	 * end when the process is stopped and continued, frozen, or attached by a tracer.
	 */
	bool outlasts_stops;
};

struct uaio_waiter {
	struct uaio_slab_node slab;

	/* Only the waiter's own thread uses the members up to is_leading. */
	/* next in the thread's list: a waiter of an outer or abandoned sleep */
	struct uaio_waiter *outer;
	/* the memory exists even after the queue is closed (slab.h) */
	struct uaio_queue *queue;
	/*
	 * the waiter is the leader; stays set if a signal handler leaves the sleep by
	 * siglongjmp()
	 */
	bool is_leading;

	/* under the queue's lock */
	struct list node;
	/* how much the thread waits for; the front-end defines the unit (sink.h) */
	uint64_t need;
	/*
	 * owns: the eventfd on which the thread sleeps; -1: the thread sleeps on
	 * is_woken or, if `leads` is set, in the epoll
	 */
	int wake_fd;
	/* the thread leads: it sleeps in the queue's epoll */
	bool leads;
	/* the thread may execute parked requests */
	bool may_lead;
	/*
	 * there was no leader when the thread began to wait: wake it when there is one
	 */
	bool is_leaderless;

	/* atomic */
	/*
	 * another thread has ended the wait; also a futex on which the waiter may sleep
	 */
	uint32_t is_woken;
	/*
	 * if this waiter leads: another thread has woken it; set just before is_woken
	 */
	uint32_t is_told;
	/* this waiter leads, and sleeps in the epoll or soon will */
	uint32_t is_asleep;
};

/*
 * Futexes of waiters that were taken off the list under the lock. They are woken after
 * the lock is released.
 */
enum { UAIO_WAKEUPS_MAX = 16 };

struct uaio_wakeups {
	unsigned nr;
	uint32_t *words[UAIO_WAKEUPS_MAX]; /* addresses only (I2) */
};

/* Take waiter off the list, and end its sleep, so that it checks its need again. */
void uaio_waiter_tell_locked(struct uaio_queue *queue,
			     struct uaio_waiter *waiter,
			     struct uaio_wakeups *wakeups);

/* Take all waiters whose need is met off the list, and end their sleeps. */
void uaio_waiters_collect_locked(struct uaio_queue *queue,
				 struct uaio_wakeups *wakeups);
void uaio_wakeups_deliver(struct uaio_wakeups *wakeups);

/*
 * Wait until fd is readable, with the caller's signal mask; fd may be -1.
 * Return: what ppoll(2) returns.
 */
int uaio_wait_poll(int fd, const struct uaio_wait *wait, int64_t deadline_ns);

/*
 * Allocate a waiter of this thread, which is on no list yet.
 * Return: NULL if memory is refused.
 */
struct uaio_waiter *uaio_waiter_new(struct uaio_queue *queue);
void uaio_waiter_put(struct uaio_waiter *waiter);

/* Called each time the engine starts, also in a child of fork(): resets all state. */
void uaio_waiters_init(void);

/*
 * Return: that waiter of this thread which is the leader. A signal handler may have
 * left or interrupted its sleep. NULL if there is none.
 */
struct uaio_waiter *uaio_waiter_leading(void);

/*
 * This thread ends, perhaps in a sleep: remove its waiters, and stop leading.
 * keeps_fds: the thread by now has another descriptor table, so the library must not
 * close descriptors here. Then the memory of its waiters stays allocated.
 */
void uaio_waiters_forget(bool keeps_fds);

/*
 * Some thread must look at the queue's files, or at the kernel's completions, and the
 * calling thread does not. Wake the leader for this. If there is no leader, another
 * waiter becomes the leader; if there is no waiter, the fallback thread serves the
 * queue.
 */
void uaio_waiters_pass_on(struct uaio_group *group);

/*
 * Some requests must be tried again after a while, but the calling thread will not come
 * back to try them. Make the leader try them; without a leader, the fallback thread.
 */
void uaio_waiters_back_up(struct uaio_group *group);

/* The queue is being closed: wake all its waiters. */
void uaio_waiters_dismiss(struct uaio_queue *queue);

/*
 * Functions for front-ends. Their argument `generation` is the queue's generation when
 * the client passed the queue to the call.
 */

/*
 * Wait until the sink reports that need is met. If requests usually take less time than
 * a sleep, spin (poll without sleeping) for a short time first.
 * Return: 0: check again whether need is met; -EINTR; -ETIMEDOUT; -EINVAL: the queue
 * was closed; -ENOMEM.
 */
int uaio_queue_wait(struct uaio_queue *queue, uint64_t generation,
		    uint64_t need, const struct uaio_wait *wait);

/*
 * Like uaio_queue_wait(), but sleep at once, and try no cold reads (of pages that are
 * not in the page cache).
 */
int uaio_queue_sleep(struct uaio_queue *queue, uint64_t generation,
		     uint64_t need, const struct uaio_wait *wait);

/*
 * The caller knows that the queue is still open.
 * Return: whether requests are parked that a thread of the program may run. Then the
 * queue is pinned (kept alive).
 */
bool uaio_queue_pin_parked(struct uaio_queue *queue);

/*
 * Execute parked requests whose files are ready, and release the caller's pin on the queue.
 * waits: the caller will sleep for the queue's events next.
 */
void uaio_queue_run_parked(struct uaio_queue *queue, bool waits);

/*
 * Execute all waiting requests of the queue that can be executed now. A thread that
 * finds too few completions calls this before it waits. The caller keeps the queue
 * alive.
 */
void uaio_queue_run(struct uaio_queue *queue, bool waits);

/*
 * Called by a thread that did not sleep. Deliver the pending signals that the thread's
 * own mask blocks, but wait->mask does not.
 * Return: whether a signal handler has run.
 */
bool uaio_wait_let_signals_in(const struct uaio_wait *wait);

/*
 * lost.c: cleans up after threads that end while they sleep in a call of the library
 */

/* Called each time the engine starts, also in a child of fork(). */
void uaio_lost_init(void);

/*
 * This thread is about to sleep, and may end in the sleep: register the destructor of
 * lost.c.
 * Return: whether the destructor will be called then.
 */
bool uaio_lost_watch(void);

/*
 * vain.c: a client that polls for events without sleeping must sleep briefly at times
 */

/*
 * A client that polls without sleeping is made to sleep no longer than this. An event
 * ends the sleep earlier.
 */
enum { UAIO_DOZE_NS = 100000 };

/* Statistics of one client that polls. All members are atomic. */
struct uaio_vain {
	uint32_t nr_looks;
	/* when the library last read the clock for this client */
	int64_t checked_ns;
	/* number of events posted before checked_ns */
	uint64_t checked_done;
	/*
	 * since this time no event was posted, and no poll of the client has slept
	 */
	int64_t since_ns;
};

/*
 * A client's poll has found nothing, while requests are in flight. nr_done: how many
 * events were ever posted.
 * Return: whether the poll must sleep for UAIO_DOZE_NS.
 */
bool uaio_vain_must_doze(struct uaio_vain *vain, uint64_t nr_done);

/*
 * The poll for which uaio_vain_must_doze() returned true has slept. has_event: an event
 * was posted meanwhile.
 */
void uaio_vain_has_dozed(struct uaio_vain *vain, bool has_event);

#endif /* UAIO_READY_WAITER_H */
