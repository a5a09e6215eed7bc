/* SPDX-License-Identifier: MIT */
/*
 * SPLICE and TEE: from one file to another, of which at least one is a pipe
 *
 * They may wait for ever, on a pipe that is empty or full or on a socket that
 * ignores SPLICE_F_NONBLOCK, so a worker executes them, as the kernel's does;
 * and a broken pipe sends no signal to the program then. Meanwhile the request
 * has both files itself, so that either descriptor may be closed.
 *
 * To close the duplicate of a regular file drops the process's record locks on
 * that file; programs that lock files rarely splice them.
 *
 * Tested by test-splice.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>

#include "base/asked.h"
#include "file/file.h"
#include "op/args.h"
#include "op/rows.h"

int uaio_splice_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	const uint32_t known = SPLICE_F_MOVE | SPLICE_F_NONBLOCK |
			       SPLICE_F_MORE | SPLICE_F_GIFT;

	(void)file;
	return sqe->call_flags & ~known ? -EINVAL : 0;
}

struct ends {
	int in;
	int out;
};

static struct ends use(const struct uaio_sqe *sqe)
{
	struct uaio_file *const *files = sqe->args->files;

	return (struct ends){
		.in = files[UAIO_END_IN] ? uaio_file_use(files[UAIO_END_IN])
					 : sqe->args->fd,
		.out = files[UAIO_END_OUT] ? uaio_file_use(files[UAIO_END_OUT])
					   : sqe->fd,
	};
}

static void unuse(const struct uaio_sqe *sqe)
{
	for (unsigned i = 0; i < UAIO_NR_ENDS; i++)
		if (sqe->args->files[i])
			uaio_file_unuse(sqe->args->files[i]);
}

int64_t uaio_splice_run(const struct uaio_sqe *sqe, int fd, bool is_stream,
			uint32_t extra_flags)
{
	(void)fd;
	(void)is_stream;
	int64_t offs[UAIO_NR_ENDS] = { sqe->args->off, sqe->off };
	bool has_off[UAIO_NR_ENDS] = { offs[UAIO_END_IN] != UAIO_OFF_POSITION,
				       offs[UAIO_END_OUT] !=
					       UAIO_OFF_POSITION };
	struct ends ends;
	int64_t res;

	if (extra_flags & RWF_NOWAIT)
		return -EOPNOTSUPP;
	ends = use(sqe);
	res = sys_splice(
		ends.in, has_off[UAIO_END_IN] ? &offs[UAIO_END_IN] : NULL,
		ends.out, has_off[UAIO_END_OUT] ? &offs[UAIO_END_OUT] : NULL,
		sqe->len, (int)sqe->call_flags);
	unuse(sqe);
	return res;
}

int64_t uaio_tee_run(const struct uaio_sqe *sqe, int fd, bool is_stream,
		     uint32_t extra_flags)
{
	(void)fd;
	(void)is_stream;
	struct ends ends;
	int64_t res;

	if (extra_flags & RWF_NOWAIT)
		return -EOPNOTSUPP;
	ends = use(sqe);
	res = sys_tee(ends.in, ends.out, sqe->len, (int)sqe->call_flags);
	unuse(sqe);
	return res;
}
