/* SPDX-License-Identifier: MIT */
/*
 * IORING_OP_URING_CMD for sockets, the only files for which the library supports it
 *
 * Tested by test-uring-socket.c.
 */
#include <errno.h>

#include "base/uaddr.h"
#include "op/sock.h"
#include "uring/opdef.h"
#include "uring/sq.h"

static int prep_get(struct uaio_args *args, uint64_t value, uint32_t bytes)
{
	args->out = uaio_uring_pointer(value);
	args->out_bytes = bytes;
	return 0;
}

/*
 * Return: `bytes` if all bytes at `value` can be read. Else the number of bytes up to
 * the end of the first page; 0 if these cannot be read.
 */
static uint32_t readable_of(uint64_t value, uint32_t bytes)
{
	const uint32_t page = (uint32_t)uaio_page_bytes();
	uint32_t first = page - (uint32_t)(value & (page - 1));

	if (uaio_uring_may_read(value, bytes))
		return bytes;
	return first < bytes && uaio_uring_may_read(value, first) ? first : 0;
}

/*
 * The kernel reads no more of an option's value than it needs, so the value's end need
 * not be readable.
 */
static int prep_set(struct uaio_args *args, uint64_t value, uint32_t bytes)
{
	if (bytes > UAIO_VALUE_BYTES_MAX)
		return -EINVAL;
	args->in = uaio_uring_pointer(value);
	args->in_bytes = bytes ? readable_of(value, bytes) : 0;
	return args->in_bytes || !bytes ? 0 : -EFAULT;
}

int uaio_uring_prep_cmd(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_args *args = uaio_uring_args_of(entry);
	int ret = 0;

	/*
	 * Accept IORING_URING_CMD_FIXED, although no supported command uses a
	 * registered buffer.
	 */
	if (raw->__pad1 || raw->flags & IOSQE_BUFFER_SELECT ||
	    raw->uring_cmd_flags & ~IORING_URING_CMD_FIXED)
		return -EINVAL;
	args->what = raw->cmd_op;
	/* off: level (lower half) and name (upper half) of the socket option */
	args->off = (int64_t)raw->addr;
	if (raw->cmd_op == UAIO_SOCKET_CMD_GETSOCKOPT)
		ret = prep_get(args, raw->addr3, raw->file_index);
	else if (raw->cmd_op == UAIO_SOCKET_CMD_SETSOCKOPT)
		ret = prep_set(args, raw->addr3, raw->file_index);
	entry->late_error = ret;
	return 0;
}
