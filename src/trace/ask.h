/* SPDX-License-Identifier: MIT */
/*
 * How a tool requests a trace of a running process
 *
 * Tools write to the control area of the process's page (live/layout.h). A tool claims
 * one of the askers (slots of that area), writes to it where the tool's ring (ring.h)
 * is, and sets `is_traced` in the blocks of all threads. When the process next counts a
 * request, it sees `is_traced`, maps the ring, and answers. From then on the process
 * writes a record of each request to the ring of each tool.
 *
 *   I1  A tool claims an asker by writing its process id to `pid` with a
 *       compare-and-exchange. Before the exchange, `pid` must be 0, or the id of a
 *       process that is gone. The tool writes 0 when it needs no more records. If the
 *       process finds that the tool is gone, the process sets `error` to -ESRCH, since
 *       `pid` may belong to another process by now.
 *   I2  A tool increments `number`, which is never 0 then, after it has set `pid` and
 *       `fd`. The process copies `number` to `answered` after it has set `error`.
 *   I3  A tool increments `nr_changes` after each change of an asker, so the process
 *       needs to check only one word.
 *   I4  The process does not trust the contents of this area. A process that can write
 *       to it could kill this process anyway.
 *   I5  In the ring of a tool that attached, lanes have no owner. Instead, each record
 *       has the id of the thread that wrote it.
 */
#ifndef UAIO_TRACE_ASK_H
#define UAIO_TRACE_ASK_H

#include <stdint.h>

enum {
	UAIO_TRACE_ASKERS = 4,
	/*
	 * A thread with its own block (live/layout.h) writes to the lane with the
	 * block's index.
	 */
	UAIO_TRACE_OWN_LANES = 64,
	/* Any other thread claims one of these lanes for each record. */
	UAIO_TRACE_SHARED_LANES = 16,
};

struct uaio_trace_asker {
	uint32_t pid;      /* atomic: the tool's process; 0: free */
	uint32_t fd;       /* the ring's descriptor in the tool */
	uint32_t number;   /* atomic */
	uint32_t answered; /* atomic */
	int32_t error; /* 0; < 0: the error because of which the process is not traced */
	uint32_t spare[3];
};

struct uaio_trace_ask {
	uint32_t nr_changes; /* atomic */
	uint32_t spare[7];
	struct uaio_trace_asker askers[UAIO_TRACE_ASKERS];
};

#endif /* UAIO_TRACE_ASK_H */
