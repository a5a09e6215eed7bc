/* SPDX-License-Identifier: MIT */
/*
 * Functions that take a context's handle
 *
 * A handle may be any value. The functions return what the kernel's calls would, as a
 * negative error number, and leave errno unchanged.
 *
 * Context: any thread that has entered (entry.h), while the engine is up.
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
 * Create a context. Mirrors io_setup(2).
 * Return: 0; -EINVAL if nr_events is 0 or needs too large a ring; -EAGAIN if it
 * exceeds the quota; -ENOMEM.
 */
int uaio_ctx_setup(uint32_t nr_events, uint64_t *ret_handle);

/*
 * Destroy a context: cancel parked requests, and wait until no request is in flight. Mirrors
 * io_destroy(2).
 * Return: 0, or -EINVAL if handle names no context.
 */
int uaio_ctx_destroy(uint64_t handle);

/*
 * Cancel the request that was submitted with the iocb at obj. Mirrors io_cancel(2).
 * Return: -EINPROGRESS if the request completes as cancelled; -EINVAL if there is none, or it
 * cannot be stopped.
 */
int uaio_ctx_cancel(uint64_t handle, uint64_t obj);

/*
 * Cancel, in the order of the declarations, the oldest pending request that was submitted
 * with the iocb at obj; all pending requests that were submitted by fd on the open file to
 * which it refers now; all pending requests. Each cancelled request has its event when the
 * function returns.
 * Return: uaio_ctx_cancel_one(): 0; the others: the number of cancelled requests, at least 1.
 * -EALREADY if other threads are executing or submitting all matching requests; -ENOENT if
 * none matches; -EINVAL if handle names no context.
 */
int uaio_ctx_cancel_one(uint64_t handle, uint64_t obj);
int uaio_ctx_cancel_fd(uint64_t handle, int fd);
int uaio_ctx_cancel_all(uint64_t handle);

struct uaio_getevents {
	long min_nr;
	long nr;
	struct uaio_wait wait;
	/* check that the memory to which events are stored can be written */
	bool is_strict;
};

/*
 * Reap events, and wait for min_nr of them. Mirrors io_pgetevents(2). The
 * caller has checked that 0 <= min_nr <= nr.
 * Return: the number of events stored to ret_events; -EINVAL if handle names no
 * context; -EINTR; -EFAULT if there are events and they cannot be stored, in
 * which case they stay in the ring.
 */
long uaio_ctx_getevents(uint64_t handle, struct uaio_event *ret_events,
			const struct uaio_getevents *call);

/*
 * The client calls mremap(2), perhaps on a ring. If the arguments request a move, the ring
 * moves.
 * Return: false if there is no ring at old: nothing was done. Otherwise true, with the result
 * of mremap(2), an address or a negative error number, in ret_addr.
 */
bool uaio_ctx_mremap(uint64_t old, size_t old_bytes, size_t new_bytes,
		     int flags, uint64_t new_addr, int64_t *ret_addr);

/*
 * The client calls munmap(2), perhaps on a ring. The context's handle becomes invalid, as with
 * the kernel, but the memory of its ring stays mapped.
 * Return: false if there is no ring at addr: nothing was done.
 */
bool uaio_ctx_munmap(uint64_t addr);

/* Return: whether handle names a context without unread events. */
bool uaio_ctx_is_empty(uint64_t handle);

#endif /* UAIO_AIO_HANDLE_H */
