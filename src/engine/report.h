/* SPDX-License-Identifier: MIT */
/*
 * What a process says about itself when it ends
 *
 * A block of text (--stats), a line of JSON (--stats-json) and a line of
 * counters for benchmarks (UAIO_COUNTERS=file). Each is one write to the end of
 * its file, so that processes may share one.
 *
 * Context: the end of the process, or a signal handler in which it ends:
 * nothing is allocated.
 */
#ifndef UAIO_ENGINE_REPORT_H
#define UAIO_ENGINE_REPORT_H

#include <stdbool.h>

/* When the library is loaded: where to, before the host changes anything. */
void uaio_report_load(void);

/* From nothing, in this process. */
void uaio_report_init(void);

/*
 * The process ends, or if @may_go_on becomes another program, which may yet
 * fail: then nothing is said unless there is something to say, and the end may
 * say it again.
 */
void uaio_report(bool may_go_on);

#endif /* UAIO_ENGINE_REPORT_H */
