/* SPDX-License-Identifier: MIT */
/* POLL: one-shot; tried when it is submitted, then parked (ready.h). */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "base/check.h"
#include "base/sys.h"
#include "proc/ownfd.h"
#include "file/file.h"
#include "op/op.h"

/* Whether the driver knows polling; if nobody can tell, it does. */
static bool can_poll(int fd)
{
	struct epoll_event event = { 0 };
	int epoll = uaio_ownfd_epoll(), ret;

	if (epoll < 0)
		return true;
	ret = sys_epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
	uaio_ownfd_close(epoll);
	return ret != -EPERM;
}

int uaio_poll_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	/* What poll() always says of files that know no waiting. */
	const uint64_t always = POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;

	/* There is nothing to wait on, and it would wait for ever. */
	if (sqe->events & always)
		return 0;
	return uaio_file_kind(file) == UAIO_KIND_STREAM || can_poll(sqe->fd)
		       ? 0
		       : -EINVAL;
}

/*
 * poll() refuses to look at a single file where the limit of descriptors is 0;
 * select() goes by what is open. It tells less, and knows low numbers only.
 */
static int look_by_select(struct pollfd *slot)
{
	enum { READ, WRITE, EXCEPT, NR_SETS };
	static const short bits[NR_SETS] = {
		[READ] = POLLIN | POLLRDNORM,
		[WRITE] = POLLOUT | POLLWRNORM,
		[EXCEPT] = POLLPRI,
	};
	struct timespec zero = { 0 };
	fd_set sets[NR_SETS];
	int ret;

	if (slot->fd < 0 || slot->fd >= FD_SETSIZE)
		return -EINVAL;
	slot->revents = 0;
	for (unsigned i = 0; i < NR_SETS; i++) {
		FD_ZERO(&sets[i]);
		if (slot->events & bits[i])
			FD_SET(slot->fd, &sets[i]);
	}
	ret = sys_pselect(slot->fd + 1, &sets[READ], &sets[WRITE],
			  &sets[EXCEPT], &zero);
	for (unsigned i = 0; ret > 0 && i < NR_SETS; i++)
		if (FD_ISSET(slot->fd, &sets[i]))
			slot->revents |= (short)(slot->events & bits[i]);
	return ret;
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
	if (unlikely(ret == -EINVAL))
		ret = look_by_select(&slot);
	if (ret < 0)
		return ret == -EINTR ? -EAGAIN : ret;
	return ret ? (unsigned short)slot.revents : -EAGAIN;
}
