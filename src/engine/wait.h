/* SPDX-License-Identifier: MIT */
/*
 * Waiting for completions
 *
 * A waiter says how many completions it still needs; whoever posts wakes it when
 * the sink has that many, and nobody for fewer. It lives in a slab, not on its
 * thread's stack: a signal handler may leave the sleep by siglongjmp() and never
 * come back. (Then the waiter is lost until its thread ends, and nothing else.)
 *
 *   I1  A waiter is on its queue's list or has been told to wake, and both
 *       change under the queue's lock.
 *   I2  After taking it off the list a completer touches it once more, under
 *       that lock, and never after; waking goes by address.
 *   I3  A waiter asks the sink under the same lock before it sleeps, so no
 *       completion falls between the look and the sleep.
 *   I4  need never exceeds what the sink can hold: a full one wakes everybody.
 *       The door sees to that.
 *   I5  A sleeper keeps no queue alive. It remembers which generation of the
 *       queue it waits for, and looks, under the lock, whether that is over.
 */
#ifndef UAIO_ENGINE_WAIT_H
#define UAIO_ENGINE_WAIT_H

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
	bool is_parted; /* by a thread with another descriptor table */
};

struct uaio_waiter {
	struct uaio_slab_node slab;

	/* its thread's */
	struct uaio_waiter *outer; /* the one it had before, or has lost */
	struct uaio_queue *queue;  /* its memory outlives it (slab.h) */
	bool is_leading;           /* or has left that behind */

	/* under the group's lock */
	struct list node;
	uint32_t need;
	int wake_fd;    /* owns: an eventfd, or -1 for waking by word */
	bool leads;     /* sleeps in the queue's epoll */
	bool is_parted; /* its thread has another descriptor table */
	bool is_alone;  /* nobody led when it came: told when somebody does */

	/* atomic */
	uint32_t is_woken;  /* what it sleeps on */
	uint32_t is_told;   /* if it leads: the same, but not yet the last */
	uint32_t is_asleep; /* if it leads: in the epoll, or about to be */
};

/* Waiters that were taken off under the lock, to be woken without it. */
enum { UAIO_WAKEUPS_MAX = 16 };

struct uaio_wakeups {
	unsigned nr;
	uint32_t *words[UAIO_WAKEUPS_MAX]; /* addresses only (I2) */
};

/* Take one off the list, and tell it to look again. */
void uaio_waiter_tell_locked(struct uaio_queue *queue,
			     struct uaio_waiter *waiter,
			     struct uaio_wakeups *wakeups);

/* Take off the list all whose need is met. */
void uaio_waiters_collect_locked(struct uaio_queue *queue,
				 struct uaio_wakeups *wakeups);
void uaio_wakeups_deliver(struct uaio_wakeups *wakeups);

/*
 * Wait for fd, or nothing if that is -1, with the caller's signal mask.
 * Return: as ppoll().
 */
int uaio_wait_poll(int fd, const struct uaio_wait *wait, int64_t deadline_ns);

/* Of this thread, and in no list yet. Return: NULL if there is no memory. */
struct uaio_waiter *uaio_waiter_new(struct uaio_queue *queue);
void uaio_waiter_put(struct uaio_waiter *waiter);

/* From nothing. */
void uaio_waiters_init(void);

/* Return: of this thread's the one that leads, or was to when it was left. */
struct uaio_waiter *uaio_waiter_leading(void);

/*
 * This thread ends: what it leads, and where it waits, was left behind. is_parted: it
 * has another descriptor table by now, and what has numbers is left as it is.
 */
void uaio_waiters_forget(bool is_parted);

/*
 * Something is left to do that no submitter or reaper does: have the thread that
 * leads do it, or somebody lead.
 */
void uaio_waiters_pass_on(struct uaio_group *group);

/* The generation ends: everybody is to look again. */
void uaio_waiters_dismiss(struct uaio_queue *queue);

/*
 * For doors. generation is the one that the caller's client has named.
 */

/*
 * Wait until the sink has need completions more. Where requests take less than a
 * sleep does, the caller looks out for them a little first.
 * Return: 0 to look again, -EINTR, -ETIMEDOUT, -EINVAL: the generation is over,
 * -ENOMEM.
 */
int uaio_queue_wait(struct uaio_queue *queue, uint64_t generation,
		    uint32_t need, const struct uaio_wait *wait);

/* The same, but sleep at once, and whatever is cold. */
int uaio_queue_sleep(struct uaio_queue *queue, uint64_t generation,
		     uint32_t need, const struct uaio_wait *wait);

/*
 * The door knows that the generation is not over.
 * Return: whether something is parked that a caller may run, and pinned.
 */
bool uaio_queue_pin_parked(struct uaio_queue *queue);

/* Make what is parked and ready, and unpin. waits: the caller sleeps next. */
void uaio_queue_run_parked(struct uaio_queue *queue, bool waits);

/*
 * Let signals in that only the caller's mask allows, though nobody slept.
 * Return: whether one came.
 */
bool uaio_wait_let_signals_in(const struct uaio_wait *wait);

#endif /* UAIO_ENGINE_WAIT_H */
