/* SPDX-License-Identifier: MIT */
/* POLL: one-shot; tried here, then left to the poller. */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>

#include "base/check.h"
#include "base/sys.h"
#include "engine/file.h"
#include "op/op.h"

/* Whether the driver knows polling; if nobody can tell, it does. */
static bool can_poll(int fd)
{
	struct epoll_event event = { 0 };
	int epoll = sys_epoll_create(), ret;

	if (epoll < 0)
		return true;
	ret = sys_epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
	(void)sys_close(epoll);
	return ret != -EPERM;
}

int uaio_poll_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	/* What poll() always says of files that know no waiting. */
	const uint64_t always = POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;

	if (sqe->events > UINT16_MAX)
		return -EINVAL;
	if (sqe->off || sqe->len || sqe->rw_flags)
		return -EINVAL;
	/* There is nothing to wait on, and it would wait for ever. */
	if (sqe->events & always)
		return 0;
	if (uaio_file_kind(file) < UAIO_KIND_STREAM ||
	    (uaio_file_kind(file) == UAIO_KIND_DEVICE && !can_poll(sqe->fd)))
		return -EINVAL;
	return 0;
}

/* Return: what is ready now, or -EAGAIN: nothing; or -EBADF. */
int64_t uaio_poll_run(const struct uaio_sqe *sqe, int fd, bool is_stream,
		      uint32_t extra_flags)
{
	static const struct timespec zero;
	struct pollfd slot = { .fd = fd, .events = (short)sqe->events };
	int ret;

	(void)is_stream;
	(void)extra_flags;
	/* Closed, and there was no number to go on with; poll() ignores it. */
	if (unlikely(fd < 0))
		return -EBADF;
	ret = sys_ppoll(&slot, 1, &zero, NULL, 0);
	if (ret < 0)
		return ret == -EINTR ? -EAGAIN : ret;
	return ret ? (unsigned short)slot.revents : -EAGAIN;
}
