/* SPDX-License-Identifier: MIT */
/*
 * The memory region of a ring (IORING_REGISTER_MEM_REGION), in which a client may
 * have the arguments of its waits: then io_uring_enter() is told only where in it
 *
 *   I1  A ring has one region at most, until it ends.
 *   I2  The memory is the client's, or it is part of the ring's file (memmap.h) and we map
 *       it as well as the client. Either may be written at any time: a wait copies its
 *       arguments once.
 *   I3  Waits find it only if it was registered before the ring was enabled, so no
 *       thread waits meanwhile.
 *
 * Tested by test-uring-region.c.
 */
#ifndef UAIO_URING_REGION_H
#define UAIO_URING_REGION_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_uring;
struct uaio_uring_reg_wait;

struct uaio_uring_region {
	/* of the thread that holds the ring */
	bool is_set;
	void *map; /* owns, if it is in the ring's file; or NULL */
	uint64_t bytes;

	/* atomic */
	uint64_t wait_at;    /* where waits find it */
	uint64_t wait_bytes; /* 0: they do not */
};

void uaio_uring_region_init(struct uaio_uring_region *region);
/* Nobody uses the ring any more. */
void uaio_uring_region_fini(struct uaio_uring_region *region);

/* Called by register.c. */
long uaio_uring_register_region(struct uaio_uring *ring, const void *arg,
				uint32_t nr);

/* Copy the arguments of a wait that are so far inside. Return: 0 or -EFAULT. */
int uaio_uring_region_read(const struct uaio_uring_region *region,
			   uint64_t offset,
			   struct uaio_uring_reg_wait *ret_wait);

#endif /* UAIO_URING_REGION_H */
