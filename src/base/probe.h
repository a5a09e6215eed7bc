/* SPDX-License-Identifier: MIT */
/*
 * Static probes for system tracers (perf, bpftrace, SystemTap)
 *
 * If <sys/sdt.h> is there at compile time, each probe is a no-op instruction, and an
 * ELF note says where the instruction and its arguments are. examples/uaio.bt shows how
 * to use the probes.
 *
 *   uaio:submit    data, operation, descriptor    a request is submitted
 *   uaio:issue     data, operation, descriptor    an attempt to execute the request begins,
 *                                                 or the request is sent to a worker
 *   uaio:complete  data, operation, result        the request is complete; its event is
 *                                                 posted next
 *
 * data is the user data of the request; operation is a value of enum uaio_op
 * (options/names.h). Without a tracer, the three probes take 4 of some 1085
 * instructions of a request (counted by callgrind: a cached read by io_submit and
 * io_getevents, GCC 12, with and without <sys/sdt.h>).
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
