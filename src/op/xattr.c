/* SPDX-License-Identifier: MIT */
/*
 * GETXATTR, SETXATTR, FGETXATTR, FSETXATTR: extended attributes of a path or of an open
 * file
 *
 * A waiting request has a copy of the value that it sets. A value that it reads is written
 * to the client's memory.
 *
 * Tested by test-call.c.
 */
#include <errno.h>
#include <linux/fs.h>
#include <sys/xattr.h>

#include "base/asked.h"
#include "file/file.h"
#include "op/args.h"
#include "op/rows.h"

static int measure(const struct uaio_sqe *sqe)
{
	struct uaio_args *args = sqe->args;
	int ret = uaio_name_measure(args->name, &args->name_bytes);

	return ret < 0 || !uaio_optab[sqe->op].has_no_file
		       ? ret
		       : uaio_path_measure(args->path, false,
					   &args->path_bytes);
}

int uaio_getxattr_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	(void)file;
	return sqe->call_flags ? -EINVAL : measure(sqe);
}

int uaio_setxattr_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	const struct uaio_args *args = sqe->args;
	int ret;

	if (sqe->call_flags & ~(uint32_t)(XATTR_CREATE | XATTR_REPLACE))
		return -EINVAL;
	ret = measure(sqe);
	if (ret < 0)
		return ret;
	if (args->in_bytes > UAIO_VALUE_BYTES_MAX)
		return -E2BIG;
	if (!uaio_args_can_read(args->in, args->in_bytes))
		return -EFAULT;
	return file && uaio_file_has(file, UAIO_FILE_F_RING) ? -EPERM : 0;
}

int64_t uaio_getxattr_run(const struct uaio_sqe *sqe, int fd,
			  struct uaio_found *found, uint32_t extra_flags)
{
	(void)fd;
	(void)found;
	if (extra_flags & RWF_NOWAIT)
		return UAIO_OP_BLOCKS;
	return sys_getxattr(sqe->args->path, sqe->args->name, sqe->args->out,
			    sqe->args->out_bytes);
}

int64_t uaio_setxattr_run(const struct uaio_sqe *sqe, int fd,
			  struct uaio_found *found, uint32_t extra_flags)
{
	(void)fd;
	(void)found;
	if (extra_flags & RWF_NOWAIT)
		return UAIO_OP_BLOCKS;
	return sys_setxattr(sqe->args->path, sqe->args->name, sqe->args->in,
			    sqe->args->in_bytes, (int)sqe->call_flags);
}

int64_t uaio_fgetxattr_run(const struct uaio_sqe *sqe, int fd,
			   struct uaio_found *found, uint32_t extra_flags)
{
	(void)found;
	if (extra_flags & RWF_NOWAIT)
		return UAIO_OP_BLOCKS;
	return sys_fgetxattr(fd, sqe->args->name, sqe->args->out,
			     sqe->args->out_bytes);
}

int64_t uaio_fsetxattr_run(const struct uaio_sqe *sqe, int fd,
			   struct uaio_found *found, uint32_t extra_flags)
{
	(void)found;
	if (extra_flags & RWF_NOWAIT)
		return UAIO_OP_BLOCKS;
	return sys_fsetxattr(fd, sqe->args->name, sqe->args->in,
			     sqe->args->in_bytes, (int)sqe->call_flags);
}
