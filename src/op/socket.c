/* SPDX-License-Identifier: MIT */
/*
 * ACCEPT, CONNECT, and calls of sockets that do not block
 *
 * accept4() and connect() have no flag against blocking. CONNECT sets O_NONBLOCK on the
 * socket during the call; this is safe, as no other thread uses a socket before it is
 * connected. But a listening socket may be shared with other processes, which would see the
 * flag. So if a listening socket is not O_NONBLOCK, a worker calls accept4() once the
 * socket is ready.
 *
 * Tested by uring/test-uring-socket.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/asked.h"
#include "base/check.h"
#include "base/io_uring.h"
#include "file/file.h"
#include "op/args.h"
#include "op/rows.h"
#include "op/sock.h"

/* Return: whether accept4() would block now; false if fd does not listen. */
static bool would_wait(int fd)
{
	static const struct timespec zero;
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return uaio_sock_option(fd, SO_ACCEPTCONN) != 0 &&
	       sys_ppoll(&pfd, 1, &zero, NULL, 0) == 0;
}

/*
 * sqe->buf is the client's memory for the peer's address; sqe->len is a pointer (socklen_t
 * *) to that address's length.
 */
int64_t uaio_accept_run(const struct uaio_sqe *sqe, int fd,
			struct uaio_found *found, uint32_t extra_flags)
{
	int flags = (int)(sqe->call_flags & ~(uint32_t)MSG_DONTWAIT);

	(void)found;
	/* The front-end gets the descriptor. A child process must not inherit it. */
	if (sqe->by_door)
		flags |= SOCK_CLOEXEC;
	if (extra_flags & RWF_NOWAIT) {
		int open_flags = sys_fcntl(fd, F_GETFL, 0);

		if (open_flags < 0)
			return open_flags;
		/*
		 * Do not call accept4() here: the request waits until its socket is
		 * ready, then a worker calls accept4().
		 */
		if (!(open_flags & O_NONBLOCK) ||
		    (sqe->is_multishot && sqe->call_flags & MSG_DONTWAIT))
			return UAIO_OP_BLOCKS;
	} else if (sqe->call_flags & MSG_DONTWAIT && would_wait(fd)) {
		return -EAGAIN;
	}
	return uaio_sqe_land(
		sqe,
		sys_accept4(fd, sqe->buf, (void *)(uintptr_t)sqe->len, flags));
}

/*
 * Call connect() with O_NONBLOCK set, so that it does not block.
 * Return: its result.
 */
static int connect_nowait(int fd, const struct uaio_args *args)
{
	int open_flags = sys_fcntl(fd, F_GETFL, 0), ret;
	bool is_blocking = open_flags >= 0 && !(open_flags & O_NONBLOCK);

	if (is_blocking)
		(void)sys_fcntl(fd, F_SETFL, open_flags | O_NONBLOCK);
	ret = sys_connect(fd, args->address, args->address_bytes);
	if (is_blocking)
		(void)sys_fcntl(fd, F_SETFL, open_flags);
	return ret;
}

int64_t uaio_connect_run(const struct uaio_sqe *sqe, int fd,
			 struct uaio_found *found, uint32_t extra_flags)
{
	bool has_waited = extra_flags & UAIO_RWF_HAS_WAITED;
	int ret;

	(void)found;
	if (!(extra_flags & RWF_NOWAIT))
		return sys_connect(fd, sqe->args->address,
				   sqe->args->address_bytes);
	ret = connect_nowait(fd, sqe->args);
	switch (ret) {
	case -EINPROGRESS: return -EAGAIN;
	case -EALREADY: return has_waited ? -EAGAIN : ret;
	case -EISCONN: return has_waited ? 0 : ret;
	/*
	 * The backlog of a Unix socket is full. No event reports when it has room, so a
	 * worker waits.
	 */
	case -EAGAIN: return UAIO_OP_BLOCKS;
	default: return ret;
	}
}

int64_t uaio_shutdown_run(const struct uaio_sqe *sqe, int fd,
			  struct uaio_found *found, uint32_t extra_flags)
{
	(void)found;
	(void)extra_flags;
	return sys_shutdown(fd, (int)sqe->len);
}

int64_t uaio_bind_run(const struct uaio_sqe *sqe, int fd,
		      struct uaio_found *found, uint32_t extra_flags)
{
	(void)found;
	(void)extra_flags;
	return sys_bind(fd, sqe->args->address, sqe->args->address_bytes);
}

int64_t uaio_listen_run(const struct uaio_sqe *sqe, int fd,
			struct uaio_found *found, uint32_t extra_flags)
{
	(void)found;
	(void)extra_flags;
	return sys_listen(fd, (int)sqe->len);
}

static int64_t bytes_queued(int fd, unsigned long request)
{
	int nr = 0, domain = uaio_sock_option(fd, SO_DOMAIN), ret;

	/*
	 * In the kernel, a Unix socket does not implement this command (EOPNOTSUPP).
	 */
	if (domain == AF_UNIX)
		return -EOPNOTSUPP;
	ret = sys_ioctl_socket(fd, request, &nr);
	return ret < 0 ? ret : nr;
}

int uaio_socket_cmd_prep(const struct uaio_sqe *sqe,
			 const struct uaio_file *file)
{
	const struct uaio_args *args = sqe->args;

	/* Only sockets have commands, and only those up to SETSOCKOPT are supported. */
	if (!uaio_file_has(file, UAIO_FILE_F_SOCKET) ||
	    args->what > UAIO_SOCKET_CMD_SETSOCKOPT)
		return -EOPNOTSUPP;
	return args->what == UAIO_SOCKET_CMD_GETSOCKOPT &&
			       (int)args->off != SOL_SOCKET
		       ? -EOPNOTSUPP
		       : 0;
}

/*
 * args->what is the command, args->off the option's level and name. The value is args->out,
 * or for SETSOCKOPT args->in.
 */
int64_t uaio_socket_cmd_run(const struct uaio_sqe *sqe, int fd,
			    struct uaio_found *found, uint32_t extra_flags)
{
	const struct uaio_args *args = sqe->args;
	int level = (int)args->off, name = (int)(args->off >> 32), ret;
	uint32_t size = args->out_bytes;

	(void)found;
	(void)extra_flags;
	switch (args->what) {
	case UAIO_SOCKET_CMD_INQ: return bytes_queued(fd, SIOCINQ);
	case UAIO_SOCKET_CMD_OUTQ: return bytes_queued(fd, SIOCOUTQ);
	case UAIO_SOCKET_CMD_GETSOCKOPT:
		ret = sys_getsockopt(fd, level, name, args->out, &size);
		return ret < 0 ? ret : (int64_t)size;
	default:
		return sys_setsockopt(fd, level, name, args->in,
				      args->in_bytes);
	}
}

/* sqe->fd is the domain, sqe->mode the type with its flags, and sqe->len the protocol. */
int64_t uaio_socket_run(const struct uaio_sqe *sqe, int fd,
			struct uaio_found *found, uint32_t extra_flags)
{
	(void)fd;
	(void)found;
	(void)extra_flags;
	return uaio_sqe_land(
		sqe,
		sys_socket(sqe->fd,
			   (int)sqe->mode | (sqe->by_door ? SOCK_CLOEXEC : 0),
			   (int)sqe->len));
}
