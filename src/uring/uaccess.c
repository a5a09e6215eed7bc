/* SPDX-License-Identifier: MIT */
/*
 * Access to the client's memory, where the kernel would return EFAULT for a bad address
 *
 * The library first probes each address (uaio_can_read(), uaio_can_write()). So a bad
 * address only makes the request fail, as in the kernel. (The library does not probe
 * the memory of reads and writes, because the kernel itself accesses it.)
 *
 * Tested by test-uring-setup.c and test-uring-register.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/sys.h"
#include "base/uaddr.h"
#include "uring/calls.h"
#include "uring/sq.h"

bool uaio_uring_may_read(uint64_t addr, size_t bytes)
{
	return uaio_is_accessible(addr, bytes) && uaio_can_read(addr, bytes);
}

int uaio_uring_check_range(uint64_t addr, uint64_t bytes)
{
	if (bytes > UAIO_RW_BYTES_MAX)
		bytes = UAIO_RW_BYTES_MAX;
	return uaio_is_user_range(addr, bytes) ? 0 : -EFAULT;
}

int uaio_uring_check_vectors(const struct iovec *iov, uint64_t nr)
{
	/*
	 * The kernel limits the length of a single vector before it checks the vector's
	 * range of addresses.
	 */
	if (nr == 1)
		return (int64_t)iov->iov_len < 0
			       ? -EINVAL
			       : uaio_uring_check_range(
					 (uintptr_t)iov->iov_base,
					 iov->iov_len);
	for (uint64_t i = 0; i < nr; i++)
		if ((int64_t)iov[i].iov_len < 0)
			return -EINVAL;
	for (uint64_t i = 0; i < nr; i++)
		if (!uaio_is_user_range((uintptr_t)iov[i].iov_base,
					iov[i].iov_len))
			return -EFAULT;
	return 0;
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
	uaio_copy_once(to, (const void *)(uintptr_t)from, bytes);
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
