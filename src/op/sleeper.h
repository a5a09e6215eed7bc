/* SPDX-License-Identifier: MIT */
/*
 * Sleepers: calls that wait for ever, and are told to end
 *
 * The call of a request may wait for what only another thread or process does, and
 * which no file tells of: a wake-up of a futex, the end of a child. A worker makes
 * it. By the request's sleeper it is told to end, and the thread that submitted the
 * request finds out whether the call waits yet.
 *
 *   I1  A call that is told to end returns soon: with -ECANCELED, or with what came
 *       first.
 *   I2  A call on futexes waits on three kinds, and the kernel queues it on them in
 *       this order: end, those of the client, last. Whoever finds it queued on last
 *       knows that no wake-up of a client's is missed from then on. Of those that
 *       woke it, the kernel names the one that is last in that order. So a wake-up
 *       of a client's that was counted is the result, even if the call was told to
 *       end meanwhile.
 *   I3  References: its submitter's, and that of the arguments that a request has a
 *       copy of. Without the latter the request is over, or was never made.
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
	UAIO_SLEEPER_NEW,  /* not tried, or not by its submitter */
	UAIO_SLEEPER_SENT, /* it would wait: a worker is to make the call */
	UAIO_SLEEPER_CALLS, /* a worker makes it, on futexes: uaio_sleeper_waits() */
	UAIO_SLEEPER_LOOKS, /* a worker looks for a child, and can be told to end */
	UAIO_SLEEPER_OVER,
};

struct uaio_sleeper {
	struct uaio_slab_node node;
	struct uaio_sleeper *next; /* the submitter's */

	/* immutable once a request has it; both may be NULL: waitid.c */
	struct uaio_file *file;       /* shares (ref) */
	struct uaio_endable *endable; /* owns */

	uint32_t state;   /* atomic, futex: enum uaio_sleeper_state */
	uint32_t nr_refs; /* atomic */
	uint32_t end;     /* atomic, futex: 1: the call is to end */
	uint32_t last;    /* a futex: 0 */
	uint32_t found;   /* the same: where what was found on last goes */
};

void uaio_sleepers_init(void);

/* Return: a sleeper with one reference, or NULL. */
struct uaio_sleeper *uaio_sleeper_new(void);
void uaio_sleeper_get(struct uaio_sleeper *sleeper);
void uaio_sleeper_put(struct uaio_sleeper *sleeper);

/* Tell the call to end. */
void uaio_sleeper_end(struct uaio_sleeper *sleeper);
bool uaio_sleeper_is_ended(const struct uaio_sleeper *sleeper);

/* The request's copy of its arguments ends, and with it the reference. */
void uaio_sleeper_let_go(struct uaio_sleeper *sleeper);

/* What becomes of the call; seen by who waits for that. */
void uaio_sleeper_move(struct uaio_sleeper *sleeper,
		       enum uaio_sleeper_state state);

enum uaio_sleeper_state uaio_sleeper_state(const struct uaio_sleeper *sleeper);

/*
 * Wait until the state is another one, or a while has passed.
 * Return: the state.
 */
enum uaio_sleeper_state uaio_sleeper_await(struct uaio_sleeper *sleeper,
					   enum uaio_sleeper_state state);

/* For the submitter: return whether there is a request, which is not over. */
bool uaio_sleeper_has_request(const struct uaio_sleeper *sleeper);

/* Return: whether the call, on futexes, waits. Only the submitter asks, I2. */
bool uaio_sleeper_waits(struct uaio_sleeper *sleeper);

#endif /* UAIO_OP_SLEEPER_H */
