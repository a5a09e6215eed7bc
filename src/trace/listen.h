/* SPDX-License-Identifier: MIT */
/*
 * Tools that ask for a trace while the process runs (ask.h): how it finds them, and
 * writes to their rings
 *
 *   I1  A thread writes to a ring only while its `is_writing` is set, and looks for
 *       rings after it has set it. A ring is unmapped when it has been withdrawn, and
 *       then each thread was seen not to write.
 *   I2  Only who has `is_looking` attaches and withdraws rings. Nobody waits for it.
 *   I3  A tool that was killed is found so within a second of the next requests, by its
 *       descriptor, which is gone or another file's.
 *   I4  A child of fork() is not traced: the rings are not mapped there.
 *
 * Context: any thread that has entered (entry.h), but uaio_listen_init().
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

/* What is looked at for each record; a line that hardly ever changes. */
struct uaio_listening {
	_Alignas(64) struct uaio_trace_ask
		*ask; /* constant while the engine is up; or NULL */
	/* atomic */
	uint32_t nr_seen;  /* changes that were looked at */
	uint32_t nr_rings; /* and tools that are to be looked for again */
};

extern struct uaio_listening uaio_listening
	__attribute__((visibility("hidden")));

/* Called each time the engine starts, also in a child of fork(): nobody asks. */
void uaio_listen_init(void);

/* From now on tools ask here; NULL: nowhere. */
void uaio_listen_to(struct uaio_trace_ask *ask);

/* Return: whether there may be a tool that asks. */
bool uaio_listen_is_asked(void);

bool uaio_listen_look(uint64_t now);

/*
 * Look whether a tool begins or ends; now: in cycles.
 * Return: whether there is a ring to write to, or a tool that is to be looked for again.
 */
static inline bool uaio_listen(uint64_t now)
{
	struct uaio_trace_ask *ask = uaio_listening.ask;

	/* relaxed, all: a change that is missed is seen next time */
	if (likely(!ask || (load_relaxed(&ask->nr_changes) ==
				    load_relaxed(&uaio_listening.nr_seen) &&
			    !load_relaxed(&uaio_listening.nr_rings))))
		return false;
	return uaio_listen_look(now);
}

/*
 * Write a record to all rings. writer: below UAIO_TRACE_OWN_LANES a number that is the
 * thread's alone, or that number; its process id and thread id are filled in.
 */
void uaio_listen_write(struct uaio_trace_record *record, unsigned writer);

/*
 * The same of the name of a file.
 * Return: false if a ring, or the writer, had no room for it.
 */
bool uaio_listen_write_name(const struct uaio_trace_name *name,
			    unsigned writer);

#endif /* UAIO_TRACE_LISTEN_H */
