/* SPDX-License-Identifier: MIT */
/*
 * The report that a process writes when it ends
 *
 * A block of text (--stats), a line of JSON (--stats-json) and a line of
 * counters for benchmarks (UAIO_COUNTERS=file). Each is appended to its file by
 * one write, so that several processes may share a file.
 *
 * Context: the end of the process, or a signal handler that ends it; so nothing is
 * allocated.
 *
 * Tested by test/run/stats.py.
 */
#ifndef UAIO_LIFE_REPORT_H
#define UAIO_LIFE_REPORT_H

#include <stdbool.h>

/*
 * Called when the library is loaded, before the program changes its directory or environment:
 * store where reports go.
 */
void uaio_report_load(void);

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_report_init(void);

/*
 * Write the report. may_go_on: the process is about to exec, which may fail. In this case the
 * report is written only if the engine is up, and the process may report again. No report
 * follows the one at the end of the process.
 */
void uaio_report(bool may_go_on);

/*
 * The program is about to close its standard error, as many programs do at their end: write
 * the report now, if it goes to the standard error.
 */
void uaio_report_before_close(void);

/*
 * Write a line, which ends in a newline, to the standard error; but not if the program has
 * replaced the standard error by another file.
 */
void uaio_report_say(const char *line);

/*
 * A client has begun to use an interface that the library does not serve: the kernel does, or
 * nobody. why is a constant text. The first such text of a process is reported; with --verbose
 * or --stats it is also written at once.
 */
void uaio_report_unserved(const char *why);

/* The kernel has made a ring for the client. why: reported for the first such ring. */
void uaio_report_kernels_ring(const char *why);

/*
 * The kernel has refused a ring because of a limit, so the library made it. The report names
 * the limit of the first refusal. limit is a constant text.
 */
void uaio_report_limited_ring(const char *limit);

#endif /* UAIO_LIFE_REPORT_H */
