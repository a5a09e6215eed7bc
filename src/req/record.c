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
 * What a record tells of a request. It is written as a whole, without looking at what
 * was there: the tracer has read that last, and a thread that reads it waits for the
 * other processor.
 */
struct told {
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
fill(struct uaio_trace_record *record, const struct told *told)
{
	const struct uaio_sqe *sqe = told->sqe;
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	bool is_of_bytes = op->class <= UAIO_CLASS_SYNC;
	bool has_place = is_of_bytes && !op->is_of_socket && sqe->off >= 0;
	/* 0: that is not known, or it has none. */
	uint64_t len = is_of_bytes && !op->copies ? uaio_sqe_bytes(sqe) : 0;

	*record = (struct uaio_trace_record){
		.submitted = told->submitted,
		.started = told->started,
		.ended = told->ended,
		.off = has_place ? sqe->off : -1,
		.len = len,
		.file = told->file,
		.res = (int32_t)told->res,
		.fd = op->has_no_file ? -1 : sqe->fd,
		.op = sqe->op,
		/* relaxed, both: immutable while the queue is open */
		.door = load_relaxed(&told->queue->sink)->door & 7u,
		.by = told->by & 15u,
		.is_late = told->is_late,
		.queue = load_relaxed(&told->queue->number),
		.tid = told->tid,
	};
}

static uint32_t thread_of(const struct uaio_live_block *stats)
{
	/* relaxed: of a thread's own block, or of the one that many share */
	int owner = load_relaxed(&stats->owner);

	return (uint32_t)(likely(owner > 0) ? owner : sys_gettid());
}

/* Return: whether there may be rings of tools that came later. */
static inline bool is_asked(struct uaio_live_block *stats, uint64_t now)
{
	bool is = uaio_listen(now);

	if (!is && !uaio_trace_is_on())
		/* relaxed: a tool that has just set it does so again */
		store_relaxed(&stats->is_traced, 0);
	return is;
}

/* Return: 0 if there is no room. */
static __attribute__((noinline)) uint64_t
tell_name(struct uaio_live_block *stats, struct uaio_file *file, int fd)
{
	struct uaio_trace_name name = { .number = uaio_trace_new_number(),
					.fd = fd };
	char link[UAIO_FD_PATH_BYTES], path[PATH_MAX];
	bool is_told = true;
	int len, shown;

	if (!is_asked(stats, name.number) && !uaio_trace_is_on())
		return 0;
	uaio_fd_path(fd, link);
	len = sys_readlinkat(AT_FDCWD, link, path, sizeof(path));
	if (len > 0) {
		shown = len < UAIO_TRACE_NAME_BYTES ? len
						    : UAIO_TRACE_NAME_BYTES;
		name.len = (uint32_t)shown;
		memcpy(name.text, path + len - shown, name.len);
		if (uaio_trace_is_on())
			is_told = uaio_trace_put_name(&name);
		if (is_asked(stats, name.number))
			is_told &= uaio_listen_write_name(
				&name, uaio_stats_place(stats));
	}
	if (!is_told)
		return 0;
	/* [MB:trace-number] release: its name. Pairs with uaio_record_file(). */
	store_release(&file->trace_number, name.number);
	return name.number;
}

uint64_t uaio_record_name(struct uaio_live_block *stats, struct uaio_file *file,
			  int fd)
{
	uint64_t number = uaio_record_file(file);

	if (likely(!file || uaio_trace_is_named(number)))
		return number;
	return tell_name(stats, file, fd);
}

void uaio_record_inline(struct uaio_live_block *stats,
			const struct uaio_queue *queue, struct uaio_file *file,
			const struct uaio_sqe *sqe,
			const struct uaio_outcome *outcome)
{
	const struct told told = {
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
		fill(own, &told);
		uaio_trace_put();
	}
	if (unlikely(is_asked(stats, outcome->end))) {
		struct uaio_trace_record copy;

		fill(&copy, &told);
		uaio_listen_write(&copy, uaio_stats_place(stats));
	}
}

/* What it was asked for, before parts of it were done or it was held back. */
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
	const struct told told = {
		.queue = uaio_queue_of(req->group),
		.sqe = &req->sqe,
		/* What was submitted before anybody traced may not be timed. */
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

	fill(&record, &told);
	fill_in_whole(&record, req);
	own = uaio_trace_is_on() ? uaio_trace_next() : NULL;
	if (own) {
		*own = record;
		uaio_trace_put();
	}
	if (is_asked(stats, now))
		uaio_listen_write(&record, uaio_stats_place(stats));
}
