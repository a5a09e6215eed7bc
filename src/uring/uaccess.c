/* SPDX-License-Identifier: MIT */
/*
 * Memory of the client, where the kernel would answer EFAULT
 *
 * It is always probed: in the kernel no address of a client's does more harm than
 * that its request fails. (What reads and writes move is for the kernel to touch.)
 *
 * Tested by test-uring-setup.c and test-uring-register.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/sys.h"
#include "base/uaddr.h"
#include "uring/calls.h"
#include "uring/submit.h"

bool uaio_uring_may_read(uint64_t addr, size_t bytes)
{
	return uaio_is_accessible(addr, bytes) && uaio_can_read(addr, bytes);
}

bool uaio_uring_may_use(int fd)
{
	int flags = sys_fcntl(fd, F_GETFL, 0);

	return flags >= 0 && !(flags & O_PATH);
}

int uaio_uring_copy_in(void *to, uint64_t from, size_t bytes)
{
	if (!uaio_uring_may_read(from, bytes))
		return -EFAULT;
	memcpy(to, (const void *)(uintptr_t)from, bytes);
	return 0;
}

int uaio_uring_copy_out(uint64_t to, const void *from, size_t bytes)
{
	if (!uaio_is_accessible(to, bytes) || !uaio_can_write(to, bytes))
		return -EFAULT;
	memcpy((void *)(uintptr_t)to, from, bytes);
	return 0;
}

int uaio_uring_clear(uint64_t to, size_t bytes)
{
	if (!bytes)
		return 0;
	if (!uaio_is_accessible(to, bytes) || !uaio_can_write(to, bytes))
		return -EFAULT;
	memset((void *)(uintptr_t)to, 0, bytes);
	return 0;
}
