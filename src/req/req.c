/* SPDX-License-Identifier: MIT */
/*
 * Makes the system calls of requests: calls on streams (sockets, pipes) that do not
 * block, and calls that may block. For regular files, whole.h and split.h call
 * uaio_req_execute_part().
 *
 * Tested by test-ready.c and test-segments.c.
 */
#include <errno.h>
#include <linux/fs.h>

#include "base/check.h"
#include "file/inspect.h"
#include "file/terminal.h"
#include "op/sock.h"
#include "req/call.h"
#include "req/queue.h"
#include "req/req.h"
#include "req/stats.h"

const struct uaio_flow_ops *uaio_flow;

/*
 * How often a system call is repeated at most, if a signal interrupts it each time.
 */
enum { MAX_TRIES = 16 };

/*
 * Called after a system call of this thread has returned.
 * Return: whether the thread must not make another call on the descriptor. A thread
 * that closes the descriptor may have found this thread inside the call, and then
 * closes without waiting (closing.h). The request's result is then EINTR, as in the
 * kernel.
 */
static bool is_left(const struct uaio_req *req)
{
	/*
	 * [MB:closing-left] seq_cst: closer_goes is loaded after the call has ended.
	 * Pairs with all_are_in_calls(): either this thread sees that the closing
	 * thread has set closer_goes, or the closing thread sees this thread's next
	 * call.
	 */
	return req->is_one_call && load_seq_cst(&req->file->closer_goes);
}

bool uaio_req_may_lose_file(const struct uaio_req *req, int fd)
{
	enum uaio_op_class class = uaio_optab[req->sqe.op].class;

	return class <= UAIO_CLASS_ABOUT && fd >= 0 &&
	       !load_relaxed(&req->file->owns_fd);
}

bool uaio_req_has_lost_file(const struct uaio_req *req, int fd)
{
	return uaio_req_may_lose_file(req, fd) &&
	       unlikely(uaio_is_replaced(req->file, fd));
}

int64_t uaio_req_execute_part(struct uaio_req *req, const struct uaio_sqe *sqe)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	int fd = uaio_file_use(req->file);
	unsigned nr_tries = 0;
	int64_t res = -EBADF;

	if (uaio_req_has_lost_file(req, fd))
		goto out;
	/*
	 * A signal may interrupt a thread of the program that executes a queued
	 * request. (Workers block all signals except the C library's.) A call on FUSE
	 * then fails with EINTR, but the request must not fail. If each of MAX_TRIES
	 * calls returns EINTR, the error comes from the file itself, for example from a
	 * FUSE server.
	 */
	do
		res = op->run(sqe, fd, &req->found, uaio_call_flags(req->file));
	while (unlikely(res == -EINTR) && req->file->inode && !is_left(req) &&
	       ++nr_tries < MAX_TRIES);
out:
	uaio_file_unuse(req->file);
	return res;
}

void uaio_req_advance(struct uaio_req *req, uint64_t bytes)
{
	req->done_bytes += (int64_t)bytes;
	uaio_sqe_advance(&req->sqe, req->iov, bytes);
}

/*
 * Try a request that has waited for its stream: make a system call that does not block.
 */
static int64_t run_again(struct uaio_req *req, int fd)
{
	const struct uaio_op_def *op = &uaio_optab[req->sqe.op];
	uint32_t flags = RWF_NOWAIT | UAIO_RWF_HAS_WAITED;

	if (op->is_of_socket && !req->sqe.is_multishot)
		flags |= UAIO_RWF_ASKS_LATER;
	if (unlikely(req->file->flags & UAIO_FILE_F_TERMINAL)) {
		if (op->class == UAIO_CLASS_READ &&
		    uaio_terminal_wait(fd) != UAIO_TERMINAL_ANY)
			return UAIO_OP_BLOCKS;
		fd = uaio_terminal_fd(req->file, fd, &flags);
	}
	return op->run(&req->sqe, fd, &req->found,
		       flags | uaio_call_flags(req->file));
}

/*
 * The request's system call has failed with res.
 * Return: the request's next step.
 */
static enum uaio_next fail(const struct uaio_req *req, int64_t res,
			   int64_t *ret_res)
{
	if (res == -EAGAIN)
		return UAIO_NEXT_WAIT_FILE;
	if (res == UAIO_OP_BLOCKS)
		return UAIO_NEXT_WORKER;
	*ret_res = req->done_bytes ? req->done_bytes : res;
	return UAIO_NEXT_DONE;
}

enum uaio_next uaio_req_try(struct uaio_req *req, int fd, bool is_known,
			    int64_t *ret_res)
{
	if (!is_known && uaio_req_has_lost_file(req, fd))
		return fail(req, -EBADF, ret_res);
	for (;;) {
		int64_t res;

		uaio_req_note_start(req);
		res = run_again(req, fd);
		if (res < 0)
			return uaio_optab[req->sqe.op].tries->waits_to_end(
				       &req->sqe, req->file, fd,
				       req->done_bytes, res)
				       ? UAIO_NEXT_WAIT_FILE
				       : fail(req, res, ret_res);
		if (res == 0 || uaio_sqe_is_whole(&req->sqe, fd, res)) {
			*ret_res = res + req->done_bytes;
			return UAIO_NEXT_DONE;
		}
		uaio_req_advance(req, (uint64_t)res);
	}
}

int64_t uaio_req_cancelled_res(const struct uaio_req *req)
{
	const struct uaio_sink *sink = uaio_queue_of(req->group)->sink;

	/* If part of a write is done, the number of bytes is the result. */
	if (req->done_bytes)
		return req->done_bytes;
	return sink->cancelled ? sink->cancelled(&req->sqe) : -ECANCELED;
}

bool uaio_req_is_neutral(const struct uaio_req *req)
{
	const struct uaio_op_def *op = &uaio_optab[req->sqe.op];

	switch (op->class) {
	case UAIO_CLASS_POLL:
	case UAIO_CLASS_TIMER: return true;
	case UAIO_CLASS_READ: return op->ids == UAIO_OP_IDS_OF_FILE;
	/*
	 * Not every thread may execute a write: a socket may report the writer's
	 * credentials to the receiver, and a write to a file by an unprivileged thread
	 * clears its set-user-ID bit.
	 */
	case UAIO_CLASS_WRITE:
		return req->file && !req->file->inode && !op->is_of_socket &&
		       !uaio_file_has(req->file, UAIO_FILE_F_SOCKET);
	default: return op->ids == UAIO_OP_IDS_ANYBODYS;
	}
}

enum uaio_former_need uaio_req_need(const struct uaio_req *req)
{
	const struct uaio_op_def *op = &uaio_optab[req->sqe.op];

	/*
	 * A file server sees the caller's credentials, so they must be the submitter's.
	 */
	if (uaio_req_inode(req) &&
	    uaio_file_has(req->file, UAIO_FILE_F_REMOTE) &&
	    op->class != UAIO_CLASS_POLL)
		return UAIO_NEEDS_FILE_IDS;
	if (uaio_req_is_neutral(req) || op->sleeps ||
	    op->class == UAIO_CLASS_SYNC)
		return UAIO_NEEDS_NO_IDS;
	switch (op->ids) {
	case UAIO_OP_IDS_NONE: return UAIO_NEEDS_NO_IDS;
	case UAIO_OP_IDS_ALL: return UAIO_NEEDS_ALL_IDS;
	default:
		return op->class == UAIO_CLASS_WRITE && !uaio_req_inode(req)
			       ? UAIO_NEEDS_REAL_IDS
			       : UAIO_NEEDS_FILE_IDS;
	}
}

bool uaio_req_is_former_slowly(const struct uaio_req *req)
{
	return req->since != uaio_former_now() &&
	       uaio_req_need(req) != UAIO_NEEDS_NO_IDS;
}
