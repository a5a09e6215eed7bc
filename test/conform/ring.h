/* SPDX-License-Identifier: MIT */
/*
 * The completion ring of kernel AIO, read by clients at the address of the handle, and the
 * fields that each row (test case) notes of it
 *
 * The call functions watch the ring of each context. When a context is
 * destroyed, and when the row ends, they note the ring's header and the bytes
 * of its events. For each event that a call returned, they note whether the
 * ring held an equal event.
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
 * Start to watch a ring; stop, because the ring is gone or its requests are still running.
 */
void ring_watch(aio_context_t ctx);
void ring_forget(aio_context_t ctx);
/* The client has moved the ring with mremap(). */
void ring_moved(aio_context_t from, aio_context_t to);

/* Return: the head, before a call consumes events; -1 if the ring is not watched. */
long ring_head(aio_context_t ctx);
/* A call began with the ring at this head, and returned nr, events or an error. */
void ring_reaped(aio_context_t ctx, long head, const struct io_event *events,
		 long nr);

/* The requests of this row complete in any order, and so do their events. */
void rings_unordered(void);

/* Notes the ring if it is watched. */
void ring_note(aio_context_t ctx);
/* Notes all watched rings of this process. */
void rings_note(void);

#endif
