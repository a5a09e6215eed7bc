/* SPDX-License-Identifier: MIT */
/*
 * Tracing: the process writes a record of each completed request to a ring (ring.h)
 *
 * Tracing is on only if `uaio trace` has started the process. Then the library counts
 * and times requests as for the statistics, and writes a record when it counts a
 * request as complete. For tools that attach to a running process, see listen.h.
 *
 *   I1  The ring is never unmapped. So once a thread has found that tracing is on, it may
 *       use the ring.
 *   I2  Each thread of a child of fork() claims its own lane.
 *
 * Context: any thread that is inside the library (uaio_enter(), proc/entry.h).
 *
 * Tested by test-trace.c and test/run/trace.py.
 */
#ifndef UAIO_TRACE_TRACE_H
#define UAIO_TRACE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/check.h"
#include "trace/ring.h"

/* name.c: writes names of files for tracers */

struct uaio_trace_name {
	uint64_t number;
	int32_t fd;
	uint32_t len;
	/* the name; of a longer name only the end */
	char text[UAIO_TRACE_NAME_BYTES];
};

/* Atomic: the time, in cycles, at which a ring was last attached. */
extern uint64_t uaio_trace_attached __attribute__((visibility("hidden")));

/* Return: whether all tracers know the name of the file that has this number. */
static inline bool uaio_trace_is_named(uint64_t number)
{
	/*
	 * [MB:trace-attached] acquire: if this thread then writes the name, it finds
	 * the new ring. Pairs with uaio_trace_name_again().
	 */
	return number > load_acquire(&uaio_trace_attached);
}

/* Return: a new number for a file; no file has had it before. */
uint64_t uaio_trace_new_number(void);

/*
 * Called after a ring was attached. From then on each file needs a new number, and its
 * name must be written again.
 */
void uaio_trace_name_again(void);

/*
 * Write a file's name to a lane (ring.h) of a ring; the calling thread owns the lane.
 * Return: false if the lane has no room.
 */
bool uaio_trace_put_name_in(struct uaio_trace_ring *ring, unsigned lane,
			    const struct uaio_trace_name *name);

extern uint32_t uaio_trace_on __attribute__((visibility("hidden")));

/* Return: whether tracing is on, because `uaio trace` has started the process. */
static inline bool uaio_trace_is_on(void)
{
	/*
	 * relaxed: if tracing is on, the ring was mapped before this thread began
	 */
	return unlikely(load_relaxed(&uaio_trace_on));
}

/*
 * Called when the library is loaded: map the ring that the variable UAIO_TRACE names.
 * Return: 0; -ENOENT: the variable is not set, or the tracer is gone; or another error.
 */
int uaio_trace_load(void);

/*
 * Map the ring in the file fd.
 * Return: 0; -ENOENT: fd is no ring; -EXDEV: the tracer is in another pid namespace;
 * -ENOMEM.
 */
int uaio_trace_map(int fd, struct uaio_trace_ring **ret_ring);

/*
 * Called each time the library starts, also in a child of fork(): store this process's
 * ID, and detach the tools that are attached (listen.h).
 */
void uaio_trace_init(void);

/*
 * Return: the next free record of this thread's lane (ring.h). The caller fills in the
 * record, and publishes it by uaio_trace_put(). NULL: the lane is full; one record was
 * counted as lost.
 */
struct uaio_trace_record *uaio_trace_next(void);
void uaio_trace_put(void);

/*
 * Write the name of a file to this thread's lane (ring.h).
 * Return: false if there is no room.
 */
bool uaio_trace_put_name(const struct uaio_trace_name *name);

#ifdef UAIO_TESTING
/* For tests only: from now on write records to `ring`; NULL: stop tracing. */
void uaio_trace_to(struct uaio_trace_ring *ring);
#endif

#endif /* UAIO_TRACE_TRACE_H */
