/* SPDX-License-Identifier: MIT */
/*
 * Asking a running process for a trace
 *
 * Tools write to the control area of the process's page (live/layout.h). A tool claims
 * one of the askers, says where its ring (ring.h) is, and sets `is_traced` in the blocks
 * of all threads. When the process next counts a request, it sees this, maps the ring,
 * and answers. From then on it writes a record of each request to each such ring.
 *
 *   I1  A tool claims an asker by writing its process id to `pid` with a
 *       compare-and-exchange. Before, `pid` must be 0, or the id of a process that is
 *       gone. The tool writes 0 when it is done. If the process finds the tool gone, it
 *       sets `error` to ESRCH, since process ids are reused.
 *   I2  A tool increments `number`, which is never 0 then, after it has set `pid` and
 *       `fd`. The process copies `number` to `answered` after it has set `error`.
 *   I3  `nr_changes` is incremented after each of these changes, so the process polls
 *       only one word.
 *   I4  The process relies on nothing in this area. Whoever can write here could kill the
 *       process anyway.
 *   I5  In the ring of such a tool, a thread uses a lane without recording itself as the
 *       owner; each record has the thread's id.
 */
#ifndef UAIO_TRACE_ASK_H
#define UAIO_TRACE_ASK_H

#include <stdint.h>

enum {
	UAIO_TRACE_ASKERS = 4,
	/* A thread with its own block uses the lane of the block's index. */
	UAIO_TRACE_OWN_LANES = 64,
	/* Any other thread takes one of these lanes for each record. */
	UAIO_TRACE_SHARED_LANES = 16,
};

struct uaio_trace_asker {
	uint32_t pid;      /* atomic: the tool's process; 0: free */
	uint32_t fd;       /* the ring's descriptor in the tool */
	uint32_t number;   /* atomic */
	uint32_t answered; /* atomic */
	int32_t error;     /* 0; < 0: why the process is not traced */
	uint32_t spare[3];
};

struct uaio_trace_ask {
	uint32_t nr_changes; /* atomic */
	uint32_t spare[7];
	struct uaio_trace_asker askers[UAIO_TRACE_ASKERS];
};

#endif /* UAIO_TRACE_ASK_H */
