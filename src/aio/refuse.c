/* SPDX-License-Identifier: MIT */
/*
 * Refusing requests that kernel AIO refuses and the core would accept
 *
 * The core refuses requests that it could not execute for any front-end (kernel AIO, io_uring
 * or POSIX AIO). Kernel AIO has further rules: some fields have to be 0, and offset -1 is
 * invalid. A file that cannot be synced is refused at once, and so is a file without the
 * functions read_iter or write_iter. Errors that the core finds and errors found here are
 * reported in the kernel's order.
 */
#include <assert.h>
#include <errno.h>

#include "aio/iocb.h"

static_assert(UAIO_OP_READ < UAIO_OP_WRITEV && UAIO_OP_READV < UAIO_OP_WRITEV &&
		      UAIO_OP_WRITE < UAIO_OP_WRITEV,
	      "uaio_refuse() takes reads and writes for the first operations");

/* Refuse the request; if the core also finds an error, with the core's error. */
static int refuse_last(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	int ret = uaio_optab[sqe->op].prep(sqe, file);

	return ret < 0 ? ret : -EINVAL;
}

/*
 * The kernel checks first the request and how the file was opened, then whether the file has
 * read_iter or write_iter, and only then the memory and the offset. Return the error that the
 * kernel finds first.
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

/* The kernel refuses to sync a file without an fsync function. */
static int check_sync(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	if (sqe->buf || sqe->len || sqe->off || sqe->rw_flags)
		return -EINVAL;
	/* No stream can be synced, and none of the devices known so far. */
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
