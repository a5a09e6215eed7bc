/* SPDX-License-Identifier: MIT */
/*
 * Makes the system call of a request in the submitting thread, and returns its outcome
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

/*
 * What one attempt to execute a request has found out, apart from the next step (enum
 * uaio_next).
 */
struct uaio_outcome {
	/*
	 * If the next step is DONE: the result; otherwise: how many bytes were
	 * transferred so far.
	 */
	int64_t res;
	/*
	 * If the request must wait for its file: the file's count of readiness events
	 * (edges) before the attempt. If the count has changed since, the request is
	 * tried again. 0: no attempt was made.
	 */
	uint32_t edges;
	/*
	 * UAIO_RWF_ON_*: the request is on a stream or socket, so its system call needs
	 * no offset. 0: the request is on a file of another kind, or the kind of file
	 * does not matter to the operation.
	 */
	uint32_t on;
	struct uaio_found found;
	union {
		/*
		 * If the request waits for its file or a time: when it stops waiting;
		 * 0: never.
		 */
		int64_t until_ns;
		/*
		 * If the request does not wait: the size of its file plus 1; 0: not
		 * known.
		 */
		uint64_t file_end;
	};
	/*
	 * Cycle counts before and after the last system call; 0: the call was not timed
	 * (sample.h).
	 */
	uint64_t start;
	uint64_t end;
};

static_assert((uint32_t)UAIO_RWF_ON_STREAM == UAIO_FILE_F_STREAM &&
		      (uint32_t)UAIO_RWF_ON_SOCKET == UAIO_FILE_F_SOCK_STREAM,
	      "one is made of the other without a branch");

/*
 * Return: the flags by which an operation's run() learns what kind of file the request
 * has.
 */
static inline uint32_t uaio_call_flags(const struct uaio_file *file)
{
	return load_relaxed(&file->flags) & UAIO_RWF_ON;
}

/*
 * Make the system call of sqe on a file of the kind that ret->on says. Do not read the
 * file's entry, as it may have been reused for another file since ret->on was set
 * (file.h, I2). Stored in *ret: when the call began and ended, and what the call
 * returned about the socket.
 * Return: the result of the call, which is not stored in *ret.
 */
static inline int64_t uaio_call(const struct uaio_sqe *sqe,
				uint32_t extra_flags, struct uaio_outcome *ret)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	int64_t res;

	ret->start = uaio_sample_now();
	res = op->run(sqe, sqe->fd, &ret->found, extra_flags | ret->on);
	ret->end = uaio_sample_now();
	return res;
}

/*
 * Like uaio_call(), but without extra flags; always takes the times, and stores the
 * result in ret->res.
 * Return: how many cycles the call took.
 */
static inline uint64_t uaio_call_timed(const struct uaio_sqe *sqe,
				       struct uaio_outcome *ret)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];

	ret->start = uaio_cycles();
	ret->res = op->run(sqe, sqe->fd, &ret->found, ret->on);
	ret->end = uaio_cycles();
	return ret->end - ret->start;
}

#endif /* UAIO_REQ_CALL_H */
