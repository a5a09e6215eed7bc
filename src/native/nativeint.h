/* SPDX-License-Identifier: MIT */
/*
 * Internal header: declarations that native.c, suits.c and rings.c share, and others
 * that driver.c and line.c share
 */
#ifndef UAIO_NATIVE_NATIVEINT_H
#define UAIO_NATIVE_NATIVEINT_H

#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/slab.h"
#include "req/req.h"
#include "native/native.h"
#include "proc/poller.h"
#include "op/op.h"
#include "native/driver.h"
#include "native/krings.h"

struct uaio_kaio_ring;

/* If the kernel refuses requests, the library tries the kernel again after this time. */
#define UAIO_NATIVE_AGAIN_NS INT64_C(1000000000)

struct uaio_native {
	struct uaio_slab_node slab;

	/* `ring` and `group` do not change while a queue uses this struct */
	struct uaio_kaio_ring *ring; /* owns */
	/* borrowed: the queue gives this ring back before its group is freed */
	struct uaio_group *group;

	/* atomic */
	/*
	 * number of requests that were submitted, or are about to be, and whose
	 * completion was not taken yet
	 */
	uint32_t nr;
	/* the program has closed event_fd: submit no more requests */
	uint32_t is_lost;
	/*
	 * owned by this struct: an eventfd that the kernel signals with each completion
	 */
	int event_fd;
	/* how many workers are in a submitting call, which uses event_fd */
	uint32_t nr_blocking;
	/*
	 * how many of the requests counted in `nr` were submitted by workers, or are
	 * about to be
	 */
	uint32_t nr_by_workers;

	/* node of the list rings.used or rings.idle, under the lock of rings.c */
	struct list node;

	/* rank NATIVE: held while completions are taken */
	struct uaio_lock lock;
};

/* Return: the ring of the group's queue, or NULL. */
static inline struct uaio_native *uaio_native_of(const struct uaio_group *group)
{
	/*
	 * [MB:native] acquire: this thread sees the ring's members. Pairs with
	 * attach_locked().
	 */
	return load_acquire(&group->native);
}

/*
 * Return: whether req was submitted without RWF_NOWAIT, so that the kernel may wait.
 */
static inline bool uaio_native_was_blocking(const struct uaio_req *req)
{
	return req->native != UAIO_KERNEL_HAS_NOT;
}

/*
 * Derive the result of req from the kernel's result res. Also record in req->file what
 * res means for later requests of the file.
 * Return: the result; -EAGAIN if a worker must execute the request. The kernel has then
 * not executed it, or only in part: with RWF_NOWAIT it may stop where it would wait.
 */
int64_t uaio_native_result_of(const struct uaio_req *req, int64_t res);

/*
 * Return: the time until which no requests are submitted, because the kernel has
 * refused some; 0: requests may be submitted.
 */
int64_t uaio_natives_again_ns(void);

void uaio_native_rings_init(void);
#ifdef UAIO_TESTING
void uaio_native_rings_reset(void); /* under the lock */
#endif

/*
 * Return: the time until which no ring is made, because the kernel has refused one; 0:
 * a ring may be made.
 */
int64_t uaio_native_rings_again_ns(void);

/*
 * Called before and after a system call that submits requests. After
 * uaio_natives_begin(), the caller first counts the requests in nr_native of their
 * files. When uaio_natives_end() is called, the kernel has looked up the requests'
 * descriptors, so other threads may close them.
 */
void uaio_natives_begin(void);
void uaio_natives_end(void);

/*
 * Wait for the end of the submitting calls that have begun. Mostly they end soon. A
 * write without RWF_NOWAIT waits in its call until the file system has found free
 * blocks for it.
 */
void uaio_natives_await_calls(void);

/* driver.c: the driver's thread (driver.h); line.c: the list of requests for it */

enum {
	/* The most requests that the driver submits in one call */
	UAIO_DRIVER_BATCH = 64,
	/*
	 * The most requests that may be on the list or with the kernel, together (I6 of
	 * driver.h)
	 */
	UAIO_DRIVER_ROOM = 2048,
};

extern struct uaio_driver {
	/* atomic: after a refusal, the kernel gets no requests until this time */
	int64_t again_ns;
	/*
	 * atomic: when the driver's present submitting call began; 0: it makes none
	 */
	int64_t call_since_ns;
	uint64_t nr_executed; /* atomic: statistics */

	/* the epoll in which the driver sleeps */
	struct uaio_poller poller;
	/*
	 * if a submitting call lasts longer than this, which is rare, the driver counts
	 * as held up, and workers execute the requests on the list
	 */
	int64_t patience_ns;

	struct uaio_lock lock; /* rank DRIVER */
	/* under lock */
	struct list lined;
	/* atomic: length of the list `lined`; also read without the lock, as a hint */
	uint32_t nr_lined;
	/*
	 * number of requests with the kernel, including those that are just being
	 * submitted
	 */
	uint32_t nr_with_kernel;
	bool has_thread;
	/*
	 * identity (credentials) of the driver, which submits only requests of the same
	 * identity
	 */
	uint32_t identity;
	bool is_asleep;
	/* for tests: the driver ends as soon as it has no requests */
	bool ends;
	/*
	 * The kernel's io_uring. The thread that starts the driver makes it; the driver
	 * then uses its own copy of this struct.
	 */
	struct uaio_kuring ring;
} uaio_driver;

static inline void uaio_driver_lock(void)
{
	uaio_lock(&uaio_driver.lock, UAIO_RANK_DRIVER);
}

static inline void uaio_driver_unlock(void)
{
	uaio_unlock(&uaio_driver.lock, UAIO_RANK_DRIVER);
}

/*
 * Return: the IORING_OP_* for the operation; -1 if the driver does not execute it.
 */
int uaio_driver_opcode_of(enum uaio_op op);

/*
 * The kernel has refused a ring, or requests, with `error`: store the time before which
 * it is not tried again.
 */
void uaio_driver_note_refusal(int error);

/* The main function of the driver's thread */
void *uaio_driver_main(void *arg);

#endif /* UAIO_NATIVE_NATIVEINT_H */
