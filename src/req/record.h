/* SPDX-License-Identifier: MIT */
/*
 * What traces (trace/trace.h, trace/listen.h) tell of a request that has ended
 *
 * Context: any thread that has entered (entry.h); only where the thread's block says
 * so, which stats then is.
 *
 * Tested by test/run/trace.py and test/run/attach.py.
 */
#ifndef UAIO_REQ_RECORD_H
#define UAIO_REQ_RECORD_H

#include <stdint.h>

#include "trace/ring.h"

struct uaio_live_block;
struct uaio_outcome;
struct uaio_queue;
struct uaio_req;
struct uaio_sqe;

/* One was complete inside its submission. */
void uaio_record_inline(struct uaio_live_block *stats,
			const struct uaio_queue *queue,
			const struct uaio_sqe *sqe,
			const struct uaio_outcome *outcome);

/* One is complete; now: in cycles. It still has its arguments. */
void uaio_record(struct uaio_live_block *stats, const struct uaio_req *req,
		 int64_t res, enum uaio_by by, uint64_t now);

#endif /* UAIO_REQ_RECORD_H */
