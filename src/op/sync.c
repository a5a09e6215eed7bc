/* SPDX-License-Identifier: MIT */
/*
 * FSYNC and FDSYNC: they wait for the disk, so a worker executes them
 *
 * A range in the request is only a hint: the whole file is synced.
 *
 * Tested by test-op.c.
 */
#include <errno.h>

#include "base/sys.h"
#include "file/file.h"
#include "op/rows.h"

int uaio_sync_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	(void)sqe;
	(void)file;
	return 0;
}

int64_t uaio_sync_run_fsync(const struct uaio_sqe *sqe, int fd, bool is_stream,
			    uint32_t extra_flags)
{
	(void)sqe;
	(void)is_stream;
	(void)extra_flags;
	return sys_fsync(fd);
}

int64_t uaio_sync_run_fdsync(const struct uaio_sqe *sqe, int fd, bool is_stream,
			     uint32_t extra_flags)
{
	(void)sqe;
	(void)is_stream;
	(void)extra_flags;
	return sys_fdatasync(fd);
}
