/* SPDX-License-Identifier: MIT */
/*
 * Sleepers: end a call that may wait for ever
 *
 * A request may wait for an event that no file signals: a wake-up of a futex, or the end of a
 * child. A worker makes the system call of such a request. The request's sleeper (this struct)
 * is used to end the call early, and lets the submitting thread find out whether the call
 * already sleeps.
 *
 *   I1  uaio_sleeper_end() makes the call return soon: with -ECANCELED, or with an
 *       earlier result.
 *   I2  A call on futexes (futex_waitv) waits on `end`, on the client's futexes, and on
 *       `last`; the kernel queues it in this order. So a thread that finds the call queued on
 *       `last` knows that from then on the call misses no wake-up of a client's futex. If
 *       several futexes woke it, the kernel reports the last in that order. So a counted
 *       wake-up of a client's futex is the result, even if the call was ended meanwhile.
 *   I3  The submitter has one reference, and a request's copy of the arguments has another. If
 *       there is no copy, the request is complete, or was never created.
 *
 * Thread-safety: any thread. Tested by uring/test-uring-futex.c.
 */
#ifndef UAIO_OP_SLEEPER_H
#define UAIO_OP_SLEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slab.h"

struct uaio_endable;
struct uaio_file;

enum uaio_sleeper_state {
	UAIO_SLEEPER_NEW, /* not tried yet, or not tried by its submitter */
	/* the submitter's try would have blocked: a worker will make the call */
	UAIO_SLEEPER_SENT,
	/* a worker waits on futexes: uaio_sleeper_waits() */
	UAIO_SLEEPER_CALLS,
	UAIO_SLEEPER_LOOKS, /* a worker waits for a child; its call can be ended */
	UAIO_SLEEPER_OVER,
};

struct uaio_sleeper {
	struct uaio_slab_node node;
	struct uaio_sleeper *next; /* the submitter's list of sleepers */

	/* immutable once a request has it; NULL: not needed (waitid.c) */
	struct uaio_file *file;       /* shares (ref) */
	struct uaio_endable *endable; /* owns */

	uint32_t state;   /* atomic, futex: enum uaio_sleeper_state */
	uint32_t nr_refs; /* atomic */
	uint32_t end;     /* atomic, futex: 1: the call must end */
	/* a futex, always 0: if the call is queued on it, the call sleeps (I2) */
	uint32_t last;
	/* a futex, always 0, to which uaio_sleeper_waits() requeues a waiter */
	uint32_t found;
};

void uaio_sleepers_init(void);

/* Return: a sleeper with one reference, or NULL. */
struct uaio_sleeper *uaio_sleeper_new(void);
void uaio_sleeper_get(struct uaio_sleeper *sleeper);
void uaio_sleeper_put(struct uaio_sleeper *sleeper);

/* Make the call end. */
void uaio_sleeper_end(struct uaio_sleeper *sleeper);
bool uaio_sleeper_is_ended(const struct uaio_sleeper *sleeper);

/* The request's copy of its arguments is being freed: drop its reference to the sleeper. */
void uaio_sleeper_let_go(struct uaio_sleeper *sleeper);

/* Set the state of the call, and wake the thread that waits for a change. */
void uaio_sleeper_move(struct uaio_sleeper *sleeper,
		       enum uaio_sleeper_state state);

enum uaio_sleeper_state uaio_sleeper_state(const struct uaio_sleeper *sleeper);

/*
 * Wait until the state is not `state` any more, or 10 ms have passed.
 * Return: the state.
 */
enum uaio_sleeper_state uaio_sleeper_await(struct uaio_sleeper *sleeper,
					   enum uaio_sleeper_state state);

/* For the submitter. Return: whether the sleeper still has a request that is not complete. */
bool uaio_sleeper_has_request(const struct uaio_sleeper *sleeper);

/* For the submitter. Return: whether the call waits on its futexes (I2). */
bool uaio_sleeper_waits(struct uaio_sleeper *sleeper);

#endif /* UAIO_OP_SLEEPER_H */
