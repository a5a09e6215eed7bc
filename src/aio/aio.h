/* SPDX-License-Identifier: MIT */
/*
 * The six system calls of kernel AIO
 *
 * These functions have the arguments of the kernel's system calls, and return the result or
 * a negative error number. libaio's functions and the interposed syscall(2) call them.
 *
 * Context: any thread. In a signal handler that interrupted the library, the functions
 * return -EAGAIN. The functions leave errno unchanged.
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

/* Works like io_setup(2). Errors: EFAULT, EINVAL, EAGAIN, ENOMEM. */
long uaio_aio_setup(uint32_t nr_events, uint64_t *handlep);

/* Mirrors io_destroy(2): EINVAL. */
long uaio_aio_destroy(uint64_t handle);

/*
 * Works like io_submit(2).
 * Return: the number of accepted requests. If even the first request is refused: EINVAL,
 * EFAULT, EBADF, EAGAIN, or another error of that request.
 */
long uaio_aio_submit(uint64_t handle, long nr, struct iocb **iocbs);

/* Works like io_cancel(2). Errors: EINPROGRESS, EINVAL, EFAULT. */
long uaio_aio_cancel(uint64_t handle, struct iocb *iocb);

/*
 * Work like io_getevents(2) and io_pgetevents(2).
 * Return: the number of stored events; or EINVAL, EFAULT, EINTR.
 */
long uaio_aio_getevents(uint64_t handle, long min_nr, long nr,
			struct uaio_event *events,
			const struct timespec *timeout);
long uaio_aio_pgetevents(uint64_t handle, long min_nr, long nr,
			 struct uaio_event *events,
			 const struct timespec *timeout,
			 const struct uaio_aio_sigset *sigset);

/*
 * Get the values that the kernel shows in /proc/sys/fs/aio-nr and aio-max-nr, but for this
 * process only. *ret_max is 0 if there is no limit.
 * Return: false in a signal handler that interrupted the library.
 */
bool uaio_aio_read_quota(uint64_t *ret_nr, uint64_t *ret_max);

/*
 * Return: whether `handle` names a context, and the context's ring has no unread events.
 */
bool uaio_aio_is_empty(uint64_t handle);

#endif /* UAIO_AIO_AIO_H */
