/* SPDX-License-Identifier: MIT */
/*
 * Tracing: the process writes a record of each completed request (ring.h)
 *
 * Tracing is on only if `uaio trace` has started the process. Then requests are counted
 * and timed as for the statistics, and a record is written when a request is counted as
 * complete. For tools that attach to a running process, see listen.h.
 *
 *   I1  The ring is never unmapped, so a thread that has found tracing on may use the
 *       ring.
 *   I2  The threads of a child of fork() claim lanes of their own.
 *
 * Context: any thread that has entered the library (entry.h).
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

/* name.c: names of files for tracers */

struct uaio_trace_name {
	uint64_t number;
	int32_t fd;
	uint32_t len;
	char text[UAIO_TRACE_NAME_BYTES]; /* a long name lacks its beginning */
};

/* Atomic: when a ring was last attached, in cycles. */
extern uint64_t uaio_trace_attached __attribute__((visibility("hidden")));

/* Return: whether all tracers know the name of the file that has this number. */
static inline bool uaio_trace_is_named(uint64_t number)
{
	/*
	 * [MB:trace-attached] acquire: a thread that then writes the name finds the new
	 * ring. Pairs with uaio_trace_name_again().
	 */
	return number > load_acquire(&uaio_trace_attached);
}

/* Return: a number that no file has had before. */
uint64_t uaio_trace_new_number(void);

/*
 * Called after a ring was attached: from now on each file needs a new number, and its
 * name must be written again.
 */
void uaio_trace_name_again(void);

/*
 * Write a name to a lane of a ring. The lane belongs to this thread.
 * Return: false if there is no room.
 */
bool uaio_trace_put_name_in(struct uaio_trace_ring *ring, unsigned lane,
			    const struct uaio_trace_name *name);

extern uint32_t uaio_trace_on __attribute__((visibility("hidden")));

/* Return: whether tracing is on: the process was started by `uaio trace`. */
static inline bool uaio_trace_is_on(void)
{
	/* relaxed: the ring was mapped before this thread began */
	return unlikely(load_relaxed(&uaio_trace_on));
}

/*
 * Called when the library is loaded: map the ring that the environment variable names.
 * Return: 0; -ENOENT: there is no variable, or the tracer is gone; or another error.
 */
int uaio_trace_load(void);

/*
 * Map the ring in file fd.
 * Return: 0; -ENOENT: fd is no ring; -EXDEV: its tracer is in another pid namespace;
 * -ENOMEM.
 */
int uaio_trace_map(int fd, struct uaio_trace_ring **ret_ring);

/* Called each time the library starts, also in a child of fork(). */
void uaio_trace_init(void);

/*
 * Return: the next record of this thread's lane, to be filled in and then published by
 * uaio_trace_put(). NULL: there is no room; the record was counted as lost.
 */
struct uaio_trace_record *uaio_trace_next(void);
void uaio_trace_put(void);

/* Write the name of a file to the ring. Return: false if there is no room. */
bool uaio_trace_put_name(const struct uaio_trace_name *name);

#ifdef UAIO_TESTING
/* For tests: trace into ring from now on; NULL: stop. */
void uaio_trace_to(struct uaio_trace_ring *ring);
#endif

#endif /* UAIO_TRACE_TRACE_H */
