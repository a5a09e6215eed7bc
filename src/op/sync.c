/* SPDX-License-Identifier: MIT */
/* FSYNC and FDSYNC: always wait, so they are always a worker's. */
#include <errno.h>

#include "base/sys.h"
#include "engine/file.h"
#include "op/op.h"

int uaio_sync_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	if (sqe->buf || sqe->len || sqe->off || sqe->rw_flags)
		return -EINVAL;
	/* Neither streams nor the devices seen so far can be synced. */
	if (uaio_file_kind(file) >= UAIO_KIND_STREAM)
		return -EINVAL;
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
