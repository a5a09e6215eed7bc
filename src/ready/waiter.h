/* SPDX-License-Identifier: MIT */
/*
 * Waiting for completions
 *
 * A waiter is a thread that waits until its need is met, for example a number of
 * completions. The thread that posts a completion wakes a waiter when the sink (the
 * front-end's functions for a queue's completions) says that its need is met, and not
 * before (flow/post.c). The waiter that leads is also woken by its files, and when a
 * timer is due (lead.h). When a queue is closed, all waiters are woken. The memory of a
 * waiter is in a slab, not on its thread's stack: a signal handler may leave the sleep
 * by siglongjmp() and never come back. (Then only that memory is lost, until the thread
 * ends.)
 *
 *   I1  A waiter is on its queue's list or has been told to wake; both change under the
 *       queue's lock.
 *
 *   I2  A thread that takes a waiter off the list writes to the waiter once more, under
 *       that lock, and never afterwards. Waking the waiter needs only its address.
 *
 *   I3  A waiter asks the sink under the same lock before it sleeps, so it misses no
 *       completion between the check and the sleep.
 *
 *   I4  A full sink meets every need, and so wakes all waiters. The front-end ensures
 *       that.
 *
 *   I5  A waiter that sleeps keeps no queue alive. It remembers for which generation of
 *       the queue it waits, and checks, under the lock, whether that generation is
 *       over.
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
	int64_t deadline_ns; /* CLOCK_MONOTONIC; 0: do not wait */
	/* a signal mask, or NULL; in the kernel's format */
	const void *mask;
	size_t mask_bytes;
	/*
	 * The thread executes no requests and uses no descriptor of the library
	 * (table.h).
	 */
	bool sleeps_only;
	bool is_cancel_point; /* the thread may be cancelled in its sleep */
};

struct uaio_waiter {
	struct uaio_slab_node slab;

	/* used only by its thread */
	/* the thread's previous waiter, or a lost one */
	struct uaio_waiter *outer;
	struct uaio_queue *queue; /* its memory exists after its end (slab.h) */
	/* leads, or led when a handler left its sleep */
	bool is_leading;

	/* under the group's lock */
	struct list node;
	uint64_t need;      /* meaning defined by the front-end (sink.h) */
	int wake_fd;        /* owns: an eventfd, or -1 to wake is_woken */
	bool leads;         /* sleeps in the queue's epoll */
	bool may_lead;      /* its thread may execute parked requests */
	bool is_leaderless; /* there was no leader; wake it when there is one */

	/* atomic */
	uint32_t is_woken;  /* the word on which the thread sleeps */
	uint32_t is_told;   /* a leader's; set before is_woken */
	uint32_t is_asleep; /* a leader's: in the epoll, or about to be */
};

/*
 * Waiters that were taken off the list under the lock, to be woken after the lock is
 * released.
 */
enum { UAIO_WAKEUPS_MAX = 16 };

struct uaio_wakeups {
	unsigned nr;
	uint32_t *words[UAIO_WAKEUPS_MAX]; /* addresses only (I2) */
};

/* Take waiter off the list, and tell it to look again. */
void uaio_waiter_tell_locked(struct uaio_queue *queue,
			     struct uaio_waiter *waiter,
			     struct uaio_wakeups *wakeups);

/* Take all waiters whose need is met off the list, and tell them to look again. */
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

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_waiters_init(void);

/*
 * Return: this thread's waiter that leads, or that led when a handler left its sleep;
 * NULL if there is none.
 */
struct uaio_waiter *uaio_waiter_leading(void);

/*
 * This thread ends. If it ends in a sleep, remove its waiters and end its leadership.
 * keeps_fds: the thread has another descriptor table by now, so waiters with file
 * descriptors are left as they are.
 */
void uaio_waiters_forget(bool keeps_fds);

/*
 * Something must be done that no submitting or reaping thread does: wake the leader for
 * it; without a leader, have a waiter lead; without waiters, wake the fallback thread.
 */
void uaio_waiters_pass_on(struct uaio_group *group);

/*
 * Something must be tried again after a while, and the calling thread does not come
 * back for it: notify the leader, or else the fallback thread.
 */
void uaio_waiters_back_up(struct uaio_group *group);

/* The queue's generation ends: wake all waiters to look again. */
void uaio_waiters_dismiss(struct uaio_queue *queue);

/* For front-ends. generation is the one in which the client named the queue. */

/*
 * Wait until the sink says that need is met. If requests usually take less time than a
 * sleep, spin for completions a little first.
 * Return: 0 to look again; -EINTR; -ETIMEDOUT; -EINVAL: the generation is over;
 * -ENOMEM.
 */
int uaio_queue_wait(struct uaio_queue *queue, uint64_t generation,
		    uint64_t need, const struct uaio_wait *wait);

/*
 * uaio_queue_wait() that sleeps at once, and does not look for cold reads (reads of
 * pages that are not in the page cache).
 */
int uaio_queue_sleep(struct uaio_queue *queue, uint64_t generation,
		     uint64_t need, const struct uaio_wait *wait);

/*
 * The caller knows that the generation is not over.
 * Return: whether requests are parked that a caller may run; then the queue is pinned.
 */
bool uaio_queue_pin_parked(struct uaio_queue *queue);

/*
 * Execute parked requests whose files are ready, and unpin. waits: the caller sleeps
 * next.
 */
void uaio_queue_run_parked(struct uaio_queue *queue, bool waits);

/*
 * Execute all waiting requests of the queue that can be executed now. A caller that
 * finds too few completions does this before it waits. The caller keeps the queue
 * alive.
 */
void uaio_queue_run(struct uaio_queue *queue, bool waits);

/*
 * Deliver signals that only the caller's mask allows, if the caller did not sleep.
 * Return: whether a signal was delivered.
 */
bool uaio_wait_let_signals_in(const struct uaio_wait *wait);

/* lost.c: threads that end while they sleep in a call of the library */

/* Called each time the engine starts, also in a child of fork(). */
void uaio_lost_init(void);

/*
 * This thread is about to sleep, and may end in the sleep.
 * Return: whether the destructor will be called if it does.
 */
bool uaio_lost_watch(void);

/* vain.c: when a client that polls without waiting must sleep briefly */

/* How long such a brief sleep lasts, unless an event ends it. */
enum { UAIO_DOZE_NS = 100000 };

/* What is known of one client that polls. All members are atomic. */
struct uaio_vain {
	uint32_t nr_looks;
	int64_t checked_ns;    /* when a poll last read the clock */
	uint64_t checked_done; /* events posted by then */
	int64_t since_ns;      /* no event and no sleep since then */
};

/*
 * A client's poll has found nothing while requests are in flight; nr_done events were
 * ever posted.
 * Return: whether the poll must sleep for UAIO_DOZE_NS.
 */
bool uaio_vain_must_doze(struct uaio_vain *vain, uint64_t nr_done);

/* The poll has slept; has_event: an event has come meanwhile. */
void uaio_vain_has_dozed(struct uaio_vain *vain, bool has_event);

#endif /* UAIO_READY_WAITER_H */
