/* SPDX-License-Identifier: MIT */
/*
 * Functions that take a context's handle
 *
 * These functions take a handle, which may be any value. They return what the kernel's
 * calls would, errors as negative numbers, and leave errno unchanged.
 *
 * Context: any thread that is inside the library (uaio_enter(), proc/entry.h), while
 * the library is started.
 */
#ifndef UAIO_AIO_HANDLE_H
#define UAIO_AIO_HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ready/waiter.h"

struct uaio_event;

/* Return: the sum of nr_events of all contexts of this process. */
uint64_t uaio_ctx_nr_events(void);

/*
 * Create a context. Works like io_setup(2).
 * Return: 0; -EINVAL if nr_events is 0 or needs too large a ring; -EAGAIN if nr_events
 * exceeds the quota; -ENOMEM.
 */
int uaio_ctx_setup(uint32_t nr_events, uint64_t *ret_handle);

/*
 * Destroy a context: cancel its requests that may wait for ever, and wait until no
 * request is in flight. Works like io_destroy(2).
 * Return: 0, or -EINVAL if `handle` names no context.
 */
int uaio_ctx_destroy(uint64_t handle);

/*
 * Cancel the request that was submitted with the iocb at obj. Works like io_cancel(2).
 * Return: -EINPROGRESS if the request was cancelled; -EINVAL if there is no such request,
 * or it cannot be cancelled.
 */
int uaio_ctx_cancel(uint64_t handle, uint64_t obj);

/*
 * Cancel pending requests:
 *  - uaio_ctx_cancel_one(): the oldest one that was submitted with the iocb at obj,
 *  - uaio_ctx_cancel_fd(): all that were submitted with fd, while fd referred to the same
 *    open file as now,
 *  - uaio_ctx_cancel_all(): all.
 *
 * When the function returns, each cancelled request has its event.
 * Return: uaio_ctx_cancel_one(): 0; the other two functions: the number of cancelled
 * requests, at least 1. -EALREADY if other threads are executing or submitting all
 * matching requests; -ENOENT if none matches; -EINVAL if `handle` names no context.
 */
int uaio_ctx_cancel_one(uint64_t handle, uint64_t obj);
int uaio_ctx_cancel_fd(uint64_t handle, int fd);
int uaio_ctx_cancel_all(uint64_t handle);

struct uaio_getevents {
	long min_nr;
	long nr;
	struct uaio_wait wait;
	/* --strict: before storing events, check that the memory can be written */
	bool is_strict;
};

/*
 * Reap events, and wait for min_nr of them. Works like io_pgetevents(2). The caller has
 * checked that 0 <= min_nr <= nr.
 * Return: the number of events stored to ret_events; -EINVAL if `handle` names no
 * context; -EINTR; -EFAULT if there are events but they cannot be stored: then they stay
 * in the ring.
 */
long uaio_ctx_getevents(uint64_t handle, struct uaio_event *ret_events,
			const struct uaio_getevents *call);

/*
 * The client calls mremap(2). If there is a ring at `old`, do what the kernel does: move
 * the ring, leave it where it is, or fail.
 * Return: false if there is no ring at `old`: nothing was done. Otherwise true; *ret_addr
 * is then the result of mremap(2): an address or a negative error number.
 */
bool uaio_ctx_mremap(uint64_t old, size_t old_bytes, size_t new_bytes,
		     int flags, uint64_t new_addr, int64_t *ret_addr);

/*
 * The client calls munmap(2). If there is a ring at addr, make the context's handle
 * invalid, as the kernel does. The memory of the ring stays mapped.
 * Return: false if there is no ring at addr: nothing was done.
 */
bool uaio_ctx_munmap(uint64_t addr);

/*
 * Return: whether `handle` names a context, and the context's ring has no unread events.
 */
bool uaio_ctx_is_empty(uint64_t handle);

#endif /* UAIO_AIO_HANDLE_H */
