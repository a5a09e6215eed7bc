/* SPDX-License-Identifier: MIT */
/*
 * Sleepers: ending a system call that may wait for ever
 *
 * A request may wait for an event that no file signals: a wake-up of a futex, or the end
 * of a child. A worker makes the system call of such a request. Another thread uses the
 * request's struct uaio_sleeper to end the call early. The submitting thread uses it to
 * find out whether the call already sleeps.
 *
 *   I1  uaio_sleeper_end() makes the call return soon, with -ECANCELED. If the awaited
 *       event came before that, the call returns its usual result.
 *   I2  futex_waitv() waits on a list of futexes: `end`, the client's futexes, and
 *       `last`. The kernel adds the waiting thread to these futexes in the order of the
 *       list. So once a thread finds a waiter on `last`, no wake-up of a client's futex
 *       is missed. If several futexes were woken, the kernel reports the one that is
 *       last in the list. So if a client's futex was woken, its index is the result, even
 *       if the call was ended (by `end`) meanwhile.
 *   I3  The submitter has one reference, and a request's copy of the arguments has another.
 *       If there is no copy, the request is complete, or was never created.
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
	/* the submitter has not tried the call; another thread may try it later */
	UAIO_SLEEPER_NEW,
	/* the submitter has tried the call, which would block: a worker will make it */
	UAIO_SLEEPER_SENT,
	/*
	 * A worker waits on futexes, or is about to wait: uaio_sleeper_waits() finds out
	 * which of the two.
	 */
	UAIO_SLEEPER_CALLS,
	/* a worker waits for a child; the wait can be ended */
	UAIO_SLEEPER_LOOKS,
	UAIO_SLEEPER_OVER,
};

struct uaio_sleeper {
	struct uaio_slab_node node;
	/* the next sleeper of the same submission */
	struct uaio_sleeper *next;

	/*
	 * These two members are only for waitid.c; NULL if not needed. They do not
	 * change once a request has the sleeper.
	 */
	struct uaio_file *file;       /* shares (ref) */
	struct uaio_endable *endable; /* owns */

	/* atomic, a futex: the call's enum uaio_sleeper_state */
	uint32_t state;
	uint32_t nr_refs; /* atomic */
	uint32_t end;     /* atomic, a futex; 1: the call must end */
	/* a futex, always 0; if the call is queued on it, the call sleeps (I2) */
	uint32_t last;
	/*
	 * A futex, always 0. uaio_sleeper_waits() tests for a waiter on `last` by
	 * moving it here.
	 */
	uint32_t found;
};

void uaio_sleepers_init(void);

/* Return: a sleeper with one reference; NULL if memory is refused. */
struct uaio_sleeper *uaio_sleeper_new(void);
void uaio_sleeper_get(struct uaio_sleeper *sleeper);
void uaio_sleeper_put(struct uaio_sleeper *sleeper);

/* Make the sleeper's system call return soon (I1). */
void uaio_sleeper_end(struct uaio_sleeper *sleeper);
bool uaio_sleeper_is_ended(const struct uaio_sleeper *sleeper);

/* Called when a request's copy of its arguments is freed: drop the copy's reference. */
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

/*
 * For the submitter.
 * Return: whether the sleeper's request is created and not yet complete.
 */
bool uaio_sleeper_has_request(const struct uaio_sleeper *sleeper);

/*
 * For the submitter.
 * Return: whether the call already sleeps on its futexes (I2).
 */
bool uaio_sleeper_waits(struct uaio_sleeper *sleeper);

#endif /* UAIO_OP_SLEEPER_H */
