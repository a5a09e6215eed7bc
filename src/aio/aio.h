/* SPDX-License-Identifier: MIT */
/*
 * The six system calls of kernel AIO
 *
 * They have the kernel's arguments, and return the result or a negative error number.
 * libaio's functions and the interposed syscall(2) call them.
 *
 * Context: any thread. In a signal handler that interrupted the library they return -EAGAIN.
 * errno is unchanged.
 *
 * Tested by src/ready/test-waiter.c, test-ctx.c and test/conform/.
 */
#ifndef UAIO_AIO_AIO_H
#define UAIO_AIO_AIO_H

#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "aio/ring.h"

/* The last argument of io_pgetevents. */
struct uaio_aio_sigset {
	const void *mask;
	size_t mask_bytes;
};

/* Mirrors io_setup(2): EFAULT, EINVAL, EAGAIN, ENOMEM. */
long uaio_aio_setup(uint32_t nr_events, uint64_t *handlep);

/* Mirrors io_destroy(2): EINVAL. */
long uaio_aio_destroy(uint64_t handle);

/*
 * Mirrors io_submit(2). Return: how many requests were accepted; or EINVAL, EFAULT, EBADF,
 * EAGAIN and any other error that refuses the first request.
 */
long uaio_aio_submit(uint64_t handle, long nr, struct iocb **iocbs);

/* Mirrors io_cancel(2): EINPROGRESS, EINVAL, EFAULT. */
long uaio_aio_cancel(uint64_t handle, struct iocb *iocb);

/*
 * Mirror io_getevents(2) and io_pgetevents(2). Return: how many events were stored; or
 * EINVAL, EFAULT, EINTR.
 */
long uaio_aio_getevents(uint64_t handle, long min_nr, long nr,
			struct uaio_event *events,
			const struct timespec *timeout);
long uaio_aio_pgetevents(uint64_t handle, long min_nr, long nr,
			 struct uaio_event *events,
			 const struct timespec *timeout,
			 const struct uaio_aio_sigset *sigset);

/*
 * Read what the kernel shows in /proc/sys/fs/aio-nr and aio-max-nr, but for this process.
 * *ret_max is 0 if there is no limit. Return: false in a signal handler that interrupted the
 * library.
 */
bool uaio_aio_read_quota(uint64_t *ret_nr, uint64_t *ret_max);

/* Return: whether handle names a context without unread events. */
bool uaio_aio_is_empty(uint64_t handle);

#endif /* UAIO_AIO_AIO_H */
