/* SPDX-License-Identifier: MIT */
/*
 * CALLED: a request whose execution is a call of a function of a front-end (kernel AIO,
 * io_uring or POSIX AIO). Tested by uring/test-uring-cancel.c.
 */
#include "op/rows.h"

const struct uaio_op_door *uaio_op_door;

int uaio_called_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	(void)sqe;
	(void)file;
	return 0;
}

int64_t uaio_called_run(const struct uaio_sqe *sqe, int fd,
			struct uaio_found *found, uint32_t extra_flags)
{
	(void)fd;
	(void)found;
	(void)extra_flags;
	return sqe->called->call(sqe->called, sqe);
}
