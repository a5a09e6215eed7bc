/* SPDX-License-Identifier: MIT */
/*
 * Polls of descriptors that include io_uring rings of the library: poll(), epoll_ctl(),
 * and the polling system calls by syscall(2)
 *
 * In place of a ring, the library polls the ring's bell: an eventfd that wakes polls of
 * the ring (uring/bell.h).
 *
 * Tested by test/host/bells.c.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include "base/check.h"
#include "base/symver.h"
#include "base/sys.h"
#include "base/uaddr.h"
#include "uring/bell.h"
#include "uring/uring.h"
#include "host/host.h"

UAIO_EXPORT int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);

/*
 * The next definition of this function (RTLD_NEXT); NULL until the library is loaded.
 */
static struct {
	int (*epoll_ctl)(int, int, int, struct epoll_event *);
} next;

void uaio_host_load_ringpoll(void)
{
	uaio_host_find("epoll_ctl", &next.epoll_ctl);
}

/*
 * Return: whether the memory is in the same page as this function's stack frame, and so
 * is readable. Many programs poll an array on their stack; for these no system call is
 * needed.
 */
static __attribute__((noinline)) bool is_near(uintptr_t addr,
					      unsigned long bytes)
{
	/* the smallest page size of any machine */
	enum { PAGE = 4096 };
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

	return addr / PAGE == frame / PAGE && bytes <= PAGE - addr % PAGE;
}

bool uaio_host_can_read(const void *addr, unsigned long bytes)
{
	if (likely(is_near((uintptr_t)addr, bytes)))
		return true;
	return uaio_is_accessible((uintptr_t)addr, bytes) &&
	       uaio_can_read((uintptr_t)addr, bytes);
}

/*
 * poll() of rings
 */

bool uaio_host_polls_rings(const struct pollfd *pfds, unsigned long nr)
{
	uaio_uring_bells_settle();
	return nr && nr <= UAIO_HOST_POLLED_MAX &&
	       uaio_host_can_read(pfds, nr * sizeof(*pfds)) &&
	       uaio_host_has_rings(pfds, nr);
}

bool uaio_host_has_rings(const struct pollfd *pfds, unsigned long nr)
{
	for (unsigned long i = 0; i < nr; i++)
		if (uaio_uring_is_known(pfds[i].fd))
			return true;
	return false;
}

void uaio_host_copy_polled(const struct pollfd *pfds, unsigned long nr,
			   struct uaio_host_polled *ret_polled)
{
	/*
	 * Read pfds only one time, as the kernel does: other threads may change them
	 * meanwhile.
	 */
	memcpy(ret_polled->pfds, pfds, nr * sizeof(*pfds));
	for (unsigned long i = 0; i < nr; i++) {
		struct pollfd *copy = &ret_polled->pfds[i];
		struct uaio_uring_bell bell = uaio_uring_bell_get(copy->fd);

		copy->fd = bell.fd;
		ret_polled->rings[i] = bell.ring;
		if (bell.is_full)
			copy->events &= (short)~(POLLOUT | POLLWRNORM);
	}
}

void uaio_host_answer_polled(struct pollfd *pfds, unsigned long nr, long ret,
			     const struct uaio_host_polled *polled)
{
	for (unsigned long i = 0; i < nr; i++) {
		if (ret >= 0)
			pfds[i].revents = polled->pfds[i].revents;
		uaio_uring_bell_put(polled->rings[i]);
	}
}

int uaio_host_add_polled(struct pollfd *pfds, unsigned long nr,
			 const struct pollfd *polled)
{
	int nr_ready = 0;

	for (unsigned long i = 0; i < nr; i++) {
		pfds[i].revents |= polled[i].revents;
		nr_ready += pfds[i].revents != 0;
	}
	return nr_ready;
}

static __attribute__((noinline)) long raw_poll_rings(long nr, const long a[5])
{
	struct pollfd *pfds = (struct pollfd *)a[0];
	struct uaio_host_polled polled;
	long ret;

	uaio_host_copy_polled(pfds, (unsigned long)a[1], &polled);
	ret = uaio_sys6(nr, (long)polled.pfds, a[1], a[2], a[3], a[4], 0);
	uaio_host_answer_polled(pfds, (unsigned long)a[1], ret, &polled);
	return ret;
}

long uaio_host_raw_poll(long nr, const long a[5])
{
	if (unlikely(uaio_uring_has_rings()) &&
	    uaio_host_polls_rings((const struct pollfd *)a[0],
				  (unsigned long)a[1]))
		return raw_poll_rings(nr, a);
	return uaio_sys6(nr, a[0], a[1], a[2], a[3], a[4], 0);
}

/*
 * epoll_ctl() of rings
 */

long uaio_host_raw_epoll(long nr, const long a[6])
{
	uaio_uring_bells_settle();
	return uaio_sys6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

long uaio_host_raw_epoll_ctl(const long a[4])
{
	int ret = uaio_uring_epoll_ctl((int)a[0], (int)a[1], (int)a[2],
				       (struct epoll_event *)a[3]);

	return ret <= 0
		       ? ret
		       : uaio_sys6(SYS_epoll_ctl, a[0], a[1], a[2], a[3], 0, 0);
}

int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	int ret = 1;

	if (unlikely(uaio_uring_has_rings()))
		ret = uaio_uring_epoll_ctl(epoll, op, fd, event);
	if (ret <= 0)
		return (int)uaio_host_error(ret);
	if (likely(next.epoll_ctl))
		return next.epoll_ctl(epoll, op, fd, event);
	return (int)uaio_host_error(
		uaio_sys6(SYS_epoll_ctl, epoll, op, fd, (long)event, 0, 0));
}
