/* SPDX-License-Identifier: MIT */
/*
 * Waiting for completions
 *
 * A waiter says what it still needs, for example how many completions; the thread
 * that posts wakes it when the sink says that this is met, and not before
 * (flow/post.c). The
 * waiter that leads is woken by its files as well, and when a timer is due
 * (lead.h); a queue that is closed wakes all. A waiter lives in a
 * slab, not on its thread's stack: a signal handler may leave the sleep by
 * siglongjmp() and never come back. (Then the waiter is lost until its thread
 * ends, and nothing else.)
 *
 *   I1  A waiter is on its queue's list or has been told to wake, and both
 *       change under the queue's lock.
 *   I2  After it has taken a waiter off the list a completer touches it once
 *       more, under that lock, and never after; waking goes by address.
 *   I3  A waiter asks the sink under the same lock before it sleeps, so no
 *       completion falls between the look and the sleep.
 *   I4  A full sink meets every need, and so wakes all waiters. The door sees to
 *       that.
 *   I5  A waiter that sleeps keeps no queue alive. It remembers which
 *       generation of the queue it waits for, and looks, under the lock,
 *       whether that is over.
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
	const void *mask;    /* of signals, or NULL; the kernel's format */
	size_t mask_bytes;
	/* Executes no requests and uses no file descriptor of the library's (table.h). */
	bool sleeps_only;
	bool is_cancel_point; /* the thread may be cancelled in its sleep */
};

struct uaio_waiter {
	struct uaio_slab_node slab;

	/* its thread's */
	struct uaio_waiter *outer; /* the thread's one before, or a lost one */
	struct uaio_queue *queue;  /* its memory outlives it (slab.h) */
	bool is_leading;           /* or did, and a handler left that sleep */

	/* under the group's lock */
	struct list node;
	uint64_t need;      /* the door's (sink.h) */
	int wake_fd;        /* owns: an eventfd, or -1 for waking by word */
	bool leads;         /* sleeps in the queue's epoll */
	bool may_lead;      /* its thread may execute what gets ready */
	bool is_leaderless; /* none led when it came; told if one does */

	/* atomic */
	uint32_t is_woken;  /* what it sleeps on */
	uint32_t is_told;   /* if it leads: told; set before is_woken */
	uint32_t is_asleep; /* if it leads: in the epoll, or about to be */
};

/*
 * Waiters that were taken off the list under the lock, to be woken without it.
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

/* Take all waiters whose need is met off the list, and tell them. */
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
 * Return: the waiter of this thread that leads, or led when a handler left its
 * sleep; NULL if none.
 */
struct uaio_waiter *uaio_waiter_leading(void);

/*
 * This thread ends: if it ends in a sleep, let go of what it leads and where it
 * waits. keeps_fds: it has another descriptor table by now, so what has file
 * descriptors is left as it is.
 */
void uaio_waiters_forget(bool keeps_fds);

/*
 * Something is left to do that no thread that submits or reaps does: have the
 * leader do it; or have a waiter lead; or else the fallback thread.
 */
void uaio_waiters_pass_on(struct uaio_group *group);

/*
 * Something is left that is tried again after a while, by a thread that does not
 * come back for it: have the leader see to that, or the fallback thread.
 */
void uaio_waiters_back_up(struct uaio_group *group);

/* The generation ends: all waiters are to look again. */
void uaio_waiters_dismiss(struct uaio_queue *queue);

/*
 * For doors. generation is the one in which the caller's client named the
 * queue.
 */

/*
 * Wait until the sink says that need is met. Where requests take less time than a
 * sleep does, the caller spins for them a little first.
 * Return: 0 to look again; -EINTR; -ETIMEDOUT; -EINVAL: the generation is over;
 * -ENOMEM.
 */
int uaio_queue_wait(struct uaio_queue *queue, uint64_t generation,
		    uint64_t need, const struct uaio_wait *wait);

/* The same, but sleep at once, and do not look for cold reads. */
int uaio_queue_sleep(struct uaio_queue *queue, uint64_t generation,
		     uint64_t need, const struct uaio_wait *wait);

/*
 * The caller knows that the generation is not over.
 * Return: whether something is parked that a caller may run; then the queue is
 * pinned.
 */
bool uaio_queue_pin_parked(struct uaio_queue *queue);

/*
 * Execute what is parked and ready, and unpin. waits: the caller sleeps next.
 */
void uaio_queue_run_parked(struct uaio_queue *queue, bool waits);

/*
 * Execute what can be executed of all that waits in the queue. A caller that
 * finds too few completions does this before it waits. The caller keeps the
 * queue.
 */
void uaio_queue_run(struct uaio_queue *queue, bool waits);

/*
 * Let in signals that only the caller's mask allows, though the caller did not
 * sleep.
 * Return: whether one came.
 */
bool uaio_wait_let_signals_in(const struct uaio_wait *wait);

/* lost.c: threads that end while they sleep in a call of the library */

/* Called each time the engine starts, also in a child of fork(). */
void uaio_lost_init(void);

/*
 * This thread is about to sleep, and may end there.
 * Return: whether the destructor will be called if it does.
 */
bool uaio_lost_watch(void);

/* vain.c: when a client that does not wait must sleep all the same */

/* How long such a sleep lasts, unless an event ends it. */
enum { UAIO_DOZE_NS = 100000 };

/* What is known of one client. All members are atomic. */
struct uaio_vain {
	uint32_t nr_looks;
	int64_t checked_ns;    /* when a look last read the clock */
	uint64_t checked_done; /* events posted by then */
	int64_t since_ns;      /* no event since, and no sleep */
};

/*
 * A look has found nothing, while requests are on their way; nr_done events
 * were ever posted.
 * Return: whether the look is to sleep for UAIO_DOZE_NS.
 */
bool uaio_vain_must_doze(struct uaio_vain *vain, uint64_t nr_done);

/* The look has slept; has_event: an event has come. */
void uaio_vain_has_dozed(struct uaio_vain *vain, bool has_event);

#endif /* UAIO_READY_WAITER_H */
