/* SPDX-License-Identifier: MIT */
/*
 * Asking a process for a trace while it runs (trace/ask.h): the tool's side
 *
 * Each process has a ring of its own. A process that executes another program is asked
 * again, once that has a page.
 *
 * The superuser may trace a process of another user, which may not open the superuser's
 * descriptors. So a child that has become that user holds the ring for it.
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
	UAIO_ATTACH_ASKED,   /* it has not answered */
	UAIO_ATTACH_TRACED,  /* it writes records */
	UAIO_ATTACH_REFUSED, /* it has answered that it cannot: error */
	UAIO_ATTACH_LEFT,    /* it executes another program, or ends */
	UAIO_ATTACH_OVER,    /* it has ended */
};

struct uaio_attached {
	int pid;
	uint32_t uid;
	uint64_t born_ns; /* of its page */
	enum uaio_attach_state state;
	int error; /* < 0 */
	int pidfd; /* -1: there is none */

	struct uaio_trace_ring *ring; /* owns */
	int ring_fd;
	pid_t holder; /* the process whose descriptor it is */

	/* while it is ASKED, TRACED or REFUSED */
	int page_fd;
	struct uaio_live_page *page; /* owns: what lies before the blocks */
	unsigned place;              /* among the askers */
	uint32_t number;
};

/*
 * Ask the process of that page, which runs.
 * Return: 0; -EXDEV: it has process ids of its own; -EBUSY: too many tools trace it; or
 * another error. Unless it is 0, nothing is left to be done.
 */
int uaio_attach(struct uaio_attached *ret, const struct uaio_page *page);

/*
 * Look what has become of it, to be called every few moments: also so that threads which
 * are new are asked.
 */
enum uaio_attach_state uaio_attach_look(struct uaio_attached *attached);

/* It need not write any more. What it has written may be taken. */
void uaio_attach_end(struct uaio_attached *attached);

/* Frees what there is, the ring as well. */
void uaio_attach_free(struct uaio_attached *attached);

/* Return: why it is not traced, for people. */
const char *uaio_attach_why(int error);

#endif /* UAIO_TOOL_TRACE_ATTACH_H */
