/* SPDX-License-Identifier: MIT */
#include "loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

int loop_attach(int file, char *ret_path, size_t bytes)
{
	struct loop_config config = {
		.fd = (uint32_t)file,
		.info.lo_flags = LO_FLAGS_AUTOCLEAR,
	};
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), loop = -1;

	while (control >= 0 && loop < 0) {
		snprintf(ret_path, bytes, "/dev/loop%d",
			 ioctl(control, LOOP_CTL_GET_FREE));
		loop = open(ret_path, O_RDWR | O_CLOEXEC);
		if (loop < 0)
			break;
		if (!ioctl(loop, LOOP_CONFIGURE, &config))
			break;
		close(loop);
		loop = -1;
		/*
		 * EBUSY: another process has attached a file to this loop device, so
		 * try the next device.
		 */
		if (errno != EBUSY)
			break;
	}
	if (control >= 0)
		close(control);
	return loop;
}
