/* SPDX-License-Identifier: MIT */
/*
 * OPENAT and OPENAT2, which may block for ever, for example on a device
 *
 * If the kernel has the path in its caches, the submitting thread opens the file at
 * once. Then one open and one close take 2.1 us; if a worker opens the file, they take
 * 8.5 us.
 *
 * Tested by test-open.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <string.h>

#include "base/asked.h"
#include "base/check.h"
#include "base/sys.h"
#include "base/uaddr.h"
#include "options/config.h"
#include "op/args.h"
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
	return sqe->len == 1 || !*sqe->path ? -ENOENT : 0;
}

/* The kernel's struct open_how, in its first version. */
struct how {
	uint64_t flags;
	uint64_t mode;
	uint64_t resolve;
};

enum {
	RESOLVE_CACHED_ = 0x20,
	KERNEL_LARGEFILE = 0100000,
	/*
	 * Those flags of an open file that F_SETFL sets. open_cached() opens the file
	 * with O_NONBLOCK, then clears O_NONBLOCK by F_SETFL. This F_SETFL must leave
	 * all other flags unchanged.
	 */
	KEPT_FLAGS = O_APPEND | O_ASYNC | O_DIRECT | O_NOATIME,
	/* With any flag but these, the kernel might do more than look up a path. */
	SIMPLE_FLAGS = O_ACCMODE | O_NOCTTY | O_APPEND | O_NONBLOCK | O_SYNC |
		       O_DIRECT | O_LARGEFILE | KERNEL_LARGEFILE | O_DIRECTORY |
		       O_NOFOLLOW | O_NOATIME | O_CLOEXEC,
};

/*
 * Return: flags, with O_CLOEXEC if the front-end gets the new descriptor. The front-end
 * keeps this descriptor only for a moment. A child process that is created at that
 * moment must not inherit it.
 */
static uint64_t flags_of(const struct uaio_sqe *sqe, uint64_t flags)
{
	return flags | (sqe->by_door ? O_CLOEXEC : 0);
}

/*
 * Open the path if the kernel can find it without blocking, as io_uring does. O_NONBLOCK is
 * added, so that the open of a FIFO whose other end is not open does not block either.
 * Return: the descriptor, or -errno; UAIO_OP_BLOCKS: the call would block.
 */
static int64_t open_cached(int dir, const char *path, const struct how *client)
{
	struct how how = *client;
	int fd;

	if (how.flags & ~(uint64_t)SIMPLE_FLAGS)
		return UAIO_OP_BLOCKS;
	how.flags |= O_NONBLOCK;
	how.resolve |= RESOLVE_CACHED_;
	fd = sys_openat2(dir, path, &how, sizeof(how));
	if (fd >= 0 && !(client->flags & O_NONBLOCK))
		(void)sys_fcntl(fd, F_SETFL, (long)how.flags & KEPT_FLAGS);
	if (fd == -EAGAIN && client->resolve & RESOLVE_CACHED_)
		return fd;
	/*
	 * EINVAL may only mean that the kernel is older than 5.12 and does not know
	 * RESOLVE_CACHED. So a worker makes the call without this flag.
	 */
	return fd == -EAGAIN || fd == -EINVAL || fd == -ENOSYS ? UAIO_OP_BLOCKS
							       : fd;
}

int64_t uaio_openat_run(const struct uaio_sqe *sqe, int fd,
			struct uaio_found *found, uint32_t extra_flags)
{
	const struct how how = { .flags = flags_of(sqe, sqe->open_flags) };
	int64_t ret;

	(void)fd;
	(void)found;
	if (!(extra_flags & RWF_NOWAIT))
		ret = sys_openat(sqe->fd, sqe->path, (int)how.flags,
				 (int)sqe->mode);
	else
		/*
		 * If the client has overwritten the 0 at the path's end, let the
		 * request wait. A waiting request has a copy of the path, which ends
		 * with 0.
		 */
		ret = sqe->path[sqe->len - 1]
			      ? UAIO_OP_BLOCKS
			      : open_cached(sqe->fd, sqe->path, &how);
	return uaio_sqe_land(sqe, ret);
}

/*
 * The client's struct may be longer than struct how.
 * Return: whether all bytes after the members of struct how are 0.
 */
static bool is_known(const struct uaio_args *args)
{
	const char *how = args->in;

	for (uint32_t i = sizeof(struct how); i < args->in_bytes; i++)
		if (how[i])
			return false;
	return true;
}

int uaio_openat2_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	struct uaio_args *args = sqe->args;

	(void)file;
	if (args->in_bytes < sizeof(struct how))
		return -EINVAL;
	if (args->in_bytes > uaio_page_bytes())
		return -E2BIG;
	if (!uaio_args_can_read(args->in, args->in_bytes))
		return -EFAULT;
	return is_known(args)
		       ? uaio_path_measure(args->path, false, &args->path_bytes)
		       : -E2BIG;
}

int64_t uaio_openat2_run(const struct uaio_sqe *sqe, int fd,
			 struct uaio_found *found, uint32_t extra_flags)
{
	const struct uaio_args *args = sqe->args;
	struct how how;
	int64_t ret;

	(void)fd;
	(void)found;
	memcpy(&how, args->in, sizeof(how));
	how.flags = flags_of(sqe, how.flags);
	if (!(extra_flags & RWF_NOWAIT))
		/* Pass only struct how: prep has checked that all further bytes are 0. */
		ret = sys_openat2(sqe->fd, args->path, &how, sizeof(how));
	else
		ret = how.mode ? UAIO_OP_BLOCKS
			       : open_cached(sqe->fd, args->path, &how);
	return uaio_sqe_land(sqe, ret);
}
