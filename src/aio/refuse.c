/* SPDX-License-Identifier: MIT */
/*
 * Requests that kernel AIO refuses, although the checks common to all front-ends accept
 * them
 *
 * The checks common to all front-ends (kernel AIO, io_uring or POSIX AIO) refuse requests
 * that the library could not execute. Kernel AIO has further rules: some fields have to be
 * 0, and offset -1 is invalid. Requests on a file that cannot be synced, or that lacks the
 * functions read_iter or write_iter, are refused at once. All errors are reported in the
 * kernel's order.
 */
#include <assert.h>
#include <errno.h>

#include "aio/iocb.h"

static_assert(UAIO_OP_READ < UAIO_OP_WRITEV && UAIO_OP_READV < UAIO_OP_WRITEV &&
		      UAIO_OP_WRITE < UAIO_OP_WRITEV,
	      "uaio_refuse() takes reads and writes for the first operations");

/* Refuse the request, but first make the common checks: their error takes precedence. */
static int refuse_last(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	int ret = uaio_optab[sqe->op].prep(sqe, file);

	return ret < 0 ? ret : -EINVAL;
}

/*
 * Refuse a request because its file lacks read_iter or write_iter. The kernel checks this
 * after the request's other fields and the file's access mode, but before the memory and
 * the offset. So first make the common checks, except those of memory and offset: an
 * error that they find takes precedence.
 */
static int refuse_older_way(const struct uaio_sqe *sqe,
			    const struct uaio_file *file)
{
	struct uaio_sqe nowhere = *sqe;

	nowhere.buf = NULL;
	nowhere.len = 0;
	nowhere.off = 0;
	return refuse_last(&nowhere, file);
}

static int check_rw(const struct uaio_sqe *sqe, const struct uaio_file *file,
		    uint32_t older_way)
{
	if (uaio_file_has(file, older_way))
		return refuse_older_way(sqe, file);
	return sqe->off < 0 ? refuse_last(sqe, file) : 0;
}

/* fsync and fdatasync: the kernel refuses a file whose driver has no fsync function. */
static int check_sync(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	if (sqe->buf || sqe->len || sqe->off || sqe->rw_flags)
		return -EINVAL;
	/*
	 * Streams have no fsync function; nor, as far as is known, has any character
	 * device.
	 */
	return uaio_file_kind(file) >= UAIO_KIND_STREAM ? -EINVAL : 0;
}

static int check_poll(const struct uaio_sqe *sqe)
{
	if (sqe->events > UINT16_MAX)
		return -EINVAL;
	return sqe->off || sqe->len || sqe->rw_flags ? -EINVAL : 0;
}

int uaio_refuse_rare(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	switch (uaio_optab[sqe->op].class) {
	case UAIO_CLASS_READ: return check_rw(sqe, file, UAIO_FILE_F_OLD_READ);
	case UAIO_CLASS_WRITE:
		return check_rw(sqe, file, UAIO_FILE_F_OLD_WRITE);
	case UAIO_CLASS_SYNC: return check_sync(sqe, file);
	case UAIO_CLASS_POLL: return check_poll(sqe);
	default: return 0;
	}
}
