/* SPDX-License-Identifier: MIT */
/*
 * The calls of host.h by POSIX AIO: with HOST_DOOR=posix in the environment the
 * cases are clients of aio_read and its like
 *
 * A context is an array of aiocbs. There is no poll: one byte is read in its place,
 * which host_take_polled() takes into account. With HOST_DOOR=shared a thread that
 * reaps looks now and then for what another has submitted: aio_suspend waits for
 * what it was given.
 */
#ifndef HOST_POSIX_H
#define HOST_POSIX_H

#include <linux/aio_abi.h>
#include <stdbool.h>

long posix_setup(unsigned nr, aio_context_t *ret_ctx);
long posix_submit(aio_context_t ctx, const struct iocb *iocb);
long posix_reap(aio_context_t ctx, long nr, struct io_event *events);
long posix_destroy(aio_context_t ctx);

#endif /* HOST_POSIX_H */
