/* SPDX-License-Identifier: MIT */
/*
 * FALLOCATE and FTRUNCATE: the allocated space and the size of a file
 *
 * Tested by test-call.c.
 */
#include <errno.h>

#include "base/asked.h"
#include "base/check.h"
#include "file/file.h"
#include "op/rows.h"

int uaio_fallocate_prep(const struct uaio_sqe *sqe,
			const struct uaio_file *file)
{
	if (likely(!uaio_file_has(file, UAIO_FILE_F_RING)))
		return 0;
	return sqe->off < 0 || (int64_t)sqe->len <= 0 ? -EINVAL : -ENODEV;
}

int uaio_ftruncate_prep(const struct uaio_sqe *sqe,
			const struct uaio_file *file)
{
	(void)sqe;
	return uaio_file_has(file, UAIO_FILE_F_RING) ? -EINVAL : 0;
}

int64_t uaio_fallocate_run(const struct uaio_sqe *sqe, int fd,
			   struct uaio_found *found, uint32_t extra_flags)
{
	(void)found;
	(void)extra_flags;
	return sys_fallocate(fd, (int)sqe->call_flags, sqe->off,
			     (int64_t)sqe->len);
}

int64_t uaio_ftruncate_run(const struct uaio_sqe *sqe, int fd,
			   struct uaio_found *found, uint32_t extra_flags)
{
	(void)found;
	(void)extra_flags;
	return sys_ftruncate(fd, sqe->off);
}
