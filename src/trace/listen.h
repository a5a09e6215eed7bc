/* SPDX-License-Identifier: MIT */
/*
 * Tools that ask a running process for a trace (ask.h): finding them, writing their rings
 *
 *   I1  A thread sets its `is_writing`, then looks for rings, and writes only while
 *       `is_writing` is set. A ring is unmapped after it was withdrawn, and after each
 *       thread was then seen not to write.
 *   I2  Only the thread that holds `is_looking` attaches and withdraws rings. No thread
 *       waits for it.
 *   I3  A killed tool is detected when the process next has requests, after at most a
 *       second: its descriptor is gone or another file.
 *   I4  A child of fork() is not traced: the rings are not mapped there.
 *
 * Context: any thread that has entered the library (entry.h), except uaio_listen_init().
 *
 * Tested by test-listen.c and test/run/attach.py.
 */
#ifndef UAIO_TRACE_LISTEN_H
#define UAIO_TRACE_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/check.h"
#include "trace/ask.h"
#include "trace/trace.h"
#include "trace/ring.h"

/* Read for each record, and rarely written. */
struct uaio_listening {
	_Alignas(64) struct uaio_trace_ask
		*ask; /* constant while the library is up; or NULL */
	/* atomic */
	uint32_t nr_seen;  /* value of nr_changes that was processed last */
	uint32_t nr_rings; /* rings, and tools that must be checked again */
};

extern struct uaio_listening uaio_listening
	__attribute__((visibility("hidden")));

/* Called each time the library starts, also in a child of fork(): no tool asks. */
void uaio_listen_init(void);

/* Set where tools ask for a trace; NULL: they cannot. */
void uaio_listen_to(struct uaio_trace_ask *ask);

/* Return: whether a tool may be asking. */
bool uaio_listen_is_asked(void);

bool uaio_listen_look(uint64_t now);

/*
 * Check whether a tool starts or stops asking; now: in cycles.
 * Return: whether there is a ring to write to, or a tool that must be checked again.
 */
static inline bool uaio_listen(uint64_t now)
{
	struct uaio_trace_ask *ask = uaio_listening.ask;

	/* relaxed, all: a missed change is seen next time */
	if (likely(!ask || (load_relaxed(&ask->nr_changes) ==
				    load_relaxed(&uaio_listening.nr_seen) &&
			    !load_relaxed(&uaio_listening.nr_rings))))
		return false;
	return uaio_listen_look(now);
}

/*
 * Write a record to all rings, and fill in its process id and thread id. writer: a number
 * of this thread alone, below UAIO_TRACE_OWN_LANES; or UAIO_TRACE_OWN_LANES.
 */
void uaio_listen_write(struct uaio_trace_record *record, unsigned writer);

/*
 * Write the name of a file to all rings.
 * Return: false if a ring, or the writer, had no room.
 */
bool uaio_listen_write_name(const struct uaio_trace_name *name,
			    unsigned writer);

#endif /* UAIO_TRACE_LISTEN_H */
