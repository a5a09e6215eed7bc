/* SPDX-License-Identifier: MIT */
/*
 * What driver.c, the thread, and line.c, what is lined up for it, share
 */
#ifndef UAIO_NATIVE_DRIVERINT_H
#define UAIO_NATIVE_DRIVERINT_H

#include "base/list.h"
#include "base/lock.h"
#include "proc/poller.h"
#include "op/op.h"
#include "native/driver.h"
#include "native/krings.h"

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

#endif /* UAIO_NATIVE_DRIVERINT_H */
