/* SPDX-License-Identifier: MIT */
/* NOP: makes no system call, and has no file. Tested by src/flow/test-nop.c. */
#include "op/rows.h"

int uaio_nop_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	(void)sqe;
	(void)file;
	return 0;
}

int64_t uaio_nop_run(const struct uaio_sqe *sqe, int fd,
		     struct uaio_found *found, uint32_t extra_flags)
{
	(void)fd;
	(void)found;
	(void)extra_flags;
	/*
	 * sqe->len is the result that the client has requested (IORING_NOP_INJECT_RESULT).
	 */
	return (int32_t)sqe->len;
}
