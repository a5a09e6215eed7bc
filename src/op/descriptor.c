/* SPDX-License-Identifier: MIT */
/*
 * CLOSE, EPOLL_CTL, EPOLL_WAIT and PIPE
 *
 * CLOSE calls the same function as the interposed close(), because the library may have
 * requests on the descriptor. EPOLL_CTL never waits, so it is executed at once.
 *
 * Tested by test-call.c.
 */
#include <errno.h>
#include <linux/fs.h>
#include <sys/epoll.h>

#include "base/asked.h"
#include "base/sys.h"
#include "op/args.h"
#include "op/rows.h"

uaio_close_fn *uaio_op_close;

int64_t uaio_close_run(const struct uaio_sqe *sqe, int fd,
		       struct uaio_found *found, uint32_t extra_flags)
{
	bool may_wait = !(extra_flags & RWF_NOWAIT);
	int ret = uaio_op_close(sqe->fd, may_wait);

	(void)fd;
	(void)found;
	return ret == -EOPNOTSUPP && !may_wait ? UAIO_OP_BLOCKS : ret;
}

int uaio_epoll_ctl_prep(const struct uaio_sqe *sqe,
			const struct uaio_file *file)
{
	struct uaio_args *args = sqe->args;

	(void)file;
	args->in_bytes = 0;
	if (args->what == EPOLL_CTL_DEL)
		return 0;
	args->in_bytes = sizeof(struct epoll_event);
	return uaio_args_can_read(args->in, args->in_bytes) ? 0 : -EFAULT;
}

int64_t uaio_epoll_ctl_run(const struct uaio_sqe *sqe, int fd,
			   struct uaio_found *found, uint32_t extra_flags)
{
	(void)fd;
	(void)found;
	(void)extra_flags;
	/* The system call only reads the event, so the cast is safe. */
	return sys_epoll_ctl(sqe->fd, (int)sqe->args->what, sqe->args->fd,
			     (struct epoll_event *)sqe->args->in);
}

/* sqe->buf: the client's memory for sqe->len events. */
int64_t uaio_epoll_wait_run(const struct uaio_sqe *sqe, int fd,
			    struct uaio_found *found, uint32_t extra_flags)
{
	int nr;

	(void)found;
	nr = sys_epoll_pwait(fd, sqe->buf, (int)sqe->len,
			     extra_flags & RWF_NOWAIT ? 0 : -1);
	return nr ? nr : -EAGAIN;
}

int64_t uaio_pipe_run(const struct uaio_sqe *sqe, int fd,
		      struct uaio_found *found, uint32_t extra_flags)
{
	(void)fd;
	(void)found;
	(void)extra_flags;
	/*
	 * Do not check before that the client's memory is writable: pipe2() itself
	 * checks this, and opens no pipe if the memory is not writable.
	 */
	return sys_pipe2(sqe->buf, (int)sqe->call_flags);
}
