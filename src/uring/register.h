/* SPDX-License-Identifier: MIT */
/*
 * The parts of io_uring_register()
 *
 * Tested by test-uring-register.c.
 */
#ifndef UAIO_URING_REGISTER_H
#define UAIO_URING_REGISTER_H

#include <stddef.h>
#include <stdint.h>

#include "uring/abi.h"

struct uaio_uring;

/*
 * Addresses are the client's; that of the tags may be 0: there are none. If the other
 * is 0, all places are empty. Return: as the call.
 */
long uaio_uring_register_buffers(struct uaio_uring *ring, uint64_t iovs,
				 uint32_t nr, uint64_t tags);
long uaio_uring_update_buffers(struct uaio_uring *ring,
			       const struct io_uring_rsrc_update2 *update,
			       uint32_t nr);

/*
 * Read one of an array of values of the client's, which may be absent.
 * Return: 0 or -EFAULT.
 */
int uaio_uring_read_one(uint64_t array, uint32_t i, void *ret, size_t bytes);
/* Return: 0; why so many places from first on are not in a table of that size. */
int uaio_uring_check_places(uint32_t size, uint32_t first, uint32_t nr);

/* rsrc.c: IORING_REGISTER_CLONE_BUFFERS. */
long uaio_uring_clone_buffers(struct uaio_uring *ring, const void *arg,
			      uint32_t nr);

/* IORING_REGISTER_PROBE */
long uaio_uring_probe(void *arg, uint32_t nr);
/* IORING_REGISTER_QUERY, which takes no ring. */
long uaio_uring_query(void *arg, uint32_t nr);

/* setup.c: IORING_REGISTER_RESIZE_RINGS */
long uaio_uring_resize(struct uaio_uring *ring, void *arg, uint32_t nr);

/* IORING_REGISTER_IOWQ_MAX_WORKERS: the work queue's limits, for all rings. */
long uaio_uring_limit_workers(void *arg, uint32_t nr);
/* IORING_REGISTER_IOWQ_AFF, and the contrary: its workers, also for all rings. */
long uaio_uring_bind_workers(const void *arg, uint32_t bytes);
long uaio_uring_unbind_workers(const void *arg, uint32_t bytes);
/* cancel.c: IORING_REGISTER_SYNC_CANCEL: the ring is used, but not held. */
long uaio_uring_sync_cancel(struct uaio_uring *ring, const void *arg,
			    uint32_t nr);

#endif /* UAIO_URING_REGISTER_H */
