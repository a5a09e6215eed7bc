/* SPDX-License-Identifier: MIT */
/*
 * What kernel AIO refuses and the core does not
 *
 * The core refuses what it could execute for no client. Kernel AIO has further
 * rules: some fields have to be 0, offset -1 is invalid, a file that cannot be
 * synced is refused at once, and so is a file with only the older read and
 * write functions (no read_iter, write_iter). Mistakes of both sorts are
 * reported in the kernel's order.
 */
#include <assert.h>
#include <errno.h>

#include "aio/iocb.h"

static_assert(UAIO_OP_READ < UAIO_OP_WRITEV && UAIO_OP_READV < UAIO_OP_WRITEV &&
		      UAIO_OP_WRITE < UAIO_OP_WRITEV,
	      "uaio_refuse() takes reads and writes for the first operations");

/* Refuse the request, but with the core's error if the core finds a mistake. */
static int refuse_last(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	int ret = uaio_optab[sqe->op].prep(sqe, file);

	return ret < 0 ? ret : -EINVAL;
}

/*
 * The kernel looks at the request and at how the file was opened, then at how
 * the file is read or written, and only then at the memory and the offset.
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
	/* Neither streams nor the devices seen so far can be synced. */
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
