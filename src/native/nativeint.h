/* SPDX-License-Identifier: MIT */
/*
 * Native requests, inside: what native.c, suits.c and rings.c share with each other, and
 * driver.c with line.c
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
#ifdef UAIO_TESTING
void uaio_native_rings_reset(void); /* under the lock */
#endif

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

/* driver.c, the thread of the driver (driver.h), and line.c, what is lined up for it */

enum {
	/* Requests that one call submits at most. */
	UAIO_DRIVER_BATCH = 64,
	/* Those that are lined and with the kernel together (I6). */
	UAIO_DRIVER_ROOM = 2048,
};

extern struct uaio_driver {
	/* atomic: the kernel is asked for no ring until then */
	int64_t again_ns;
	/* atomic: since when the driver is in a call that submits; or 0 */
	int64_t call_since_ns;
	uint64_t nr_executed; /* atomic: statistics */

	struct uaio_poller poller; /* the driver sleeps there */
	int64_t patience_ns;       /* how long a call lasts as a rule */

	struct uaio_lock lock; /* rank DRIVER */
	/* under lock */
	struct list lined;
	uint32_t nr_lined;       /* atomic: peeked at */
	uint32_t nr_with_kernel; /* those that are being submitted as well */
	bool has_thread;
	uint32_t identity; /* of the thread: it submits no other's requests */
	bool is_asleep;
	bool ends;               /* for tests: it does not stay idle */
	struct uaio_kuring ring; /* for the driver that has just been started */
} uaio_driver;

static inline void uaio_driver_lock(void)
{
	uaio_lock(&uaio_driver.lock, UAIO_RANK_DRIVER);
}

static inline void uaio_driver_unlock(void)
{
	uaio_unlock(&uaio_driver.lock, UAIO_RANK_DRIVER);
}

/* Return: the kernel's number of the operation, or -1. */
int uaio_driver_opcode_of(enum uaio_op op);

/* The kernel has refused a ring, or requests, with that error. */
void uaio_driver_note_refusal(int error);

/* The main function of the thread. */
void *uaio_driver_main(void *arg);

#endif /* UAIO_NATIVE_NATIVEINT_H */
