/* SPDX-License-Identifier: MIT */
/*
 * What processes do by file, or by context or ring: counted from traces of them
 *
 * No process keeps such counts. So `uaio top` attaches to the processes (attach.h) as
 * `uaio trace` does, and counts their records. The processes write records only as long
 * as `uaio top` runs.
 *
 * Memory is bounded: each interval has at most UAIO_WATCH_ROWS rows. The last row counts
 * the requests of all files or rings that have no row of their own.
 *
 * Tested by test/run/top.py.
 */
#ifndef UAIO_TOOL_TOP_WATCH_H
#define UAIO_TOOL_TOP_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "tool/common/pages.h"

enum {
	UAIO_WATCH_ROWS = 1024,
	UAIO_WATCH_WHAT = 256,
	UAIO_WATCH_PROCESSES = 64,
};

struct uaio_watch_row {
	int pid;
	char what[UAIO_WATCH_WHAT]; /* the file, or the context or ring */
	uint64_t nr, nr_errors;
	uint64_t bytes;        /* read and written */
	struct uaio_hist hist; /* of ns from submission to end */
};

struct uaio_watch;

/* Return: NULL if there is no memory. */
struct uaio_watch *uaio_watch_new(bool is_by_file);
void uaio_watch_free(struct uaio_watch *watch);

/*
 * Attach to each process of @pages that is_wanted() accepts and that is new. Free what is
 * held for processes that have ended.
 */
void uaio_watch_attach(struct uaio_watch *watch, const struct uaio_pages *pages,
		       bool (*is_wanted)(const void *arg, int pid),
		       const void *arg);

/* Count the records that processes have written. Call this every few milliseconds. */
void uaio_watch_count(struct uaio_watch *watch);

/* Return: the rows of the interval, unsorted, with their number in *ret_nr. */
const struct uaio_watch_row *uaio_watch_rows(struct uaio_watch *watch,
					     unsigned *ret_nr);
/* Begin a new interval, without rows. */
void uaio_watch_begin(struct uaio_watch *watch);

/* Return: the number of records lost so far. */
uint64_t uaio_watch_lost(const struct uaio_watch *watch);

/* Return: the number of processes that cannot be traced. */
unsigned uaio_watch_refused(const struct uaio_watch *watch);

#endif /* UAIO_TOOL_TOP_WATCH_H */
