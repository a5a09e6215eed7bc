/* SPDX-License-Identifier: MIT */
/*
 * Native requests, inside: what native.c, suits.c and rings.c share, and what driver.c
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
#include "proc/poller.h"
#include "op/op.h"
#include "native/driver.h"
#include "native/krings.h"

struct uaio_kaio_ring;

/* How long after a refusal the kernel is tried again */
#define UAIO_NATIVE_AGAIN_NS INT64_C(1000000000)

struct uaio_native {
	struct uaio_slab_node slab;

	/* immutable while a queue has it */
	struct uaio_kaio_ring *ring; /* owns */
	struct uaio_group *group; /* borrows: the group gives the ring back */

	/* atomic */
	uint32_t nr; /* requests submitted, or about to be, and not taken */
	/* the program has closed event_fd: submit no more */
	uint32_t is_lost;
	int event_fd;         /* owns: signalled with each completion */
	uint32_t nr_blocking; /* calls of workers that are using event_fd */
	/* of nr: submitted by workers, or about to be */
	uint32_t nr_by_workers;

	struct list node; /* under the lock of rings.c: in used or idle */

	struct uaio_lock lock; /* rank NATIVE: held to take completions */
};

/* Return: the group's ring, or NULL. */
static inline struct uaio_native *uaio_native_of(const struct uaio_group *group)
{
	/* [MB:native] acquire: pairs with attach_locked(). */
	return load_acquire(&group->native);
}

/* Return: whether req was submitted so that the kernel may wait. */
static inline bool uaio_native_was_blocking(const struct uaio_req *req)
{
	return req->native != UAIO_KERNEL_HAS_NOT;
}

/*
 * Learn from the kernel's result res of req, for later requests of its file.
 * Return: the result; -EAGAIN if a worker must execute the request. It was then not
 * executed, or only in part: with RWF_NOWAIT a kernel may stop where it would have to
 * wait.
 */
int64_t uaio_native_result_of(const struct uaio_req *req, int64_t res);

/*
 * Return: the time before which the kernel takes no request; 0: it may take requests
 * now.
 */
int64_t uaio_natives_again_ns(void);

void uaio_native_rings_init(void);
#ifdef UAIO_TESTING
void uaio_native_rings_reset(void); /* under the lock */
#endif

/*
 * Return: the time before which the kernel is asked for no ring; 0: it may be asked
 * now.
 */
int64_t uaio_native_rings_again_ns(void);

/*
 * Called around a system call that submits. The requests are counted in their files
 * after _begin(); the kernel has looked up their descriptors before _end().
 */
void uaio_natives_begin(void);
void uaio_natives_end(void);

/*
 * Wait until the submitting calls that have begun are over. That is soon, or, in calls
 * that wait for blocks, when the disk has said where blocks are free.
 */
void uaio_natives_await_calls(void);

/* driver.c, the driver's thread (driver.h), and line.c, the requests lined up for it */

enum {
	/* The most requests that one call submits */
	UAIO_DRIVER_BATCH = 64,
	/*
	 * The most requests that are lined or with the kernel, together (I6 of
	 * driver.h)
	 */
	UAIO_DRIVER_ROOM = 2048,
};

extern struct uaio_driver {
	/* atomic: the kernel is asked for no ring until then */
	int64_t again_ns;
	/* atomic: when the driver entered a call that submits; 0: it is in none */
	int64_t call_since_ns;
	uint64_t nr_executed; /* atomic: statistics */

	struct uaio_poller poller; /* the driver sleeps there */
	/* how long a submitting call takes at most, as a rule */
	int64_t patience_ns;

	struct uaio_lock lock; /* rank DRIVER */
	/* under lock */
	struct list lined;
	uint32_t nr_lined;       /* atomic: read without the lock as a hint */
	uint32_t nr_with_kernel; /* includes those being submitted */
	bool has_thread;
	uint32_t identity; /* the thread's; it submits no other's requests */
	bool is_asleep;
	bool ends;               /* for tests: end as soon as it is idle */
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

/* Note that the kernel has refused a ring, or requests, with error. */
void uaio_driver_note_refusal(int error);

/* The main function of the thread. */
void *uaio_driver_main(void *arg);

#endif /* UAIO_NATIVE_NATIVEINT_H */
