/* SPDX-License-Identifier: MIT */
/*
 * What native.c, of requests with the kernel, suits.c, rings.c, driver.c
 * and line.c share
 */
#ifndef UAIO_NATIVE_NATIVEINT_H
#define UAIO_NATIVE_NATIVEINT_H

#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/slab.h"
#include "req/req.h"
#include "native/native.h"

struct uaio_kaio_ring;

/* When to ask again after a refusal. */
#define UAIO_NATIVE_AGAIN_NS INT64_C(1000000000)

struct uaio_native {
	struct uaio_slab_node slab;

	/* immutable while a queue has it */
	struct uaio_kaio_ring *ring; /* owns */
	struct uaio_group *group;    /* borrows: gives it back */

	/* atomic */
	uint32_t nr; /* requests submitted, or about to be, and not taken */
	uint32_t
		is_lost; /* the program has closed event_fd: no more requests */
	int event_fd;    /* owns: signalled with each completion */
	uint32_t nr_blocking;   /* calls by workers; event_fd is in use */
	uint32_t nr_by_workers; /* of nr, those of workers, or about to be */

	struct list node; /* under the lock of rings.c: in used or idle */

	struct uaio_lock lock; /* rank NATIVE: of taking completions */
};

/* Return: the group's ring, or NULL. */
static inline struct uaio_native *uaio_native_of(const struct uaio_group *group)
{
	/* [MB:native] acquire: pairs with attach_locked(). */
	return load_acquire(&group->native);
}

/* Return: whether it was submitted so that the kernel may wait. */
static inline bool uaio_native_was_blocking(const struct uaio_req *req)
{
	return req->native != UAIO_KERNEL_HAS_NOT;
}

/*
 * req has this result of the kernel's, which is noted of its file.
 * Return: the result, or -EAGAIN if a worker is to execute the request: it was
 * not executed, or in part, which a kernel may do with RWF_NOWAIT where it would
 * have waited for the rest.
 */
int64_t uaio_native_result_of(const struct uaio_req *req, int64_t res);

/* Return: the time before which the kernel takes no request; 0: any. */
int64_t uaio_natives_again_ns(void);

void uaio_native_rings_init(void);

/* Return: the time before which no ring is asked for; 0: at once. */
int64_t uaio_native_rings_again_ns(void);

/*
 * Around a call that submits: the requests are counted in their files after the first,
 * and the kernel has looked their descriptors up before the second.
 */
void uaio_natives_begin(void);
void uaio_natives_end(void);

/*
 * Wait until the submitting calls that have begun are over, which is soon, or when a disk
 * has told where there are free blocks.
 */
void uaio_natives_await_calls(void);

#endif /* UAIO_NATIVE_NATIVEINT_H */
