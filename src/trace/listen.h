/* SPDX-License-Identifier: MIT */
/*
 * Tools that request a trace of this running process (ask.h): the process finds the
 * tools, and writes records to their rings
 *
 *   I1  A thread sets its `is_writing`, then looks for rings, and writes to rings only
 *       while `is_writing` is set. Before a ring is unmapped, it is withdrawn, so that
 *       threads no longer find it; then each thread's `is_writing` must be found 0.
 *   I2  A thread attaches and withdraws rings only while it holds the lock
 *       `is_looking`. If another thread holds this lock, the thread does not wait, but
 *       goes on.
 *   I3  If a tool is killed, the process finds out when it next has requests, but at
 *       most once a second: the tool's descriptor is gone or refers to another file.
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

/* On a cache line of its own, since it is read for each record, and rarely written. */
struct uaio_listening {
	_Alignas(64) struct uaio_trace_ask
		*ask; /* constant while the library is up; or NULL */
	/* atomic */
	uint32_t nr_seen;  /* nr_changes when askers were last checked */
	uint32_t nr_rings; /* rings, plus tools that must be checked again */
};

extern struct uaio_listening uaio_listening
	__attribute__((visibility("hidden")));

/*
 * Called each time the library starts, also in a child of fork(): no tool is attached.
 */
void uaio_listen_init(void);

/* Set the area where tools request a trace; NULL: they cannot. */
void uaio_listen_to(struct uaio_trace_ask *ask);

/* Return: whether a tool may have requested a trace. */
bool uaio_listen_is_asked(void);

bool uaio_listen_look(uint64_t now);

/*
 * Check whether a tool has requested a trace, or needs it no longer. now: in cycles.
 * Return: whether there is a ring to write to, or a tool that must be checked again.
 */
static inline bool uaio_listen(uint64_t now)
{
	struct uaio_trace_ask *ask = uaio_listening.ask;

	/* relaxed, all: if a change is missed, the next call finds it */
	if (likely(!ask || (load_relaxed(&ask->nr_changes) ==
				    load_relaxed(&uaio_listening.nr_seen) &&
			    !load_relaxed(&uaio_listening.nr_rings))))
		return false;
	return uaio_listen_look(now);
}

/*
 * Write a record to all rings, with its process id and thread id filled in. writer: a
 * number below UAIO_TRACE_OWN_LANES that only this thread uses; or UAIO_TRACE_OWN_LANES
 * if it has none.
 */
void uaio_listen_write(struct uaio_trace_record *record, unsigned writer);

/*
 * Write the name of a file to all rings.
 * Return: false if a ring had no room, or no shared lane was free.
 */
bool uaio_listen_write_name(const struct uaio_trace_name *name,
			    unsigned writer);

#endif /* UAIO_TRACE_LISTEN_H */
