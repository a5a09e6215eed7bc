/* SPDX-License-Identifier: MIT */
#include "uring/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/wait.h>

#include "base/asked.h"
#include "base/newer.h"
#include "proc/endable.h"
#include "file/file.h"
#include "op/sleeper.h"
#include "uring/calls.h"
#include "uring/ring.h"
#include "uring/sq.h"

/* In what follows the order of the checks is the kernel's. */

/* Of newer headers: the flags of a futex, and a mask of all its bits. */
enum { SIZE_U32 = 2, NUMA = 4, MPOL = 8, PRIVATE = 128 };

#define ALL_BITS ((uint64_t)UINT32_MAX)

/*
 * The request has a sleeper, by which this call finds it asleep.
 * Return: 0 or -ENOMEM.
 */
static int add_sleeper(struct uaio_uring_entry *entry)
{
	struct uaio_uring *ring = entry->ring;
	struct uaio_sleeper *sleeper = uaio_sleeper_new();

	if (!sleeper)
		return -ENOMEM;
	sleeper->next = ring->sleepers;
	ring->sleepers = sleeper;
	entry->args.sleeper = sleeper;
	return 0;
}

/* Return: 0 or -EINVAL. Kernels that know of no nodes say so when they are asked. */
static int check_futex(uint64_t flags, uint64_t value)
{
	const uint64_t others = NUMA | MPOL | PRIVATE;

	return (flags & ~others) != SIZE_U32 || value > UINT32_MAX ? -EINVAL
								   : 0;
}

static int check_one(const struct io_uring_sqe *raw)
{
	if (raw->len || raw->rw_flags || raw->buf_index || raw->file_index)
		return -EINVAL;
	if (raw->addr3 > UINT32_MAX)
		return -EINVAL;
	return check_futex((uint32_t)raw->fd, raw->addr2);
}

int uaio_uring_prep_futex_wake(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	entry->sqe.buf = uaio_uring_pointer(raw->addr);
	entry->sqe.len = raw->addr2;
	entry->sqe.mode = (uint32_t)raw->fd;
	entry->sqe.call_flags = (uint32_t)raw->addr3;
	return check_one(raw);
}

int uaio_uring_prep_futex_wait(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_args *args = uaio_uring_args_of(entry);
	int ret = check_one(raw);

	if (ret < 0)
		return ret;
	/* A wait by some of the bits cannot be ended: it is not there. */
	if (raw->addr3 != ALL_BITS)
		entry->late_error = -EINVAL;
	args->out = uaio_uring_pointer(raw->addr);
	args->off = (int64_t)raw->addr2;
	args->what = (uint32_t)raw->fd;
	return add_sleeper(entry);
}

static int check_all(uint64_t addr, uint32_t nr)
{
	struct uaio_futex_waitv futex;

	for (uint32_t i = 0; i < nr; i++) {
		if (uaio_uring_copy_in(&futex, addr + i * sizeof(futex),
				       sizeof(futex)) < 0)
			return -EFAULT;
		if (futex.reserved || check_futex(futex.flags, futex.val) < 0)
			return -EINVAL;
	}
	return 0;
}

int uaio_uring_prep_futex_waitv(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_args *args = uaio_uring_args_of(entry);
	int ret;

	if (raw->fd || raw->buf_index || raw->file_index || raw->addr2 ||
	    raw->rw_flags || raw->addr3)
		return -EINVAL;
	if (!raw->len || raw->len > UAIO_FUTEXES_MAX)
		return -EINVAL;
	ret = check_all(raw->addr, raw->len);
	if (ret < 0)
		return ret;
	args->in = uaio_uring_pointer(raw->addr);
	args->in_bytes = raw->len * (uint32_t)sizeof(struct uaio_futex_waitv);
	return add_sleeper(entry);
}

/* Of one child, by its number or a descriptor of it: a file that tells of its end. */
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
	 * A worker has no children: it waits for those of all threads. Of options that
	 * are none the call tells, too, and not before.
	 */
	if (raw->file_index & __WNOTHREAD && !is_of_one(raw))
		entry->late_error = -EINVAL;
	args->what = raw->len;
	args->off = (int)raw->file_index;
	args->out = uaio_uring_pointer(raw->addr2);
	ret = add_sleeper(entry);
	if (ret < 0 || raw->file_index & WNOHANG)
		return ret;
	sleeper = args->sleeper;
	if (raw->len == UAIO_P_PIDFD || !(raw->file_index & other))
		sleeper->file = file_of_child(raw);
	if (sleeper->file && !(raw->file_index & other))
		sleeper->endable = uaio_endable_get();
	return 0;
}

int uaio_uring_prep_epoll_wait(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->off || raw->rw_flags || raw->buf_index || raw->splice_fd_in)
		return -EINVAL;
	entry->sqe.off = UAIO_OFF_POSITION;
	entry->sqe.buf = uaio_uring_pointer(raw->addr);
	entry->sqe.len = raw->len;
	return 0;
}
