/* SPDX-License-Identifier: MIT */
/*
 * Tries one parked request: makes its system call without blocking, or hands the
 * request to a worker (ready.h). Tested by test-ready-again.c and all other
 * test-ready*.c.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "file/terminal.h"
#include "op/sock.h"
#include "ready/readyint.h"

/*
 * Return: those events that poll() reports on fd and for which req waits; all bits if
 * poll() fails.
 */
static uint32_t look(const struct uaio_req *req, int fd)
{
	static const struct timespec zero;
	struct pollfd pfd = {
		.fd = fd,
		.events = (short)uaio_ready_events_of(req),
	};

	/*
	 * poll() fails, for example, if RLIMIT_NOFILE is zero. Then the file counts
	 * as ready.
	 */
	if (sys_ppoll(&pfd, 1, &zero, NULL, 0) < 0)
		return UINT32_MAX;
	return (unsigned short)pfd.revents;
}

/*
 * Called for files on which every call may block.
 * Return: whether the file is ready now, so that a worker should make the call.
 */
static bool is_ready_now(const struct uaio_req *req, int fd)
{
	if (uaio_waitq_id_of(req) == UAIO_WAITQ_READ &&
	    uaio_terminal_read_ends(req->file, fd))
		return true;
	return look(req, fd);
}

bool uaio_ready_is_doubtful(const struct uaio_req *req, int fd)
{
	enum uaio_waitq_id id = uaio_waitq_id_of(req);

	if (id == UAIO_WAITQ_POLL || id == UAIO_WAITQ_ERRORS)
		return false;
	/*
	 * Leave out POLLERR: an error in a socket's queue (IP_RECVERR) does not make
	 * the socket ready. It stays until the program reads it, perhaps for long.
	 */
	return look(req, fd) & ~(uint32_t)POLLERR;
}

/*
 * Return: whether the request reads from a datagram socket that was shut down for
 * reading. On such a socket only a call that may block returns the end of the data;
 * other calls fail with EAGAIN.
 */
static bool is_shut(const struct uaio_req *req, int fd)
{
	static const struct timespec zero;
	struct pollfd pfd = { .fd = fd, .events = POLLIN | POLLRDHUP };

	return uaio_waitq_id_of(req) == UAIO_WAITQ_READ &&
	       req->file->flags & UAIO_FILE_F_SOCKET &&
	       !(req->file->flags & UAIO_FILE_F_SOCK_STREAM) &&
	       sys_ppoll(&pfd, 1, &zero, NULL, 0) == 1 &&
	       pfd.revents & POLLRDHUP;
}

/*
 * Called for a request that must run with another identity (credentials) than the
 * calling thread's.
 * Return: whether a worker with that identity must make the call now: the file is
 * ready, or the socket listens. (A send to a listening socket must fail, though the
 * socket never becomes ready.)
 */
static __attribute__((noinline)) bool is_for_its_own(const struct uaio_req *req,
						     int fd)
{
	return is_ready_now(req, fd) ||
	       (uaio_waitq_id_of(req) == UAIO_WAITQ_WRITE &&
		req->file->flags & UAIO_FILE_F_SOCKET &&
		uaio_sock_option(fd, SO_ACCEPTCONN) == 1);
}

enum uaio_next uaio_ready_try(struct uaio_req *req, int fd, bool is_known,
			      int64_t *ret_res)
{
	enum uaio_next next;

	if (fd >= 0 && is_known &&
	    uaio_optab[req->sqe.op].tries->waits_on(&req->sqe, fd))
		return UAIO_NEXT_WAIT_FILE;
	if (unlikely(!uaio_req_is_mine(req)) && fd >= 0)
		return is_for_its_own(req, fd) ? UAIO_NEXT_WORKER
					       : UAIO_NEXT_WAIT_FILE;
	next = uaio_req_try(req, fd, is_known, ret_res);
	if (next == UAIO_NEXT_WORKER && fd >= 0 && !is_ready_now(req, fd))
		return UAIO_NEXT_WAIT_FILE;
	if (next == UAIO_NEXT_WAIT_FILE && fd >= 0 && is_shut(req, fd))
		return UAIO_NEXT_WORKER;
	return next;
}

/*
 * Return: whether a worker's call may wait for long, although the file polls ready: the
 * backlog of a Unix socket is full, or the file does not support polling.
 */
static bool may_wait_long(const struct uaio_req *req)
{
	return req->sqe.op == UAIO_OP_CONNECT || req->file->is_unpollable;
}

void uaio_ready_hand_to_worker(struct uaio_req *req)
{
	struct list startable;

	req->owns_waitq = true;
	if (!uaio_file_make_private(req->file) && may_wait_long(req)) {
		uaio_flow->complete(req, -EMFILE, NULL);
		return;
	}
	uaio_req_move(req, UAIO_REQ_RUNNING, UAIO_REQ_PREPPED);
	req->next = UAIO_NEXT_WORKER;
	list_init(&startable);
	list_add_tail(&startable, &req->link);
	uaio_flow->start_all(&startable);
}

void uaio_ready_returned(struct uaio_req *req)
{
	struct uaio_file *file = req->file;
	enum uaio_waitq_id id = uaio_waitq_id_of(req);
	struct uaio_waitq *waitq = &file->waitqs[id];

	uaio_lock(&file->lock, UAIO_RANK_FILE);
	uaio_waitq_count_out(waitq, req);
	waitq->is_running = false;
	uaio_waitq_kick_locked(file, id, NULL);
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
}
