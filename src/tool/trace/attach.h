/* SPDX-License-Identifier: MIT */
/*
 * Asks a running process to write a trace for this tool (trace/ask.h)
 *
 * For each process the tool makes a ring (trace/ring.h), to which the process writes
 * its records. The tool asks through the process's page (pages.h), the file in which
 * the process publishes its counts. If the process executes another program, the tool
 * asks again when the new program has a page.
 *
 * The superuser may trace another user's process. But that process may not open
 * descriptors of the superuser. So a child of the tool, the holder, changes to that
 * user and keeps the ring open for the process.
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
	UAIO_ATTACH_ASKED,   /* the process has not answered yet */
	UAIO_ATTACH_TRACED,  /* the process writes records */
	UAIO_ATTACH_REFUSED, /* the process has answered with an error */
	UAIO_ATTACH_LEFT,    /* the process executes another program, or ends */
	UAIO_ATTACH_OVER,    /* the process has ended */
};

struct uaio_attached {
	int pid;
	uint32_t uid;
	uint64_t born_ns; /* when the process made its page */
	enum uaio_attach_state state;
	int error; /* -errno, if REFUSED */
	int pidfd; /* process file descriptor of the process; or -1 */

	struct uaio_trace_ring *ring; /* owns */
	int ring_fd;
	pid_t holder; /* process that keeps ring_fd open: the tool or a child */

	/*
	 * The page of the traced process. If it is not open, page_fd is -1 and `page`
	 * is NULL.
	 */
	int page_fd;
	/*
	 * owned by this struct: maps the head of the page, without the threads' blocks
	 */
	struct uaio_live_page *page;
	unsigned place; /* index of the slot that the tool uses in the page */
	uint32_t number;
};

/*
 * Ask a running process, by its page, to write a trace.
 *
 * Return: 0 or -errno. -EXDEV: the process is in another PID namespace; -EBUSY: other
 * tools use all slots of its page. On error there is nothing to free.
 */
int uaio_attach(struct uaio_attached *ret, const struct uaio_page *page);

/*
 * Look whether the process has answered or ended. If the process runs, also set the
 * flag of each new thread, so that the thread checks whether a tool asks for a trace.
 * Call this every few milliseconds.
 */
enum uaio_attach_state uaio_attach_look(struct uaio_attached *attached);

/* Tell the process to write no more. The records in the ring can still be read. */
void uaio_attach_end(struct uaio_attached *attached);

/* Free all members, including the ring. */
void uaio_attach_free(struct uaio_attached *attached);

/* Return: a text for the user that says why the process is not traced. */
const char *uaio_attach_why(int error);

#endif /* UAIO_TOOL_TRACE_ATTACH_H */
