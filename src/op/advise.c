/* SPDX-License-Identifier: MIT */
/*
 * FADVISE and MADVISE: tell the kernel how the program will use a file, or memory
 *
 * Tested by test-call.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>

#include "base/sys.h"
#include "op/rows.h"

/*
 * Return: whether the kernel only stores this advice. Other advice makes the kernel do
 * work that may take long.
 */
static bool is_only_noted(uint32_t advice)
{
	return advice == POSIX_FADV_NORMAL || advice == POSIX_FADV_RANDOM ||
	       advice == POSIX_FADV_SEQUENTIAL;
}

int64_t uaio_fadvise_run(const struct uaio_sqe *sqe, int fd,
			 struct uaio_found *found, uint32_t extra_flags)
{
	(void)found;
	if (extra_flags & RWF_NOWAIT && !is_only_noted(sqe->call_flags))
		return UAIO_OP_BLOCKS;
	return sys_fadvise(fd, sqe->off, (int64_t)sqe->len,
			   (int)sqe->call_flags);
}

int64_t uaio_madvise_run(const struct uaio_sqe *sqe, int fd,
			 struct uaio_found *found, uint32_t extra_flags)
{
	(void)fd;
	(void)found;
	if (extra_flags & RWF_NOWAIT)
		return UAIO_OP_BLOCKS;
	return sys_madvise(sqe->buf, sqe->len, (int)sqe->call_flags);
}
