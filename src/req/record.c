/* SPDX-License-Identifier: MIT */
#include "req/record.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/sys.h"
#include "trace/listen.h"
#include "trace/trace.h"
#include "file/file.h"
#include "file/inspect.h"
#include "op/op.h"
#include "req/call.h"
#include "req/queue.h"
#include "req/req.h"
#include "req/stats.h"

/*
 * The contents of a record of a request. They are collected here, and then the record
 * in the trace is overwritten as a whole. A record is never read here, as this would be
 * slow: the tracer has read it last, so it is not in this processor's cache.
 */
struct summary {
	const struct uaio_queue *queue;
	const struct uaio_sqe *sqe;
	uint64_t submitted, started, ended;
	uint64_t file;
	int64_t res;
	uint32_t tid;
	uint8_t by;
	bool is_late;
};

static inline __attribute__((always_inline)) void
fill(struct uaio_trace_record *record, const struct summary *summary)
{
	const struct uaio_sqe *sqe = summary->sqe;
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	bool is_of_bytes = op->class <= UAIO_CLASS_SYNC;
	bool has_place = is_of_bytes && !op->is_of_socket && sqe->off >= 0;
	/* 0: the length is not known, or the operation transfers no bytes. */
	uint64_t len = is_of_bytes && !op->copies ? uaio_sqe_bytes(sqe) : 0;

	*record = (struct uaio_trace_record){
		.submitted = summary->submitted,
		.started = summary->started,
		.ended = summary->ended,
		.off = has_place ? sqe->off : -1,
		.len = len,
		.file = summary->file,
		.res = (int32_t)summary->res,
		.fd = op->has_no_file ? -1 : sqe->fd,
		.op = sqe->op,
		/*
		 * relaxed, sink and number: neither changes while the queue is open
		 */
		.door = load_relaxed(&summary->queue->sink)->door & 7u,
		.by = summary->by & 15u,
		.is_late = summary->is_late,
		.queue = load_relaxed(&summary->queue->number),
		.tid = summary->tid,
	};
}

static uint32_t thread_of(const struct uaio_live_block *stats)
{
	/*
	 * relaxed: the block is this thread's own, or the shared one, whose owner never
	 * changes
	 */
	int owner = load_relaxed(&stats->owner);

	return (uint32_t)(likely(owner > 0) ? owner : sys_gettid());
}

/* Return: whether tools that attached to the running process may read records. */
static inline bool has_listeners(struct uaio_live_block *stats, uint64_t now)
{
	bool is = uaio_listen(now);

	if (!is && !uaio_trace_is_on())
		/*
		 * relaxed: if a tool sets is_traced at the same moment, this store may
		 * clear is_traced; the tool sets it again a few milliseconds later
		 */
		store_relaxed(&stats->is_traced, 0);
	return is;
}

/*
 * Write the file's name for all tracers.
 * Return: the number that stands for the file in records; 0: the trace has no room for
 * the name, or nobody traces.
 */
static __attribute__((noinline)) uint64_t
write_name(struct uaio_live_block *stats, struct uaio_file *file, int fd)
{
	struct uaio_trace_name name = { .number = uaio_trace_new_number(),
					.fd = fd };
	char link[UAIO_FD_PATH_BYTES], path[PATH_MAX];
	bool is_written = true;
	int len, shown;

	if (!has_listeners(stats, name.number) && !uaio_trace_is_on())
		return 0;
	uaio_fd_path(fd, link);
	len = sys_readlinkat(AT_FDCWD, link, path, sizeof(path));
	if (len > 0) {
		shown = len < UAIO_TRACE_NAME_BYTES ? len
						    : UAIO_TRACE_NAME_BYTES;
		name.len = (uint32_t)shown;
		memcpy(name.text, path + len - shown, name.len);
		if (uaio_trace_is_on())
			is_written = uaio_trace_put_name(&name);
		if (has_listeners(stats, name.number))
			is_written &= uaio_listen_write_name(
				&name, uaio_stats_place(stats));
	}
	if (!is_written)
		return 0;
	/*
	 * [MB:trace-number] release: the name is written before the number. Pairs with
	 * uaio_record_file().
	 */
	store_release(&file->trace_number, name.number);
	return name.number;
}

uint64_t uaio_record_name(struct uaio_live_block *stats, struct uaio_file *file,
			  int fd)
{
	uint64_t number = uaio_record_file(file);

	if (likely(!file || uaio_trace_is_named(number)))
		return number;
	return write_name(stats, file, fd);
}

void uaio_record_inline(struct uaio_live_block *stats,
			const struct uaio_queue *queue, struct uaio_file *file,
			const struct uaio_sqe *sqe,
			const struct uaio_outcome *outcome)
{
	const struct summary summary = {
		.queue = queue,
		.sqe = sqe,
		.submitted = outcome->start,
		.started = outcome->start,
		.ended = outcome->end,
		.file = uaio_record_name(stats, file, sqe->fd),
		.res = outcome->res,
		.tid = thread_of(stats),
		.by = UAIO_BY_SUBMITTER,
	};
	struct uaio_trace_record *own =
		uaio_trace_is_on() ? uaio_trace_next() : NULL;

	if (likely(own)) {
		fill(own, &summary);
		uaio_trace_put();
	}
	if (unlikely(has_listeners(stats, outcome->end))) {
		struct uaio_trace_record copy;

		fill(&copy, &summary);
		uaio_listen_write(&copy, uaio_stats_place(stats));
	}
}

/*
 * Describe the request as it was submitted: earlier partial calls have changed its
 * offset and length, and a delayed completion has changed its operation.
 */
static void fill_in_whole(struct uaio_trace_record *record,
			  const struct uaio_req *req)
{
	if (req->late.held) {
		record->op = req->late.op;
		record->fd = req->late.fd;
		record->off = req->late.off;
		record->len = req->late.len;
		record->file = req->late.file;
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
	const struct summary summary = {
		.queue = uaio_queue_of(req->group),
		.sqe = &req->sqe,
		/*
		 * 0: the request was not timed, as no tracer was attached when it was
		 * submitted
		 */
		.submitted = req->weight ? req->submitted : 0,
		.started = req->weight ? req->started : 0,
		.ended = now,
		.file = uaio_record_file(req->file),
		.res = res,
		.tid = thread_of(stats),
		.by = req->late.held ? req->late.by : (uint8_t)by,
		.is_late = req->late.held != UAIO_REQ_NOT_HELD,
	};
	struct uaio_trace_record record, *own;

	fill(&record, &summary);
	fill_in_whole(&record, req);
	own = uaio_trace_is_on() ? uaio_trace_next() : NULL;
	if (own) {
		*own = record;
		uaio_trace_put();
	}
	if (has_listeners(stats, now))
		uaio_listen_write(&record, uaio_stats_place(stats));
}
