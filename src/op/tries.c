/* SPDX-License-Identifier: MIT */
/*
 * How requests on a stream begin and wait, for each operation (struct uaio_op_tries in
 * op.h)
 *
 * Tested by src/ready/test-ready.c, src/uring/test-uring-socket.c and the rows of
 * test/conform/ about sockets.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "file/file.h"
#include "op/rows.h"
#include "op/sock.h"

bool uaio_may_be_ready(int fd, short events)
{
	static const struct timespec zero;
	struct pollfd pfd = { .fd = fd, .events = events };

	return sys_ppoll(&pfd, 1, &zero, NULL, 0) != 0;
}

/* The kernel's EP_MAX_EVENTS. */
enum { EPOLL_EVENTS_MAX = INT32_MAX / (int)sizeof(struct epoll_event) };

static bool is_write(const struct uaio_sqe *sqe)
{
	return uaio_optab[sqe->op].class == UAIO_CLASS_WRITE;
}

static bool never(const struct uaio_sqe *sqe, int fd)
{
	(void)sqe;
	(void)fd;
	return false;
}

/*
 * A request with polls_first has failed with res. If its arguments are invalid, the error
 * is reported only when the file is ready. An error of the socket itself is reported at
 * once, because the socket returns such an error only once: a second call would not see it.
 * Return: whether the request must wait until its file is ready.
 */
static bool waits_with_mistake(const struct uaio_sqe *sqe, int fd,
			       bool has_begun, int64_t res)
{
	bool is_mistake = res == -ENOTCONN || res == -EINVAL ||
			  res == -EOPNOTSUPP || res == -ENOBUFS ||
			  res == -ENOENT || res == -ESPIPE;

	return is_mistake && !has_begun && !is_write(sqe) &&
	       !uaio_may_be_ready(fd, uaio_sock_reads_errors(sqe) ? 0 : POLLIN);
}

/*
 * Return: whether the request would fail at once on a listening socket. Accepts, and
 * requests with polls_first, would not.
 */
static bool fails_where_it_listens(const struct uaio_sqe *sqe)
{
	return uaio_optab[sqe->op].tries != &uaio_accept_tries &&
	       !sqe->polls_first;
}

/* Query SO_ACCEPTCONN last, because the query is a system call. */
static bool passes_where_it_listens(const struct uaio_sqe *sqe,
				    const struct uaio_sqe *waiting, int fd)
{
	return fails_where_it_listens(sqe) &&
	       !(waiting && fails_where_it_listens(waiting)) &&
	       uaio_sock_option(fd, SO_ACCEPTCONN) == 1;
}

/* How reads and writes begin and wait */

static enum uaio_first rw_first(const struct uaio_sqe *sqe, int fd)
{
	(void)fd;
	if (unlikely(sqe->is_async))
		return UAIO_FIRST_ASIDE;
	/*
	 * Make no try here: ready/run.c makes all tries of a multishot request.
	 */
	if (unlikely(sqe->is_multishot))
		return UAIO_FIRST_WAIT;
	/* As in the kernel's io_uring, a read of 0 bytes does not wait. */
	if (uaio_sqe_rules(sqe)->skips_empty && !sqe->by_door &&
	    !is_write(sqe) && !uaio_sqe_bytes(sqe))
		return UAIO_FIRST_PASS;
	return UAIO_FIRST_TRY;
}

/*
 * If a read has is_async, a worker should execute it. But if its file can be polled, the
 * submitting thread tries the read first. If the front-end has no buffer for the read,
 * this try fails at once.
 */
static enum uaio_first select_first(const struct uaio_sqe *sqe, int fd)
{
	return unlikely(sqe->is_async) && !sqe->is_multishot
		       ? UAIO_FIRST_ASIDE_TRIED
		       : rw_first(sqe, fd);
}

static bool rw_waits_to_end(const struct uaio_sqe *sqe,
			    const struct uaio_file *file, int fd,
			    bool has_begun, int64_t res);

bool uaio_rw_can_only_poll(const struct uaio_sqe *sqe,
			   const struct uaio_file *file)
{
	const uint32_t neither = UAIO_FILE_F_OLD_READ | UAIO_FILE_F_OLD_WRITE;

	return uaio_sqe_rules(sqe)->waits_for_nonblock &&
	       uaio_optab[sqe->op].tries->waits_to_end == rw_waits_to_end &&
	       uaio_file_kind(file) == UAIO_KIND_STREAM &&
	       (load_relaxed(&file->flags) & neither) == neither;
}

/*
 * On a file that can only be polled (not read or written), a result of EINVAL completes the
 * request only when the file is ready. The kernel's io_uring, too, first polls a file that
 * it cannot try. On most other files EINVAL means invalid arguments.
 */
static bool rw_waits_to_end(const struct uaio_sqe *sqe,
			    const struct uaio_file *file, int fd,
			    bool has_begun, int64_t res)
{
	int open_flags;

	if (unlikely(sqe->polls_first))
		return waits_with_mistake(sqe, fd, has_begun, res);
	if (likely(res != -EINVAL) || sqe->rw_flags & RWF_NOWAIT ||
	    !uaio_rw_can_only_poll(sqe, file))
		return false;
	/*
	 * If the file is O_NONBLOCK, the kernel does not wait for it. So EINVAL
	 * completes the request at once.
	 */
	open_flags = sys_fcntl(fd, F_GETFL, 0);
	return open_flags >= 0 && !(open_flags & O_NONBLOCK) &&
	       !uaio_may_be_ready(fd, is_write(sqe) ? POLLOUT : POLLIN);
}

const struct uaio_op_tries uaio_rw_tries = {
	.first = rw_first,
	.fails_at_once = never,
	.waits_on = never,
	.waits_to_end = rw_waits_to_end,
	.takes_all = never,
	.passes = passes_where_it_listens,
};

const struct uaio_op_tries uaio_rw_select_tries = {
	.first = select_first,
	.fails_at_once = never,
	.waits_on = never,
	.waits_to_end = rw_waits_to_end,
	.takes_all = never,
	.passes = passes_where_it_listens,
};

/*
 * The functions of POLL and EPOLL_WAIT. No thread could interrupt a worker that waits
 * in epoll_wait(). So the submitting thread tries the request first, even if the client
 * wants a worker.
 */

static enum uaio_first plain_first(const struct uaio_sqe *sqe, int fd)
{
	(void)fd;
	if (unlikely(sqe->is_multishot))
		return UAIO_FIRST_WAIT;
	/*
	 * The kernel refuses more than EP_MAX_EVENTS events, so let the request fail at
	 * once.
	 */
	return unlikely(sqe->len - 1 >= EPOLL_EVENTS_MAX) ? UAIO_FIRST_PASS
							  : UAIO_FIRST_TRY;
}

static bool ends_at_once(const struct uaio_sqe *sqe,
			 const struct uaio_file *file, int fd, bool has_begun,
			 int64_t res)
{
	(void)sqe;
	(void)file;
	(void)fd;
	(void)has_begun;
	(void)res;
	return false;
}

const struct uaio_op_tries uaio_plain_tries = {
	.first = plain_first,
	.fails_at_once = never,
	.waits_on = never,
	.waits_to_end = ends_at_once,
	.takes_all = never,
	.passes = passes_where_it_listens,
};

/*
 * How requests on sockets begin and wait. They wait even if the socket is O_NONBLOCK.
 */

/*
 * Return: whether a send must choose its buffer only after the whole submission: a later
 * request of the same submission may provide the buffer.
 */
static bool chooses_late(const struct uaio_sqe *sqe)
{
	return sqe->by_door && is_write(sqe) && uaio_sock_has_bytes(sqe) &&
	       !(sqe->call_flags & MSG_DONTWAIT);
}

static enum uaio_first sock_first(const struct uaio_sqe *sqe, int fd)
{
	const struct uaio_op_tries *tries = uaio_optab[sqe->op].tries;

	if (likely(!(sqe->is_multishot | sqe->polls_first | sqe->is_async)))
		return unlikely(sqe->call_flags & MSG_DONTWAIT)
			       ? UAIO_FIRST_NOW
			       : UAIO_FIRST_TRY;
	if (sqe->is_async && (sqe->is_multishot || chooses_late(sqe)))
		return UAIO_FIRST_WAIT;
	/*
	 * Make no try here: ready/run.c makes all tries of a multishot request.
	 */
	if (sqe->is_multishot) {
		if (sqe->polls_first)
			return UAIO_FIRST_WAIT;
		if (tries->fails_at_once(sqe, fd))
			return UAIO_FIRST_HERE;
		/*
		 * With MSG_DONTWAIT a worker makes all calls of the multishot request,
		 * and posts a completion after each call.
		 */
		return sqe->call_flags & MSG_DONTWAIT ? UAIO_FIRST_WORKER
						      : UAIO_FIRST_WAIT;
	}
	if (sqe->polls_first && uaio_sock_waits_to_send(sqe, fd))
		return UAIO_FIRST_LOOKED;
	return sqe->call_flags & MSG_DONTWAIT ? UAIO_FIRST_NOW : UAIO_FIRST_TRY;
}

/*
 * Return: whether the request is a bundle of sends, the only kind of multishot send, on
 * a listening socket. There a send fails at once.
 */
static bool bundle_fails_at_once(const struct uaio_sqe *sqe, int fd)
{
	return sqe->is_multishot && is_write(sqe) &&
	       uaio_sock_option(fd, SO_ACCEPTCONN) == 1;
}

static bool sock_waits_on(const struct uaio_sqe *sqe, int fd)
{
	return unlikely(sqe->polls_first) && uaio_sock_waits_to_send(sqe, fd);
}

static bool sock_waits_to_end(const struct uaio_sqe *sqe,
			      const struct uaio_file *file, int fd,
			      bool has_begun, int64_t res)
{
	(void)file;
	/*
	 * A send with MSG_WAITALL has sent a part, and the memory of the rest is invalid.
	 * As in the kernel's io_uring, the error is reported only when the socket has
	 * free space. message.c does this for memory that the front-end has chosen.
	 */
	if (unlikely(res == -EFAULT) && has_begun && !sqe->by_door)
		return uaio_sock_waits_to_send(sqe, fd);
	return unlikely(sqe->polls_first) &&
	       waits_with_mistake(sqe, fd, has_begun, res);
}

/*
 * Return: whether a worker receives, without blocking (MSG_DONTWAIT), everything that has
 * arrived. Otherwise, as in the kernel, the request waits for its socket again after each
 * call.
 */
static bool sock_takes_all(const struct uaio_sqe *sqe, int fd)
{
	(void)fd;
	return sqe->call_flags & MSG_DONTWAIT && !sqe->is_async;
}

const struct uaio_op_tries uaio_sock_tries = {
	.first = sock_first,
	.fails_at_once = bundle_fails_at_once,
	.waits_on = sock_waits_on,
	.waits_to_end = sock_waits_to_end,
	.takes_all = sock_takes_all,
	.passes = passes_where_it_listens,
};

/* How accepts begin and wait */

static bool accept_fails_at_once(const struct uaio_sqe *sqe, int fd)
{
	(void)sqe;
	return uaio_sock_option(fd, SO_ACCEPTCONN) == 0;
}

/*
 * Return: whether a worker accepts connections until an accept fails. With is_async, the
 * kernel does so except on TCP sockets, where an accept also reports whether more
 * connections wait.
 */
static bool accept_takes_all(const struct uaio_sqe *sqe, int fd)
{
	int domain;

	if (!(sqe->call_flags & MSG_DONTWAIT))
		return false;
	if (!sqe->is_async)
		return true;
	domain = uaio_sock_option(fd, SO_DOMAIN);
	return domain != AF_INET && domain != AF_INET6;
}

const struct uaio_op_tries uaio_accept_tries = {
	.first = sock_first,
	.fails_at_once = accept_fails_at_once,
	.waits_on = sock_waits_on,
	.waits_to_end = sock_waits_to_end,
	.takes_all = accept_takes_all,
	.passes = passes_where_it_listens,
};
