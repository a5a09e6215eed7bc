/* SPDX-License-Identifier: MIT */
/*
 * Issuing a request: its system call, made by the submitting thread, and the
 * outcome
 */
#ifndef UAIO_REQ_CALL_H
#define UAIO_REQ_CALL_H

#include <assert.h>
#include <linux/fs.h>
#include <stdint.h>

#include "base/cycles.h"
#include "file/file.h"
#include "op/op.h"
#include "req/stats.h"

/* What a try has found out, beside what becomes of the request next. */
struct uaio_outcome {
	int64_t res; /* if DONE the result; else the bytes that are done */
	/* if WAIT_FILE: edges of its file before the try; 0: not tried */
	uint32_t edges;
	struct uaio_found found;
	union {
		/* if WAIT_FILE or WAIT_TIME: when it stops waiting; 0: never */
		int64_t until_ns;
		/* otherwise: 1 more than the size of its file; 0: not known */
		uint64_t file_end;
	};
	/* of the last system call, in cycles; 0: not timed (sample.h) */
	uint64_t start;
	uint64_t end;
};

static_assert((uint32_t)UAIO_RWF_ON_STREAM == UAIO_FILE_F_STREAM &&
		      (uint32_t)UAIO_RWF_ON_SOCKET == UAIO_FILE_F_SOCK_STREAM,
	      "one is made of the other without a branch");

/* Return: the extra flags of each call on file. */
static inline uint32_t uaio_call_flags(const struct uaio_file *file)
{
	return load_relaxed(&file->flags) & UAIO_RWF_ON;
}

/*
 * Make the system call of sqe, with extra_flags added to the client's, and note
 * its times, and what it finds out, in ret. file is borrowed under I2 of file.h.
 * Return: the call's result, which is not stored in ret.
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
 * The same without extra flags; stores the result in ret.
 * Return: how long the call took, in cycles.
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
