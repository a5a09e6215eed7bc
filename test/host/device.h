/* SPDX-License-Identifier: MIT */
/*
 * A block device whose writes wait until the test lets them go
 *
 * A loop device on a file of a slow file system (slowfs.h). Unlike that, it is a
 * device on which the kernel executes direct I/O asynchronously, as on any disk:
 * io_submit returns while the write is held.
 *
 * The process that opens it keeps it; what is opened from its path is closed when
 * that process ends. Nothing is left of either, whatever ends the test.
 */
#ifndef HOST_DEVICE_H
#define HOST_DEVICE_H

#include "host.h"

enum { DEVICE_BLOCKS = 8192 };

struct host_device {
	struct slowfs *fs; /* owns */
	int loop;          /* owns: the device */
	int file;          /* owns: what it lies on */
	char path[32];
};

/* Skips where there can be none. */
struct host_device host_device_open(void);
void host_device_close(struct host_device *device);

/* Open it again, with O_DIRECT. */
int host_device_direct(const struct host_device *device);

/* Submit nr writes, of block i at place i, and return when the first is held. */
void host_device_write(struct host_device *device, aio_context_t ctx, int fd,
		       unsigned nr);
/* A context of 4 * nr requests, and a descriptor with nr such writes. */
struct host_held {
	aio_context_t ctx;
	int fd;
};

struct host_held host_device_hold(struct host_device *device, unsigned nr);
/* Its writes are complete. */
void host_held_drop(const struct host_held *held);

/* The device begins with nr such blocks; make them blank. */
void host_device_check(struct host_device *device, unsigned nr);

#endif /* HOST_DEVICE_H */
