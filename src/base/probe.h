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
 * (options/names.h). Without a tracer, a cached read by io_submit and io_getevents takes
 * some 1085 instructions. 4 of these are for the probes (counted by callgrind, GCC 12).
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
