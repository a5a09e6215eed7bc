/* SPDX-License-Identifier: MIT */
/*
 * How a tool (`uaio trace --pid`) asks a running process for a trace
 *
 * A tool writes to the control area of the process's page (live/layout.h). This area
 * has a few slots, called askers, each for one tool. The tool claims an asker, writes
 * to it where the tool's ring (ring.h) is, and sets `is_traced` in the blocks of all
 * threads. When the process next counts a request, it sees `is_traced`, maps the ring,
 * and answers. From then on the process writes a record of each request to the ring of
 * each tool.
 *
 *   I1  A tool claims an asker by a compare-and-exchange of `pid`. Before, `pid` must
 *       be 0, or the id of a process that is gone. The tool writes the id of the
 *       process that holds the ring open: the tool itself, or a child of the tool. When
 *       the tool needs no more records, it writes 0 to `pid`. If the process finds that
 *       the tool is gone, it sets `error` to -ESRCH. Other tools may then claim the
 *       asker, even if a new process has the id `pid`.
 *   I2  After the tool has set `pid` and `fd`, it increments `number`, skipping 0.
 *       After the process has set `error`, it copies `number` to `answered`.
 *   I3  After each change of an asker, the tool increments `nr_changes`, so the process
 *       needs to check only this word.
 *   I4  The process checks what it reads from this area. (Another process that can
 *       write to the area could also kill this process.)
 *   I5  In the ring of a tool that asks in this way, lanes have no owner. Instead,
 *       each record has the id of the thread that wrote it.
 */
#ifndef UAIO_TRACE_ASK_H
#define UAIO_TRACE_ASK_H

#include <stdint.h>

enum {
	UAIO_TRACE_ASKERS = 4,
	/*
	 * A thread with its own block of counts (live/layout.h) writes its records to
	 * the lane (ring.h) with the block's index.
	 */
	UAIO_TRACE_OWN_LANES = 64,
	/*
	 * A thread without its own block claims one of these further lanes for each
	 * record, and frees the lane afterwards.
	 */
	UAIO_TRACE_SHARED_LANES = 16,
};

struct uaio_trace_asker {
	/*
	 * atomic: id of the process that holds the tool's ring open: the tool itself,
	 * or a child of the tool; 0: no tool uses this slot
	 */
	uint32_t pid;
	/* descriptor number of the ring in the process `pid` */
	uint32_t fd;
	uint32_t number;   /* atomic */
	uint32_t answered; /* atomic */
	/* 0; or a negative errno: why the process is not traced */
	int32_t error;
	uint32_t spare[3];
};

struct uaio_trace_ask {
	uint32_t nr_changes; /* atomic */
	uint32_t spare[7];
	struct uaio_trace_asker askers[UAIO_TRACE_ASKERS];
};

#endif /* UAIO_TRACE_ASK_H */
