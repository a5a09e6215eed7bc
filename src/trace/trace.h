/* SPDX-License-Identifier: MIT */
/*
 * Tracing: how a process writes a record of each request that has ended (ring.h)
 *
 * Off unless `uaio trace` starts the process; then requests are counted and timed as for
 * the statistics. A record is written where a request is counted as complete. Tools that
 * ask for a trace later are listen.h's.
 *
 *   I1  The mapping of a ring is never removed, so a thread that has seen tracing on
 *       may use it.
 *   I2  A child of fork() takes lanes of its own.
 *
 * Context: any thread that has entered (entry.h).
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

/*
 * name.c: names of files, for tracers
 */

struct uaio_trace_name {
	uint64_t number;
	int32_t fd;
	uint32_t len;
	char text[UAIO_TRACE_NAME_BYTES]; /* of a longer one the end */
};

extern uint64_t uaio_trace_attached
	__attribute__((visibility("hidden"))); /* atomic: in cycles */

/* Return: whether all tracers know the file with this number. */
static inline bool uaio_trace_is_named(uint64_t number)
{
	/*
	 * [MB:trace-attached] acquire: who then writes the name finds the ring. Pairs
	 * with uaio_trace_name_again().
	 */
	return number > load_acquire(&uaio_trace_attached);
}

/* Return: a number that no file has. */
uint64_t uaio_trace_new_number(void);

/* Another ring was attached: files are to be named again. */
void uaio_trace_name_again(void);

/*
 * Write a name to lane, which is the thread's, of a ring.
 * Return: false if there is no room.
 */
bool uaio_trace_put_name_in(struct uaio_trace_ring *ring, unsigned lane,
			    const struct uaio_trace_name *name);

extern uint32_t uaio_trace_on __attribute__((visibility("hidden")));

/* Return: whether the process was started with a trace. */
static inline bool uaio_trace_is_on(void)
{
	/* relaxed: what is mapped was mapped before this thread was told */
	return unlikely(load_relaxed(&uaio_trace_on));
}

/*
 * Called when the library is loaded: map the ring that the environment names, if any.
 * Return: 0; -ENOENT: none is named, or its tracer is gone; or why it cannot be used.
 */
int uaio_trace_load(void);

/*
 * Map the ring that fd is.
 * Return: 0; -ENOENT: it is none; -EXDEV: of another namespace of process ids; -ENOMEM.
 */
int uaio_trace_map(int fd, struct uaio_trace_ring **ret_ring);

/* Called each time the engine starts, also in a child of fork(). */
void uaio_trace_init(void);

/*
 * Return: the record to fill in, which uaio_trace_put() makes visible next; NULL: there
 * is no room, and that was counted.
 */
struct uaio_trace_record *uaio_trace_next(void);
void uaio_trace_put(void);

/* Write the name of a file. Return: false if there is no room. */
bool uaio_trace_put_name(const struct uaio_trace_name *name);

#ifdef UAIO_TESTING
/* Trace into ring from now on; NULL: not any more. */
void uaio_trace_to(struct uaio_trace_ring *ring);
#endif

#endif /* UAIO_TRACE_TRACE_H */
