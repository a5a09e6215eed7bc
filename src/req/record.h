/* SPDX-License-Identifier: MIT */
/*
 * Writes records of completed requests for tracers (trace/trace.h, trace/listen.h)
 *
 * Context: any thread that has entered the library (entry.h). stats is the thread's
 * block of statistics. Call these functions only if a tool may want records of this
 * block (uaio_stats_is_traced()).
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
 * Write the file's name for tracers that do not know it yet (ring.h, I6). fd: a
 * descriptor of the file. Called when a request on the file is submitted. If the
 * program closes fd meanwhile, and opens another file, the name may be that of the
 * other file.
 * Return: the number that stands for the file in records; 0: none, as nobody traces.
 */
uint64_t uaio_record_name(struct uaio_live_block *stats, struct uaio_file *file,
			  int fd);

/* Return: the number that stands for `file` in records; 0: it has none. */
static inline uint64_t uaio_record_file(const struct uaio_file *file)
{
	/*
	 * [MB:trace-number] acquire: if there is a number, the name is written. Pairs
	 * with uaio_record_name().
	 */
	return file ? load_acquire(&file->trace_number) : 0;
}

/*
 * Record a request that completed inside the submitting call. file: NULL if the request
 * has none.
 */
void uaio_record_inline(struct uaio_live_block *stats,
			const struct uaio_queue *queue, struct uaio_file *file,
			const struct uaio_sqe *sqe,
			const struct uaio_outcome *outcome);

/*
 * Record a request that completes. Called before its arguments are freed. now: the
 * present time, in cycles.
 */
void uaio_record(struct uaio_live_block *stats, const struct uaio_req *req,
		 int64_t res, enum uaio_by by, uint64_t now);

#endif /* UAIO_REQ_RECORD_H */
