/* SPDX-License-Identifier: MIT */
/*
 * POLL: the submitting thread polls the file once; if it is not ready, the request is
 * parked (ready.h)
 *
 * Tested by test-op.c.
 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "base/check.h"
#include "base/sys.h"
#include "proc/ownfd.h"
#include "file/file.h"
#include "op/rows.h"

bool uaio_poll_is_possible(int fd)
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
	/* the events that poll() always reports on a file without poll support */
	const uint64_t always = POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;

	/*
	 * If the file has no poll support, refuse a request that polls for none of the
	 * events in `always`. It would wait for ever, because poll() never reports any
	 * other event.
	 */
	if (sqe->events & always)
		return 0;
	return uaio_file_kind(file) == UAIO_KIND_STREAM ||
			       uaio_poll_is_possible(sqe->fd)
		       ? 0
		       : -EINVAL;
}

/*
 * If RLIMIT_NOFILE is 0, poll() fails even for a single file. select() ignores the limit,
 * but reports fewer kinds of events, and accepts only descriptors below FD_SETSIZE.
 */
static int look_by_select(struct pollfd *pfd)
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

	if (pfd->fd < 0 || pfd->fd >= FD_SETSIZE)
		return -EINVAL;
	pfd->revents = 0;
	for (unsigned i = 0; i < NR_SETS; i++) {
		FD_ZERO(&sets[i]);
		if (pfd->events & bits[i])
			FD_SET(pfd->fd, &sets[i]);
	}
	ret = sys_pselect(pfd->fd + 1, &sets[READ], &sets[WRITE], &sets[EXCEPT],
			  &zero);
	for (unsigned i = 0; ret > 0 && i < NR_SETS; i++)
		if (FD_ISSET(pfd->fd, &sets[i]))
			pfd->revents |= (short)(pfd->events & bits[i]);
	return ret;
}

/* Return: the events that are ready now; -EAGAIN: none; or -EBADF. */
int64_t uaio_poll_run(const struct uaio_sqe *sqe, int fd,
		      struct uaio_found *found, uint32_t extra_flags)
{
	static const struct timespec zero;
	struct pollfd pfd = { .fd = fd, .events = (short)sqe->events };
	int ret;

	(void)found;
	(void)extra_flags;
	/*
	 * fd is negative: the program has closed its descriptor, and the library could
	 * not duplicate it. poll() would ignore a descriptor of -1.
	 */
	if (unlikely(fd < 0))
		return -EBADF;
	ret = sys_ppoll(&pfd, 1, &zero, NULL, 0);
	if (unlikely(ret == -EINVAL))
		ret = look_by_select(&pfd);
	if (ret < 0)
		return ret == -EINTR ? -EAGAIN : ret;
	/* Another thread has closed the descriptor since it was looked up. */
	if (unlikely(ret && pfd.revents & POLLNVAL))
		return -EBADF;
	return ret ? (unsigned short)pfd.revents : -EAGAIN;
}
