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
 * Called when the library is loaded, before the host changes its directory or
 * environment: note where reports go.
 */
void uaio_report_load(void);

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_report_init(void);

/*
 * Write the report. may_go_on: the process is about to exec, which may fail. Then
 * it reports only if the engine is up, and may report again. The report at the end
 * of the process is the last one.
 */
void uaio_report(bool may_go_on);

/*
 * The program is about to close the stream of its standard error, as many do at their
 * end: write there now what nobody would see later.
 */
void uaio_report_before_close(void);

/*
 * Write a line, which ends in a newline, to the standard error; or not, if the
 * program has put another file in its place.
 */
void uaio_report_say(const char *line);

/*
 * A client has begun to use an interface that is served elsewhere, or not at all:
 * why is a constant text. The first of a process is reported, and with --verbose
 * or --stats it is said at once.
 */
void uaio_report_unserved(const char *why);

/*
 * The kernel has made a ring of io_uring for the client. why: as above, if this is the
 * first one.
 */
void uaio_report_kernels_ring(const char *why);

/*
 * The kernel has refused a ring because of a limit, and the library made it. The first
 * refusal of a process is reported. limit is a constant text that names the limit.
 */
void uaio_report_limited_ring(const char *limit);

#endif /* UAIO_LIFE_REPORT_H */
