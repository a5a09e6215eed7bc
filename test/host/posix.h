/* SPDX-License-Identifier: MIT */
/*
 * The functions of host.h, implemented by POSIX AIO. With HOST_DOOR=posix in the
 * environment the cases use aio_read and its like.
 *
 * A context is an array of aiocbs. POSIX AIO has no poll, so the functions read one
 * byte instead; host_take_polled() then does nothing. aio_suspend waits only for the
 * requests in its list, not for later ones. HOST_DOOR=shared is for cases in which one
 * thread submits and another reaps: the reaping thread's aio_suspend then gets a
 * timeout, so that it repeatedly finds the requests submitted meanwhile.
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
