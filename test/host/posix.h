/* SPDX-License-Identifier: MIT */
/*
 * The functions of host.h, implemented by POSIX AIO. With HOST_DOOR=posix in the
 * environment the cases use aio_read and its like.
 *
 * A context is an array of aiocbs. POSIX AIO has no poll, so the functions read one
 * byte instead; host_take_polled() then does nothing. aio_suspend waits only for the
 * requests in its list, not for later ones. So with HOST_DOOR=shared a reaping thread
 * looks again, at intervals, for requests that another thread submitted.
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
