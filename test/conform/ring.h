/* SPDX-License-Identifier: MIT */
/*
 * The completion ring of kernel AIO, which clients read at the address that io_setup
 * returns (aio_context_t), and the fields that each test case prints about it
 *
 * The call_*() functions watch the ring of each context. When a context is destroyed or
 * the test case ends, ring_note() prints the header and the events of the ring. If a
 * call returned events that the ring did not hold, ring_note() also prints their
 * number.
 */
#ifndef CONFORM_RING_H
#define CONFORM_RING_H

#include <linux/aio_abi.h>
#include <stdbool.h>

struct ring {
	unsigned int id;
	unsigned int nr;
	unsigned int head;
	unsigned int tail;
	unsigned int magic;
	unsigned int compat_features;
	unsigned int incompat_features;
	unsigned int header_length;
	struct io_event events[];
};

/*
 * ring_watch() starts to watch a ring, and ring_forget() stops. Test cases call
 * ring_forget() if the ring is gone, its requests still run, or its content depends on
 * timing.
 */
void ring_watch(aio_context_t ctx);
void ring_forget(aio_context_t ctx);
/* Call this after the test case has moved the ring with mremap(). */
void ring_moved(aio_context_t from, aio_context_t to);

/*
 * To be called before a call that consumes events.
 * Return: the ring's head; -1 if the ring is not watched.
 */
long ring_head(aio_context_t ctx);
/*
 * Records a call that consumed events. `head` is the ring's head when the call began.
 * `nr` is what the call returned: a number of events, or an error.
 */
void ring_reaped(aio_context_t ctx, long head, const struct io_event *events,
		 long nr);

/*
 * The requests of this test case may complete in any order. From now on the ring's
 * events are printed in the order of submission.
 */
void rings_unordered(void);

/* Prints the fields of the context's ring if the ring is watched. */
void ring_note(aio_context_t ctx);
/* Prints the fields of all watched rings of this process. */
void rings_note(void);

#endif
