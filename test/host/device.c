/* SPDX-License-Identifier: MIT */
#include "device.h"

#include <fcntl.h>
#include <unistd.h>

#include "loop.h"

struct host_device host_device_open(void)
{
	struct host_device device = { .fs = slowfs_start("slow") };

	if (!device.fs)
		host_skip("no file system can be mounted");
	device.file = open("slow/device", O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	REQUIRE(device.file >= 0);
	REQUIRE(!ftruncate(device.file, (off_t)DEVICE_BLOCKS * BLOCK));
	device.loop =
		loop_attach(device.file, device.path, sizeof(device.path));
	if (device.loop < 0)
		host_skip("there is no loop device");
	return device;
}

void host_device_close(struct host_device *device)
{
	REQUIRE(close(device->loop) == 0 && close(device->file) == 0);
	slowfs_stop(device->fs);
}

int host_device_direct(const struct host_device *device)
{
	int fd = open(device->path, O_RDWR | O_DIRECT | O_CLOEXEC);

	REQUIRE(fd >= 0);
	return fd;
}

void host_device_write(struct host_device *device, aio_context_t ctx, int fd,
		       unsigned nr)
{
	slowfs_hold(device->fs, SLOWFS_WRITE);
	host_write_blocks(ctx, fd, 0, nr);
	slowfs_await(device->fs, SLOWFS_WRITE, 1);
}

struct host_held host_device_hold(struct host_device *device, unsigned nr)
{
	struct host_held held = { host_context(4 * nr),
				  host_device_direct(device) };

	host_device_write(device, held.ctx, held.fd, nr);
	return held;
}

void host_held_drop(const struct host_held *held)
{
	REQUIRE(host_destroy(held->ctx) == 0 && close(held->fd) == 0);
}

void host_device_check(struct host_device *device, unsigned nr)
{
	static const char blank[BLOCK];

	host_check_start(device->file, nr);
	for (unsigned i = 0; i < nr; i++)
		REQUIRE(pwrite(device->file, blank, BLOCK, (off_t)i * BLOCK) ==
			BLOCK);
}
