/* SPDX-License-Identifier: MIT */
/*
 * Functions that liburing 2.3 declares but its shared library does not export.
 * liburing's tests need them to link with that library.
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <liburing.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

int io_uring_enable_rings(struct io_uring *ring)
{
	long ret = syscall(SYS_io_uring_register, ring->ring_fd,
			   IORING_REGISTER_ENABLE_RINGS, NULL, 0);

	return ret < 0 ? -errno : (int)ret;
}
