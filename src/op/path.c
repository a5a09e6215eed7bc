/* SPDX-License-Identifier: MIT */
/*
 * STATX, RENAMEAT, UNLINKAT, MKDIRAT, SYMLINKAT, LINKAT: calls with paths
 *
 * Calls with paths may have to read directories from a disk or a server, so workers make
 * them, as in the kernel.
 *
 * Tested by test-call.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>

#include "base/asked.h"
#include "base/sys.h"
#include "op/args.h"
#include "op/rows.h"

int uaio_statx_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	struct uaio_args *args = sqe->args;

	(void)file;
	return uaio_path_measure(args->path, sqe->call_flags & AT_EMPTY_PATH,
				 &args->path_bytes);
}

int64_t uaio_statx_run(const struct uaio_sqe *sqe, int fd,
		       struct uaio_found *found, uint32_t extra_flags)
{
	(void)fd;
	(void)found;
	if (extra_flags & RWF_NOWAIT)
		return UAIO_OP_BLOCKS;
	return sys_statx_path(sqe->fd, sqe->args->path, (int)sqe->call_flags,
			      sqe->args->what, sqe->args->out);
}

/* Measure both paths. Only the first one of LINKAT may be empty, with AT_EMPTY_PATH. */
int uaio_paths_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	struct uaio_args *args = sqe->args;
	bool may_be_empty =
		sqe->op == UAIO_OP_LINKAT && sqe->call_flags & AT_EMPTY_PATH;
	int ret;

	(void)file;
	ret = uaio_path_measure(args->path, may_be_empty, &args->path_bytes);
	return ret < 0 ? ret
		       : uaio_path_measure(args->name, false,
					   &args->name_bytes);
}

int64_t uaio_renameat_run(const struct uaio_sqe *sqe, int fd,
			  struct uaio_found *found, uint32_t extra_flags)
{
	(void)fd;
	(void)found;
	if (extra_flags & RWF_NOWAIT)
		return UAIO_OP_BLOCKS;
	return sys_renameat2(sqe->fd, sqe->args->path, sqe->args->fd,
			     sqe->args->name, sqe->call_flags);
}

int64_t uaio_symlinkat_run(const struct uaio_sqe *sqe, int fd,
			   struct uaio_found *found, uint32_t extra_flags)
{
	(void)fd;
	(void)found;
	if (extra_flags & RWF_NOWAIT)
		return UAIO_OP_BLOCKS;
	return sys_symlinkat(sqe->args->path, sqe->args->fd, sqe->args->name);
}

int64_t uaio_linkat_run(const struct uaio_sqe *sqe, int fd,
			struct uaio_found *found, uint32_t extra_flags)
{
	(void)fd;
	(void)found;
	if (extra_flags & RWF_NOWAIT)
		return UAIO_OP_BLOCKS;
	return sys_linkat(sqe->fd, sqe->args->path, sqe->args->fd,
			  sqe->args->name, (int)sqe->call_flags);
}

int uaio_unlinkat_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	return sqe->call_flags & ~(uint32_t)AT_REMOVEDIR
		       ? -EINVAL
		       : uaio_openat_prep(sqe, file);
}

int64_t uaio_unlinkat_run(const struct uaio_sqe *sqe, int fd,
			  struct uaio_found *found, uint32_t extra_flags)
{
	(void)fd;
	(void)found;
	if (extra_flags & RWF_NOWAIT)
		return UAIO_OP_BLOCKS;
	return sys_unlinkat(sqe->fd, sqe->path, (int)sqe->call_flags);
}

int uaio_mkdirat_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	return uaio_openat_prep(sqe, file);
}

int64_t uaio_mkdirat_run(const struct uaio_sqe *sqe, int fd,
			 struct uaio_found *found, uint32_t extra_flags)
{
	(void)fd;
	(void)found;
	if (extra_flags & RWF_NOWAIT)
		return UAIO_OP_BLOCKS;
	return sys_mkdirat(sqe->fd, sqe->path, sqe->mode);
}
