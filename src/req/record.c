/* SPDX-License-Identifier: MIT */
#include "req/record.h"

#include "trace/trace.h"
#include "op/op.h"
#include "req/call.h"
#include "req/queue.h"
#include "req/req.h"

static bool has_place(const struct uaio_sqe *sqe)
{
	return uaio_optab[sqe->op].class <= UAIO_CLASS_SYNC &&
	       !uaio_optab[sqe->op].is_of_socket && sqe->off >= 0;
}

/* Return: how many bytes it is about; 0: that is not known, or it has none. */
static uint64_t len_of(const struct uaio_sqe *sqe)
{
	return uaio_optab[sqe->op].class <= UAIO_CLASS_SYNC &&
			       !uaio_optab[sqe->op].copies
		       ? uaio_sqe_bytes(sqe)
		       : 0;
}

static void fill(struct uaio_trace_record *record,
		 const struct uaio_queue *queue, const struct uaio_sqe *sqe,
		 int64_t res)
{
	record->off = has_place(sqe) ? sqe->off : -1;
	record->len = len_of(sqe);
	record->data = sqe->data;
	record->res = (int32_t)res;
	record->fd = uaio_optab[sqe->op].has_no_file ? -1 : sqe->fd;
	record->op = sqe->op;
	/* relaxed: immutable while the queue is open */
	record->door = load_relaxed(&queue->sink)->door;
}

void uaio_record_inline(const struct uaio_queue *queue,
			const struct uaio_sqe *sqe,
			const struct uaio_outcome *outcome)
{
	struct uaio_trace_record *record = uaio_trace_next();

	if (unlikely(!record))
		return;
	record->submitted = record->started = outcome->start;
	record->ended = outcome->end;
	fill(record, queue, sqe, outcome->res);
	record->by = UAIO_BY_SUBMITTER;
	record->is_late = false;
	uaio_trace_put();
}

/* What it was asked for, before parts of it were done or it was held back. */
static void fill_in_whole(struct uaio_trace_record *record,
			  const struct uaio_req *req)
{
	if (req->is_late) {
		record->op = req->late_op;
		record->fd = req->late_fd;
		record->off = req->late_off;
		record->len = req->late_len;
		return;
	}
	if (!req->done_bytes)
		return;
	record->len += (uint64_t)req->done_bytes;
	if (record->off >= req->done_bytes)
		record->off -= req->done_bytes;
}

void uaio_record(const struct uaio_req *req, int64_t res, enum uaio_by by,
		 uint64_t now)
{
	struct uaio_trace_record *record = uaio_trace_next();

	if (unlikely(!record))
		return;
	record->submitted = req->submitted;
	record->started = req->started;
	record->ended = now;
	fill(record, uaio_queue_of(req->group), &req->sqe, res);
	fill_in_whole(record, req);
	record->is_late = req->is_late;
	record->by = (uint8_t)(req->is_late ? req->late_by : by);
	uaio_trace_put();
}
