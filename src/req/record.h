/* SPDX-License-Identifier: MIT */
/*
 * What a trace (trace/trace.h) tells of a request that has ended
 *
 * Context: any thread that has entered (entry.h); only where uaio_trace_is_on(), and
 * so requests are timed.
 *
 * Tested by test/run/trace.py.
 */
#ifndef UAIO_REQ_RECORD_H
#define UAIO_REQ_RECORD_H

#include <stdint.h>

#include "trace/ring.h"

struct uaio_outcome;
struct uaio_queue;
struct uaio_req;
struct uaio_sqe;

/* One was complete inside its submission. */
void uaio_record_inline(const struct uaio_queue *queue,
			const struct uaio_sqe *sqe,
			const struct uaio_outcome *outcome);

/* One is complete; now: in cycles. It still has its arguments. */
void uaio_record(const struct uaio_req *req, int64_t res, enum uaio_by by,
		 uint64_t now);

#endif /* UAIO_REQ_RECORD_H */
