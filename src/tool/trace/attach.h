/* SPDX-License-Identifier: MIT */
/*
 * The tool's part of asking a running process to write a trace (trace/ask.h)
 *
 * The tool makes a ring (trace/ring.h) for each process, to which the process writes
 * its records. When a process executes another program, the tool asks the new program
 * as soon as that has a page (pages.h).
 *
 * The superuser may trace another user's process. That process may not open the
 * superuser's descriptors, so a child of the tool with the user's identity holds the
 * ring open for it.
 *
 * Tested by src/trace/test-listen.c and test/run/attach.py.
 */
#ifndef UAIO_TOOL_TRACE_ATTACH_H
#define UAIO_TOOL_TRACE_ATTACH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "live/layout.h"
#include "tool/common/pages.h"
#include "tool/trace/tracing.h"

enum uaio_attach_state {
	UAIO_ATTACH_ASKED,   /* the process has not answered */
	UAIO_ATTACH_TRACED,  /* the process writes records */
	UAIO_ATTACH_REFUSED, /* the process has answered with an error */
	UAIO_ATTACH_LEFT,    /* the process executes another program, or ends */
	UAIO_ATTACH_OVER,    /* the process has ended */
};

struct uaio_attached {
	int pid;
	uint32_t uid;
	uint64_t born_ns; /* the time at which the process's page was made */
	enum uaio_attach_state state;
	int error; /* -errno, in state UAIO_ATTACH_REFUSED */
	int pidfd; /* of the process; or -1 */

	struct uaio_trace_ring *ring; /* owns */
	int ring_fd;
	pid_t holder; /* process id of the process that has ring_fd open */

	/* Valid in the states ASKED, TRACED and REFUSED. */
	int page_fd;
	/* owns: the page's head, without the threads' blocks */
	struct uaio_live_page *page;
	unsigned place; /* index of the tool's slot in the page */
	uint32_t number;
};

/*
 * Ask a running process to write a trace, through its page.
 *
 * Return: 0 or -errno; -EXDEV: the process is in another PID namespace; -EBUSY: too
 * many tools trace it. On error there is nothing to free.
 */
int uaio_attach(struct uaio_attached *ret, const struct uaio_page *page);

/* Update the state, and notify new threads. Call every few milliseconds. */
enum uaio_attach_state uaio_attach_look(struct uaio_attached *attached);

/* Have the process stop writing. The records in the ring remain readable. */
void uaio_attach_end(struct uaio_attached *attached);

/* Free all members, including the ring. */
void uaio_attach_free(struct uaio_attached *attached);

/* Return: a text that says why the process is not traced. */
const char *uaio_attach_why(int error);

#endif /* UAIO_TOOL_TRACE_ATTACH_H */
