/* SPDX-License-Identifier: MIT */
/*
 * A block device that holds back writes until the test releases them
 *
 * The device is a loop device, backed by a file of a slow file system (slowfs.h). On a
 * loop device, the kernel executes direct I/O asynchronously, as on a disk: io_submit
 * returns while the device holds back the write.
 *
 * The device exists until the process that opened it ends. The kernel then removes the
 * loop device and its backing file, even if the test crashed.
 */
#ifndef HOST_DEVICE_H
#define HOST_DEVICE_H

#include "host.h"

enum { DEVICE_BLOCKS = 8192 };

struct host_device {
	struct slowfs *fs; /* owns */
	int loop;          /* owns: the device */
	int file;          /* owns: its backing file */
	char path[32];
};

/* Skip the test if no loop device can be created. */
struct host_device host_device_open(void);
void host_device_close(struct host_device *device);

/* Open the device again, with O_DIRECT. Return: the file descriptor. */
int host_device_direct(const struct host_device *device);

/*
 * Submit nr writes: block i to position i of the device. Return when the device has
 * received the first write, and delays it.
 */
void host_device_write(struct host_device *device, aio_context_t ctx, int fd,
		       unsigned nr);
/*
 * A context, and a descriptor of a device. host_device_hold() creates the context with
 * room for four times nr requests. Then it submits nr writes, which the device holds.
 */
struct host_held {
	aio_context_t ctx;
	int fd;
};

struct host_held host_device_hold(struct host_device *device, unsigned nr);
/*
 * Destroy the context and close the descriptor. All writes must have completed.
 */
void host_held_drop(const struct host_held *held);

/*
 * Check that the device begins with the nr written blocks, then overwrite these with
 * zeros.
 */
void host_device_check(struct host_device *device, unsigned nr);

#endif /* HOST_DEVICE_H */
