/* SPDX-License-Identifier: MIT */
/* OPENAT: may block for ever, for example on a FIFO without another end. */
#include <errno.h>
#include <limits.h>

#include "base/check.h"
#include "base/sys.h"
#include "base/uaddr.h"
#include "options/config.h"
#include "op/rows.h"

int uaio_openat_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	(void)file;
	if (!sqe->len)
		return -EINVAL;
	if (sqe->len > PATH_MAX)
		return -ENAMETOOLONG;
	if (!uaio_is_accessible((uintptr_t)sqe->path, sqe->len) ||
	    (unlikely(uaio_config.is_strict) &&
	     !uaio_can_read((uintptr_t)sqe->path, sqe->len)))
		return -EFAULT;
	return 0;
}

int64_t uaio_openat_run(const struct uaio_sqe *sqe, int fd, bool is_stream,
			uint32_t extra_flags)
{
	(void)fd;
	(void)is_stream;
	(void)extra_flags;
	return sys_openat(sqe->fd, sqe->path, (int)sqe->open_flags,
			  (int)sqe->mode);
}
