/* SPDX-License-Identifier: MIT */
/*
 * Writes the names of files to the ring (ring.h, I6). So a tracer knows the names even
 * if the program has closed the descriptor, or has ended.
 *
 *   I1  A file's number is the time at which its name was looked up. If a ring was
 *       attached at that time or later, the ring's tracer may not know the name. Then
 *       the file gets a new number, and its name is written again.
 *
 * Tested by test-trace.c, test-listen.c and test/run/trace.py.
 */
#include <string.h>

#include "base/cycles.h"
#include "trace/trace.h"

uint64_t uaio_trace_attached;

static uint64_t last_number; /* atomic */

uint64_t uaio_trace_new_number(void)
{
	uint64_t was = load_relaxed(&last_number), number;

	do {
		number = uaio_cycles();
		if (number <= was)
			number = was + 1;
	} while (!cas_relaxed(&last_number, &was, number));
	return number;
}

void uaio_trace_name_again(void)
{
	/*
	 * [MB:trace-attached] release: publishes the ring. Pairs with
	 * uaio_trace_is_named().
	 */
	store_release(&uaio_trace_attached, uaio_trace_new_number());
}

bool uaio_trace_put_name_in(struct uaio_trace_ring *ring, unsigned place,
			    const struct uaio_trace_name *name)
{
	struct uaio_trace_lane *lane = &ring->lanes[place];
	uint64_t head = load_relaxed(&lane->head);
	uint64_t nr = uaio_trace_name_records(name->len);

	/*
	 * [MB:trace-tail] acquire: the tracer has read the old records. Pairs with the
	 * tracer's take().
	 */
	if (head + nr - load_acquire(&lane->tail) > UAIO_TRACE_RECORDS)
		return false;
	*uaio_trace_at(ring, place, head) = (struct uaio_trace_record){
		.op = UAIO_TRACE_NAME,
		.file = name->number,
		.fd = name->fd,
		.len = name->len,
	};
	for (uint64_t i = 1; i < nr; i++)
		memcpy(uaio_trace_at(ring, place, head + i),
		       name->text + (i - 1) * sizeof(struct uaio_trace_record),
		       sizeof(struct uaio_trace_record));
	store_relaxed(&lane->nr_names, load_relaxed(&lane->nr_names) + 1);
	/*
	 * [MB:trace-head] release: publishes the name. Pairs with the tracer's take().
	 */
	store_release(&lane->head, head + nr);
	return true;
}
