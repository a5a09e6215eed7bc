/* SPDX-License-Identifier: MIT */
#include "req/record.h"

#include "base/sys.h"
#include "trace/listen.h"
#include "trace/trace.h"
#include "op/op.h"
#include "req/call.h"
#include "req/queue.h"
#include "req/req.h"
#include "req/stats.h"

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
	unsigned door;

	record->off = has_place(sqe) ? sqe->off : -1;
	record->len = len_of(sqe);
	record->data = sqe->data;
	record->res = (int32_t)res;
	record->fd = uaio_optab[sqe->op].has_no_file ? -1 : sqe->fd;
	record->op = sqe->op;
	/* relaxed: immutable while the queue is open */
	door = load_relaxed(&queue->sink)->door;
	record->door = door & 7u;
	record->queue = load_relaxed(&queue->number);
}

/* What is being written, and where to. */
struct writing {
	struct uaio_live_block *stats;
	struct uaio_trace_record
		*own; /* in the ring it was started with; or NULL */
	struct uaio_trace_record copy;
	bool is_asked; /* there may be other rings */
};

/* Return: the record to fill in; NULL: nobody wants it, or there is no room. */
static struct uaio_trace_record *
begin(struct writing *writing, struct uaio_live_block *stats, uint64_t now)
{
	writing->stats = stats;
	writing->own = uaio_trace_is_on() ? uaio_trace_next() : NULL;
	writing->is_asked = uaio_listen(now);
	if (!writing->is_asked && !uaio_trace_is_on())
		/* relaxed: a tool that has just set it does so again */
		store_relaxed(&stats->is_traced, 0);
	if (writing->own)
		return writing->own;
	return writing->is_asked ? &writing->copy : NULL;
}

static void end(struct writing *writing, struct uaio_trace_record *record)
{
	/* relaxed: of a thread's own block, or of the one that many share */
	int owner = load_relaxed(&writing->stats->owner);

	record->tid = (uint32_t)(owner > 0 ? owner : sys_gettid());
	if (writing->is_asked)
		uaio_listen_write(record, uaio_stats_place(writing->stats));
	if (writing->own)
		uaio_trace_put();
}

void uaio_record_inline(struct uaio_live_block *stats,
			const struct uaio_queue *queue,
			const struct uaio_sqe *sqe,
			const struct uaio_outcome *outcome)
{
	struct writing writing;
	struct uaio_trace_record *record = begin(&writing, stats, outcome->end);

	if (unlikely(!record))
		return;
	record->submitted = record->started = outcome->start;
	record->ended = outcome->end;
	fill(record, queue, sqe, outcome->res);
	record->by = UAIO_BY_SUBMITTER;
	record->is_late = false;
	end(&writing, record);
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

void uaio_record(struct uaio_live_block *stats, const struct uaio_req *req,
		 int64_t res, enum uaio_by by, uint64_t now)
{
	struct writing writing;
	struct uaio_trace_record *record = begin(&writing, stats, now);
	unsigned executor;

	if (unlikely(!record))
		return;
	record->submitted = req->submitted;
	record->started = req->started;
	record->ended = now;
	fill(record, uaio_queue_of(req->group), &req->sqe, res);
	fill_in_whole(record, req);
	record->is_late = req->is_late;
	executor = req->is_late ? req->late_by : by;
	record->by = executor & 15u;
	end(&writing, record);
}
