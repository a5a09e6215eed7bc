/* SPDX-License-Identifier: MIT */
/*
 * FSYNC, FDSYNC, SYNC_FILE_RANGE, which wait for the disk: a worker executes them
 *
 * FSYNC and FDSYNC sync the whole file, even if the request has a range.
 *
 * Tested by test-op.c and test-call.c.
 */
#include <errno.h>

#include "base/asked.h"
#include "base/sys.h"
#include "file/file.h"
#include "op/rows.h"

int uaio_sync_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	if (likely(!uaio_file_has(file, UAIO_FILE_F_RING)))
		return 0;
	return sqe->op == UAIO_OP_SYNC_FILE_RANGE ? -ESPIPE : -EINVAL;
}

int64_t uaio_sync_run_fsync(const struct uaio_sqe *sqe, int fd,
			    struct uaio_found *found, uint32_t extra_flags)
{
	(void)sqe;
	(void)found;
	(void)extra_flags;
	return sys_fsync(fd);
}

int64_t uaio_sync_run_fdsync(const struct uaio_sqe *sqe, int fd,
			     struct uaio_found *found, uint32_t extra_flags)
{
	(void)sqe;
	(void)found;
	(void)extra_flags;
	return sys_fdatasync(fd);
}

int64_t uaio_sync_run_range(const struct uaio_sqe *sqe, int fd,
			    struct uaio_found *found, uint32_t extra_flags)
{
	(void)found;
	(void)extra_flags;
	return sys_sync_file_range(fd, sqe->off, (int64_t)sqe->len,
				   (int)sqe->call_flags);
}
