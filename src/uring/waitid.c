/* SPDX-License-Identifier: MIT */
/*
 * Waiting for child processes
 *
 * Tested by test-uring-waitid.c.
 */
#include <errno.h>
#include <sys/wait.h>

#include "base/asked.h"
#include "base/newer.h"
#include "file/file.h"
#include "op/sleeper.h"
#include "proc/endable.h"
#include "uring/opdef.h"
#include "uring/ring.h"
#include "uring/sq.h"

/* All checks below are in the order in which the kernel makes them. */

/*
 * Return: a file that reports the end of the one child which the submission names, by
 * pid or pidfd; or NULL.
 */
static struct uaio_file *file_of_child(const struct io_uring_sqe *raw)
{
	struct uaio_file *file = NULL;
	int fd = raw->fd;

	if ((int)raw->len == P_PID)
		fd = sys_pidfd_open(fd);
	else if ((int)raw->len != UAIO_P_PIDFD)
		return NULL;
	if (fd < 0 || uaio_file_fix(fd, &file) < 0)
		file = NULL;
	if ((int)raw->len == P_PID && fd >= 0)
		(void)uaio_op_close(fd, true);
	return file;
}

static bool is_of_one(const struct io_uring_sqe *raw)
{
	return raw->len == P_PID || raw->len == UAIO_P_PIDFD;
}

int uaio_uring_prep_waitid(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	const int other = WSTOPPED | WCONTINUED;
	struct uaio_args *args = uaio_uring_args_of(entry);
	struct uaio_sleeper *sleeper;
	int ret;

	if (raw->addr || raw->buf_index || raw->addr3 || raw->rw_flags)
		return -EINVAL;
	/*
	 * Refuse __WNOTHREAD unless the submission names a single child: a worker has
	 * no children of its own, so it waits for children of all threads. Like invalid
	 * options, this is reported as the request's result.
	 */
	if (raw->file_index & __WNOTHREAD && !is_of_one(raw))
		entry->late_error = -EINVAL;
	args->what = raw->len;
	args->off = (int)raw->file_index;
	args->out = uaio_uring_pointer(raw->addr2);
	ret = uaio_uring_add_sleeper(entry);
	if (ret < 0 || raw->file_index & WNOHANG)
		return ret;
	sleeper = args->sleeper;
	if (raw->len == UAIO_P_PIDFD || !(raw->file_index & other))
		sleeper->file = file_of_child(raw);
	if (sleeper->file && !(raw->file_index & other))
		sleeper->endable = uaio_endable_get();
	return 0;
}
