/* SPDX-License-Identifier: MIT */
/* Requests as calls: the one that makes a request, or part of it. */
#include <errno.h>
#include <linux/fs.h>

#include "base/check.h"
#include "options/config.h"
#include "file/identity.h"
#include "file/terminal.h"
#include "engine/bounce.h"
#include "engine/req.h"
#include "engine/stats.h"

/* So often a call that was interrupted is made. */
enum { MAX_TRIES = 16 };

/*
 * A call has ended. Who closes the number may have seen the thread in it, and
 * have gone: then there is to be no other, and EINTR is the result, as it is in
 * the kernel.
 */
static bool is_left(const struct uaio_req *req)
{
	/*
	 * [MB:closing-left] seq_cst: the call is over, then looked. Pairs with
	 * all_are_in_calls(): either we see it, or he sees the next call.
	 */
	return req->is_one_call && load_seq_cst(&req->file->is_left);
}

/*
 * It waited, and its number may be another file by now, if that was closed inline:
 * nothing is read from that one, or written to it. A number of ours stays.
 */
static bool has_lost_file(const struct uaio_req *req, int fd)
{
	enum uaio_op_class class = uaio_optab[req->sqe.op].class;

	return (class == UAIO_CLASS_READ || class == UAIO_CLASS_WRITE) &&
	       fd >= 0 && !load_relaxed(&req->file->owns_fd) &&
	       unlikely(uaio_is_replaced(req->file, fd));
}

int64_t uaio_req_make_part(struct uaio_req *req, const struct uaio_sqe *sqe)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	int fd = uaio_file_use(req->file);
	unsigned nr_tries = 0;
	int64_t res = -EBADF;

	if (has_lost_file(req, fd))
		goto out;
	/*
	 * Workers let no signal in but the C library's. Others who make what was
	 * queued do, and their signals are none of its business (FUSE ends with
	 * EINTR). Always EINTR is the file's own answer, as of a FUSE server.
	 */
	do
		res = op->run(sqe, fd, req->file->flags & UAIO_FILE_F_STREAM,
			      0);
	while (unlikely(res == -EINTR) && req->file->inode && !is_left(req) &&
	       ++nr_tries < MAX_TRIES);
out:
	uaio_file_unuse(req->file);
	return res;
}

int64_t uaio_req_make(struct uaio_req *req)
{
	const struct uaio_op_def *op = &uaio_optab[req->sqe.op];
	int64_t res;

	if (unlikely(uaio_config.has_stats))
		req->started = uaio_cycles();
	if (unlikely(!req->file))
		return op->run(&req->sqe, -1, false, 0);
	res = uaio_req_make_part(req, &req->sqe);
	if (unlikely(uaio_may_bounce(req->file, &req->sqe, res)))
		res = uaio_bounce(req);
	return res < 0 && req->done_bytes ? req->done_bytes
	       : res < 0                  ? res
					  : res + req->done_bytes;
}

int64_t uaio_req_make_by(struct uaio_req *req, struct uaio_worker *worker)
{
	int64_t res;

	/* What is bounced may take more than one call. */
	req->is_one_call = uaio_req_inode(req) && !uaio_config.bounces;
	uaio_wq_calls(worker, req->is_one_call ? req->file : NULL);
	res = uaio_req_make(req);
	uaio_wq_calls(worker, NULL);
	return res;
}

static uint64_t bytes_left(const struct uaio_req *req)
{
	return uaio_sqe_bytes(&req->sqe);
}

void uaio_req_advance(struct uaio_req *req, uint64_t bytes)
{
	req->done_bytes += (int64_t)bytes;
	uaio_sqe_advance(&req->sqe, req->iov, bytes);
}

/* On a stream that waited, with a call that does not block. */
static int64_t run_again(const struct uaio_req *req, int fd)
{
	const struct uaio_op_def *op = &uaio_optab[req->sqe.op];
	uint32_t flags = RWF_NOWAIT | UAIO_RWF_HAS_WAITED;

	if (unlikely(req->file->flags & UAIO_FILE_F_TERMINAL)) {
		if (op->class == UAIO_CLASS_READ &&
		    uaio_terminal_wait(fd) != UAIO_TERMINAL_ANY)
			return -EOPNOTSUPP;
		fd = uaio_terminal_number(req->file, fd, &flags);
	}
	return op->run(&req->sqe, fd, req->file->flags & UAIO_FILE_F_STREAM,
		       flags);
}

int64_t uaio_req_try(struct uaio_req *req, int fd)
{
	const struct uaio_op_def *op = &uaio_optab[req->sqe.op];

	if (has_lost_file(req, fd))
		return req->done_bytes ? req->done_bytes : -EBADF;
	for (;;) {
		int64_t res;

		req->started = uaio_stats_now();
		res = run_again(req, fd);
		if (res < 0)
			return res != -EAGAIN && res != -EOPNOTSUPP &&
					       req->done_bytes
				       ? req->done_bytes
				       : res;
		if (op->class == UAIO_CLASS_READ || res == 0 ||
		    (uint64_t)res >= bytes_left(req))
			return res + req->done_bytes;
		uaio_req_advance(req, (uint64_t)res);
	}
}
