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

#include "base/atomic.h"
#include "file/file.h"
#include "trace/ring.h"

struct uaio_live_block;
struct uaio_outcome;
struct uaio_queue;
struct uaio_req;
struct uaio_sqe;

/*
 * A request on file, which is open as fd, has been submitted: name the file (ring.h I6),
 * unless all tracers know it. If the program closes fd meanwhile, the name may be that of
 * what is opened there next.
 * Return: the number that records of it have; 0: none, as nobody traces.
 */
uint64_t uaio_record_name(struct uaio_live_block *stats, struct uaio_file *file,
			  int fd);

/* Return: the number that a file has in records; 0: none. */
static inline uint64_t uaio_record_file(const struct uaio_file *file)
{
	/* [MB:trace-number] acquire: its name. Pairs with uaio_record_name(). */
	return file ? load_acquire(&file->trace_number) : 0;
}

/* One was complete inside its submission. file: NULL if it has none. */
void uaio_record_inline(struct uaio_live_block *stats,
			const struct uaio_queue *queue, struct uaio_file *file,
			const struct uaio_sqe *sqe,
			const struct uaio_outcome *outcome);

/* One is complete; now: in cycles. It still has its arguments. */
void uaio_record(struct uaio_live_block *stats, const struct uaio_req *req,
		 int64_t res, enum uaio_by by, uint64_t now);

#endif /* UAIO_REQ_RECORD_H */
