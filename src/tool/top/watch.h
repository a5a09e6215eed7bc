/* SPDX-License-Identifier: MIT */
/*
 * What processes do by file, or by context or ring: counted from traces of them
 *
 * No process keeps such counts. So who looks attaches to the processes (attach.h) as
 * uaio trace does, and counts their records; they pay for that while somebody looks.
 *
 * Memory is bounded: in an interval so many files or rings are told apart, and the
 * requests of all others are counted together.
 *
 * Tested by test/run/top.py.
 */
#ifndef UAIO_TOOL_TOP_WATCH_H
#define UAIO_TOOL_TOP_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "tool/common/pages.h"

enum {
	UAIO_WATCH_ROWS = 1024, /* the last one is of all others */
	UAIO_WATCH_WHAT = 256,
	UAIO_WATCH_PROCESSES = 64,
};

struct uaio_watch_row {
	int pid;
	char what[UAIO_WATCH_WHAT]; /* the file, or the context or ring */
	uint64_t nr, nr_errors;
	uint64_t bytes;        /* that requests have moved */
	struct uaio_hist hist; /* of all the time they took, in ns */
};

struct uaio_watch;

/* Return: NULL if there is no memory. */
struct uaio_watch *uaio_watch_new(bool is_by_file);
void uaio_watch_free(struct uaio_watch *watch);

/*
 * Attach to the processes that are wanted and were not there before, and leave those that
 * have ended.
 */
void uaio_watch_attach(struct uaio_watch *watch, const struct uaio_pages *pages,
		       bool (*is_wanted)(const void *arg, int pid),
		       const void *arg);

/* Count what has been written; to be called every few milliseconds. */
void uaio_watch_count(struct uaio_watch *watch);

/* Return: the rows of the interval, so many, in no order; a new one begins then. */
const struct uaio_watch_row *uaio_watch_rows(struct uaio_watch *watch,
					     unsigned *ret_nr);
void uaio_watch_begin(struct uaio_watch *watch);

/* Return: how many records were lost so far. */
uint64_t uaio_watch_lost(const struct uaio_watch *watch);

/* Return: how many processes cannot be traced. */
unsigned uaio_watch_refused(const struct uaio_watch *watch);

#endif /* UAIO_TOOL_TOP_WATCH_H */
