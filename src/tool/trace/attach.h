/* SPDX-License-Identifier: MIT */
/*
 * Asking a running process for a trace (trace/ask.h), in the tool
 *
 * The tool gives each process a ring of its own. When a process executes another
 * program, the tool asks again as soon as the new program has a page.
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
	uint64_t born_ns; /* the time when its page was made */
	enum uaio_attach_state state;
	int error; /* -errno, in UAIO_ATTACH_REFUSED */
	int pidfd; /* or -1 */

	struct uaio_trace_ring *ring; /* owns */
	int ring_fd;
	pid_t holder; /* the process that has ring_fd open */

	/* Valid in the states ASKED, TRACED and REFUSED. */
	int page_fd;
	/* owns: the page's head, without the threads' blocks */
	struct uaio_live_page *page;
	unsigned place; /* the tool's index among the page's askers */
	uint32_t number;
};

/*
 * Ask a running process for a trace, by its page.
 *
 * Return: 0 or -errno; -EXDEV: the process is in another PID namespace; -EBUSY: too
 * many tools trace it. On error there is nothing to free.
 */
int uaio_attach(struct uaio_attached *ret, const struct uaio_page *page);

/* Update the state, and ask new threads. Call every few milliseconds. */
enum uaio_attach_state uaio_attach_look(struct uaio_attached *attached);

/* Tell the process to stop writing. The records in the ring remain readable. */
void uaio_attach_end(struct uaio_attached *attached);

/* Free all members, the ring too. */
void uaio_attach_free(struct uaio_attached *attached);

/* Return: a text that says why the process is not traced. */
const char *uaio_attach_why(int error);

#endif /* UAIO_TOOL_TRACE_ATTACH_H */
