/* SPDX-License-Identifier: MIT */
/*
 * The report that a process writes when it ends
 *
 * The report may be a block of text (--stats), a line of JSON (--stats-json), and a
 * line of counters for benchmarks (UAIO_COUNTERS=file). Each is appended to its file by
 * one write, so several processes may use the same file.
 *
 * Context: the end of the process, or a signal handler that ends it. So the functions
 * allocate no memory.
 *
 * Tested by test/run/stats.py.
 */
#ifndef UAIO_LIFE_REPORT_H
#define UAIO_LIFE_REPORT_H

#include <stdbool.h>

/*
 * Called when the library is loaded: store where to report, because the program may
 * later change its directory or environment.
 */
void uaio_report_load(void);

/*
 * Called each time the library starts, also in a child of fork(): allows a report
 * again.
 */
void uaio_report_init(void);

/*
 * Write the report. may_go_on: the process is about to exec, and continues if the exec
 * fails. With may_go_on, write the report only if the library is started; a later call
 * writes another report. Without may_go_on the process ends, and this report is its last.
 */
void uaio_report(bool may_go_on);

/*
 * The program is about to close its standard error, as many programs do at their end.
 * If the report goes to the standard error, write it now.
 */
void uaio_report_before_close(void);

/*
 * Write a line, which ends in a newline, to the standard error. Do nothing if the
 * standard error is another file than when the library was loaded.
 */
void uaio_report_say(const char *line);

/*
 * The program has begun to use an interface that this library does not serve: the
 * kernel serves it, or nobody does. why: a constant text. The report contains the first
 * such text of a process. With --verbose or --stats it is also written at once.
 */
void uaio_report_unserved(const char *why);

/*
 * The kernel has made a ring for the program. why: the reason, a constant text. The
 * report contains the reason for the first such ring.
 */
void uaio_report_kernels_ring(const char *why);

/*
 * The kernel has refused a ring because of a limit, so the library has made it. limit:
 * a constant text. The report names the limit of the first refusal.
 */
void uaio_report_limited_ring(const char *limit);

#endif /* UAIO_LIFE_REPORT_H */
