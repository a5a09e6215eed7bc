/* SPDX-License-Identifier: MIT */
/* Make the system call of a request in the submitting thread, and return its outcome */
#ifndef UAIO_REQ_CALL_H
#define UAIO_REQ_CALL_H

#include <assert.h>
#include <linux/fs.h>
#include <stdint.h>

#include "base/cycles.h"
#include "file/file.h"
#include "op/op.h"
#include "req/stats.h"

/* What one attempt to execute a request found out, besides its enum uaio_next. */
struct uaio_outcome {
	/* DONE: the result; otherwise: the bytes transferred so far */
	int64_t res;
	/*
	 * WAIT_FILE: how many readiness events (edges) the file had before the attempt; 0: not
	 * attempted
	 */
	uint32_t edges;
	struct uaio_found found;
	union {
		/* WAIT_FILE or WAIT_TIME: the time at which it stops waiting; 0: never */
		int64_t until_ns;
		/* Otherwise: the size of its file plus 1; 0: not known. */
		uint64_t file_end;
	};
	/* cycles before and after the last system call; 0: not timed (sample.h) */
	uint64_t start;
	uint64_t end;
};

static_assert((uint32_t)UAIO_RWF_ON_STREAM == UAIO_FILE_F_STREAM &&
		      (uint32_t)UAIO_RWF_ON_SOCKET == UAIO_FILE_F_SOCK_STREAM,
	      "one is made of the other without a branch");

/* Return: the flags by which an operation's run() learns what kind of file it has. */
static inline uint32_t uaio_call_flags(const struct uaio_file *file)
{
	return load_relaxed(&file->flags) & UAIO_RWF_ON;
}

/*
 * Make the system call of sqe. ret: its times and what it found out. file is borrowed
 * under I2 of file.h.
 * Return: the result, which is not in ret.
 */
static inline int64_t uaio_call(const struct uaio_file *file,
				const struct uaio_sqe *sqe,
				uint32_t extra_flags, struct uaio_outcome *ret)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	int64_t res;

	ret->start = uaio_sample_now();
	res = op->run(sqe, sqe->fd, &ret->found,
		      extra_flags | uaio_call_flags(file));
	ret->end = uaio_sample_now();
	return res;
}

/*
 * Like uaio_call(), but without extra flags and always timed; the result is in ret. Return:
 * the cycles that the call took.
 */
static inline uint64_t uaio_call_timed(const struct uaio_file *file,
				       const struct uaio_sqe *sqe,
				       struct uaio_outcome *ret)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];

	ret->start = uaio_cycles();
	ret->res = op->run(sqe, sqe->fd, &ret->found, uaio_call_flags(file));
	ret->end = uaio_cycles();
	return ret->end - ret->start;
}

#endif /* UAIO_REQ_CALL_H */
