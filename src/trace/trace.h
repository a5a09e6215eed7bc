/* SPDX-License-Identifier: MIT */
/*
 * Tracing: the process writes a record of each completed request (ring.h)
 *
 * Tracing is on only if `uaio trace` starts the process; then requests are counted and
 * timed as for the statistics. A record is written where a request is counted as
 * complete. listen.h serves tools that ask for a trace later.
 *
 *   I1  The mapping of a ring is never removed, so a thread that has seen tracing on may
 *       use it.
 *   I2  A child of fork() takes lanes of its own.
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
	char text[UAIO_TRACE_NAME_BYTES]; /* cut at the beginning */
};

extern uint64_t uaio_trace_attached
	__attribute__((visibility("hidden"))); /* atomic: in cycles */

/* Return: whether all tracers know the name of the file with this number. */
static inline bool uaio_trace_is_named(uint64_t number)
{
	/*
	 * [MB:trace-attached] acquire: a thread that then writes the name finds the new
	 * ring. Pairs with uaio_trace_name_again().
	 */
	return number > load_acquire(&uaio_trace_attached);
}

/* Return: a number that no file has had. */
uint64_t uaio_trace_new_number(void);

/* A ring was attached: from now on files need new numbers and names. */
void uaio_trace_name_again(void);

/*
 * Write a name to a lane of a ring, which belongs to this thread.
 * Return: false if there is no room.
 */
bool uaio_trace_put_name_in(struct uaio_trace_ring *ring, unsigned lane,
			    const struct uaio_trace_name *name);

extern uint32_t uaio_trace_on __attribute__((visibility("hidden")));

/* Return: whether the process was started by `uaio trace`. */
static inline bool uaio_trace_is_on(void)
{
	/* relaxed: the ring was mapped before this thread could run */
	return unlikely(load_relaxed(&uaio_trace_on));
}

/*
 * Called when the library is loaded: map the ring that the environment names.
 * Return: 0; -ENOENT: none is named, or its tracer is gone; or another error.
 */
int uaio_trace_load(void);

/*
 * Map the ring in file fd.
 * Return: 0; -ENOENT: fd is no ring; -EXDEV: it is of another pid namespace; -ENOMEM.
 */
int uaio_trace_map(int fd, struct uaio_trace_ring **ret_ring);

/* Called each time the library starts, also in a child of fork(). */
void uaio_trace_init(void);

/*
 * Return: the record to fill in, which uaio_trace_put() then publishes; NULL: there is no
 * room, and the drop was counted.
 */
struct uaio_trace_record *uaio_trace_next(void);
void uaio_trace_put(void);

/* Write the name of a file. Return: false if there is no room. */
bool uaio_trace_put_name(const struct uaio_trace_name *name);

#ifdef UAIO_TESTING
/* Trace into ring from now on; NULL: stop. */
void uaio_trace_to(struct uaio_trace_ring *ring);
#endif

#endif /* UAIO_TRACE_TRACE_H */
