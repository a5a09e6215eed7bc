/* SPDX-License-Identifier: MIT */
/*
 * Finds tools that ask for a trace of this running process (ask.h), and writes records
 * to their rings
 *
 *   I1  A thread sets its `is_writing`, then looks for rings, and writes to them only
 *       while `is_writing` is set. Before a ring is unmapped, it is withdrawn, so threads
 *       no longer find it. After that, the unmapping thread must find each `is_writing`
 *       0.
 *   I2  Only a thread that holds the lock `is_looking` attaches and withdraws rings. No
 *       thread waits for this lock: if it is held, the thread does not check the tools.
 *   I3  If a tool is killed, the tool's descriptor of the ring is gone, or refers to
 *       another file. While the process has requests, it checks these descriptors, but
 *       at most once a second.
 *   I4  A child of fork() is not traced: the rings are not mapped there.
 *
 * Context: any thread that is inside the library (uaio_enter(), proc/entry.h), except
 * for uaio_listen_init().
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

/*
 * This struct has its own cache line: threads read it for each record, and rarely write
 * it.
 */
struct uaio_listening {
	_Alignas(64) struct uaio_trace_ask
		/*
		 * the area in which tools ask for a trace; does not change while the
		 * library runs; NULL: tools cannot ask
		 */
		*ask;
	/* atomic */
	/*
	 * value of ask->nr_changes when the process last checked the askers (slots of
	 * tools, ask.h)
	 */
	uint32_t nr_seen;
	/*
	 * number of askers (slots of tools, ask.h) whose ring is attached, or which
	 * must be checked again
	 */
	uint32_t nr_rings;
};

extern struct uaio_listening uaio_listening
	__attribute__((visibility("hidden")));

/*
 * Called each time the library starts, also in a child of fork(): detaches all tools.
 */
void uaio_listen_init(void);

/* Set the area in which tools ask for a trace; NULL: tools cannot ask. */
void uaio_listen_to(struct uaio_trace_ask *ask);

/* Return: false if certainly no tool asks for a trace. */
bool uaio_listen_is_asked(void);

bool uaio_listen_look(uint64_t now);

/*
 * Check whether a tool asks for a trace, or no longer does. now: the time in cycles.
 * Return: whether there is a ring to write to, or a tool that must be checked again.
 */
static inline bool uaio_listen(uint64_t now)
{
	struct uaio_trace_ask *ask = uaio_listening.ask;

	/*
	 * all relaxed: if this call misses a change, the next call of this function
	 * finds it
	 */
	if (likely(!ask || (load_relaxed(&ask->nr_changes) ==
				    load_relaxed(&uaio_listening.nr_seen) &&
			    !load_relaxed(&uaio_listening.nr_rings))))
		return false;
	return uaio_listen_look(now);
}

/*
 * Fill in the record's process id and thread id, and write the record to all rings.
 * writer: a number below UAIO_TRACE_OWN_LANES that only this thread uses; or
 * UAIO_TRACE_OWN_LANES if the thread has no such number.
 */
void uaio_listen_write(struct uaio_trace_record *record, unsigned writer);

/*
 * Write the name of a file to all rings.
 * Return: false if some ring had no room, or all shared lanes (ask.h) were in use.
 */
bool uaio_listen_write_name(const struct uaio_trace_name *name,
			    unsigned writer);

#endif /* UAIO_TRACE_LISTEN_H */
