/* SPDX-License-Identifier: MIT */
/*
 * Asking a process for a trace while it runs
 *
 * The control area of its page (live/layout.h), which tools write. A tool takes one of
 * the askers, says where its ring (ring.h) is, and sets `is_traced` in the blocks of all
 * threads (layout.h). The process finds that when it next counts a request, maps the
 * ring, and answers. From then on each of its requests has a record in each such ring.
 *
 *   I1  An asker is the tool's that has written its process id into `pid`, which was 0,
 *       or the id of a process that is gone, by a compare-and-exchange. It writes 0
 *       when it is done. If the process finds the tool gone, it says so in `error`
 *       (ESRCH): ids are used again.
 *   I2  `number` is raised when `pid` and `fd` are there, and never 0; the process
 *       writes it to `answered` when `error` says what became of it.
 *   I3  `nr_changes` is raised after each of these changes, so the process has one
 *       word to look at.
 *   I4  The process relies on nothing of it. Whoever may write here may kill it.
 *   I5  In a ring that was asked for so, a lane is one thread's without an owner being
 *       noted; records have the thread's id.
 */
#ifndef UAIO_TRACE_ASK_H
#define UAIO_TRACE_ASK_H

#include <stdint.h>

enum {
	UAIO_TRACE_ASKERS = 4,
	/* Threads with a block of their own have the lane of its number. */
	UAIO_TRACE_OWN_LANES = 64,
	/* The others take one of these for each record. */
	UAIO_TRACE_SHARED_LANES = 16,
};

struct uaio_trace_asker {
	uint32_t pid;    /* atomic: the process whose descriptor it is; or 0 */
	uint32_t fd;     /* of the ring */
	uint32_t number; /* atomic */
	uint32_t answered; /* atomic */
	int32_t error;     /* 0; or < 0: why it is not traced */
	uint32_t spare[3];
};

struct uaio_trace_ask {
	uint32_t nr_changes; /* atomic */
	uint32_t spare[7];
	struct uaio_trace_asker askers[UAIO_TRACE_ASKERS];
};

#endif /* UAIO_TRACE_ASK_H */
