/* SPDX-License-Identifier: MIT */
/*
 * Names of files, which the traced side tells (ring.h I6): so a tracer has them even if
 * the program has closed the descriptor, or has ended, before it looks
 *
 *   I1  A number is a time: that at which the name was asked for. So one that is not
 *       later than when the last ring was attached may be unknown to its tracer, and the
 *       file gets another.
 *
 * Tested by test-trace.c, test-listen.c and test/run/trace.py.
 */
#ifndef UAIO_TRACE_NAME_H
#define UAIO_TRACE_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "trace/ring.h"

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

#endif /* UAIO_TRACE_NAME_H */
