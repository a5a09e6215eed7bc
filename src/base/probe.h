/* SPDX-License-Identifier: MIT */
/*
 * Points for tracers of the system (perf, bpftrace, SystemTap), where the library was
 * built with <sys/sdt.h>: a no-op instruction each, and a note in the object of where
 * it is and where its arguments are. examples/uaio.bt uses them.
 *
 *   uaio:submit    data, operation, descriptor    a request is submitted
 *   uaio:issue     the same                       it is tried, or sent to a worker
 *   uaio:complete  data, operation, result        it is complete, and told of next
 *
 * data is the client's; the operation is a number of options/names.h. While nobody
 * traces, the three cost a request 4 of some 1085 instructions (callgrind; one cached
 * read by io_submit and io_getevents, GCC 12, with and without <sys/sdt.h>).
 *
 * Tested by test/run/probes.py.
 */
#ifndef UAIO_BASE_PROBE_H
#define UAIO_BASE_PROBE_H

#if defined(__has_include) && __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define UAIO_PROBE(name, a, b, c) DTRACE_PROBE3(uaio, name, a, b, c)
#else
#define UAIO_PROBE(name, a, b, c) ((void)0)
#endif

#endif /* UAIO_BASE_PROBE_H */
