/* SPDX-License-Identifier: MIT */
/* The function aio_cancel. Tested by test-posix.c. */
#include "posix/posix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sys.h"
#include "proc/entry.h"
#include "proc/table.h"
#include "file/file.h"
#include "flow/cancel.h"
#include "op/op.h"
#include "posix/door.h"

/* Which requests to cancel: one, or all of a file. */
struct target {
	struct uaio_cancel_aim aim;
	const struct aiocb *aiocb;
	const struct uaio_file *file;
};

static bool is_meant(const struct uaio_cancel_aim *aim,
		     const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	const struct target *target = container_of(aim, struct target, aim);

	return target->aiocb ? sqe->key == (uintptr_t)target->aiocb
			     : file == target->file;
}

static long cancel(const void *arg)
{
	const struct target *target = arg;
	int nr_others = 0, ret;

	ret = uaio_queue_cancel_meant(&uaio_posix_queue, &target->aim,
				      &nr_others);
	if (nr_others || ret == -EALREADY)
		return AIO_NOTCANCELED;
	if (ret > 0)
		return AIO_CANCELED;
	/*
	 * A request that is about to be parked, or that is completing, is not in the
	 * index of requests that can be cancelled. So the search above may miss an
	 * incomplete request: check the error code, too.
	 */
	return target->aiocb && uaio_posix_error(target->aiocb) == EINPROGRESS
		       ? AIO_NOTCANCELED
		       : AIO_ALLDONE;
}

static int cancel_file(struct target *target, int fd)
{
	struct uaio_file *file;
	int ret = uaio_file_get(fd, &file);

	if (ret < 0)
		return ret == -ENOMEM ? -EAGAIN : ret;
	target->file = file;
	target->aim.by = UAIO_INDEX_FILE;
	target->aim.key = uaio_index_key_of(file);
	ret = (int)cancel(target);
	uaio_file_put(file);
	return ret;
}

int uaio_posix_cancel(int fd, struct aiocb *aiocb)
{
	struct target target = {
		.aim = { .is_meant = is_meant,
			 .by = UAIO_INDEX_KEY,
			 .key = (uintptr_t)aiocb,
			 .is_one = aiocb != NULL },
		.aiocb = aiocb,
	};
	int ret;

	if (sys_fcntl(fd, F_GETFL, 0) < 0)
		return -EBADF;
	if (aiocb && aiocb->aio_fildes != fd)
		return -EINVAL;
	if (aiocb && uaio_posix_error(aiocb) != EINPROGRESS)
		return AIO_ALLDONE;
	if (!uaio_posix_is_open())
		return AIO_ALLDONE;
	if (aiocb)
		return (int)uaio_table_do(cancel, &target);
	/*
	 * A thread with its own descriptor table has executed all its requests when it
	 * submitted them.
	 */
	if (uaio_table_is_other())
		return AIO_ALLDONE;
	if (!uaio_enter())
		return -EAGAIN;
	ret = cancel_file(&target, fd);
	uaio_leave();
	return ret;
}
