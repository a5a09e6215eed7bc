/* SPDX-License-Identifier: MIT */
/*
 * The checks of reads and writes, before a system call is made. Tested by test-rw.c and
 * test-op.c.
 */
#include <errno.h>
#include <linux/fs.h>

#include "base/check.h"
#include "base/sys.h"
#include "base/uaddr.h"
#include "options/config.h"
#include "file/file.h"
#include "op/rows.h"

enum {
	IOVS_MAX = 1024,        /* UIO_MAXIOV */
	RWF_KNOWN_END = 1 << 9, /* the lowest flag that no kernel knows */
	RWF_APPEND_EITHER = 0x10 | 0x20, /* APPEND, NOAPPEND */
	/* RWF_ATOMIC and RWF_DONTCACHE, which older headers lack */
	RWF_ATOMIC_ = 0x40,
	RWF_DONTCACHE_ = 0x80,
	IOPRIO_CLASS_SHIFT = 13,
	IOPRIO_LEVEL_MASK = 7,
	CAP_SYS_NICE = 23,
	CAP_SYS_ADMIN = 21,
};

/* Return: whether the kernel would let this thread use the real-time I/O class. */
static bool may_be_realtime(void)
{
	struct {
		uint32_t version;
		int pid;
	} header = { 0x20080522, 0 };
	struct {
		uint32_t effective, permitted, inheritable;
	} data[2];

	if (sys_capget(&header, data) < 0)
		return false;
	return data[0].effective & (1u << CAP_SYS_NICE | 1u << CAP_SYS_ADMIN);
}

int uaio_rw_check_ioprio(uint16_t ioprio)
{
	unsigned level = ioprio & IOPRIO_LEVEL_MASK;

	switch (ioprio >> IOPRIO_CLASS_SHIFT) {
	case 0: return level ? -EINVAL : 0;
	case 1: return may_be_realtime() ? 0 : -EPERM;
	case 2:
	case 3: return 0;
	default: return -EINVAL;
	}
}

/*
 * Return: how many bytes the vectors have together, at most UAIO_RW_BYTES_MAX; or -errno.
 */
static int64_t check_iovs(const struct uaio_sqe *sqe)
{
	uint64_t bytes = 0;

	if (sqe->len > IOVS_MAX)
		return -EINVAL;
	if (sqe->len && !uaio_is_accessible((uintptr_t)sqe->iov,
					    sqe->len * sizeof(*sqe->iov)))
		return -EFAULT;
	if (unlikely(uaio_config.is_strict) &&
	    !uaio_can_read((uintptr_t)sqe->iov, sqe->len * sizeof(*sqe->iov)))
		return -EFAULT;
	for (uint64_t i = 0; i < sqe->len; i++)
		if ((int64_t)uaio_sqe_iov(sqe, i).iov_len < 0)
			return -EINVAL;
	for (uint64_t i = 0; i < sqe->len; i++) {
		const struct iovec iov = uaio_sqe_iov(sqe, i);
		uint64_t part = iov.iov_len;

		/*
		 * If there is only one vector, the kernel limits its length before it
		 * checks that its memory belongs to the program. So do the same here.
		 */
		if (sqe->len == 1 && part > UAIO_RW_BYTES_MAX)
			part = UAIO_RW_BYTES_MAX;
		if (!uaio_is_user_range((uintptr_t)iov.iov_base, part))
			return -EFAULT;
		if (part > UAIO_RW_BYTES_MAX - bytes)
			part = UAIO_RW_BYTES_MAX - bytes;
		bytes += part;
	}
	return (int64_t)bytes;
}

static int64_t check_buffer(const struct uaio_sqe *sqe)
{
	uint64_t bytes =
		sqe->len < UAIO_RW_BYTES_MAX ? sqe->len : UAIO_RW_BYTES_MAX;

	return uaio_is_user_range((uintptr_t)sqe->buf, bytes) ? (int64_t)bytes
							      : -EFAULT;
}

/*
 * If a file cannot honour a flag, the kernel refuses the request before it finds any
 * other error. Here the library refuses only flags that no file of this kind honours. A
 * flag that some files honour is left to the kernel, which refuses it when the call is
 * made.
 */
static int check_flags(const struct uaio_sqe *sqe, const struct uaio_file *file,
		       bool is_right_way)
{
	const uint32_t neither = UAIO_FILE_F_OLD_READ | UAIO_FILE_F_OLD_WRITE;
	uint32_t never = 0;

	if (sqe->rw_flags >= RWF_KNOWN_END)
		return -EOPNOTSUPP;
	if ((sqe->rw_flags & RWF_APPEND_EITHER) == RWF_APPEND_EITHER)
		return -EINVAL;
	if ((load_relaxed(&file->flags) & neither) == neither ||
	    (uaio_file_kind(file) == UAIO_KIND_MEMORY && !is_right_way))
		never = RWF_NOWAIT | RWF_ATOMIC_ | RWF_DONTCACHE_;
	else if (uaio_file_kind(file) >= UAIO_KIND_STREAM)
		never = RWF_ATOMIC_ | RWF_DONTCACHE_;
	else if (uaio_optab[sqe->op].class == UAIO_CLASS_READ || !is_right_way)
		never = RWF_ATOMIC_;
	return sqe->rw_flags & never ? -EOPNOTSUPP : 0;
}

/*
 * Check the offset. bytes: what check_iovs() or check_buffer() returned: the length of the
 * memory, or -errno, which this function then returns, too.
 */
static int check_place(const struct uaio_sqe *sqe, int64_t bytes)
{
	if (unlikely(bytes < 0))
		return (int)bytes;
	if (unlikely(sqe->off < UAIO_OFF_POSITION ||
		     sqe->off > INT64_MAX - bytes))
		return -EINVAL;
	return 0;
}

/* Not inline, so that uaio_rw_prep() need not save registers. */
static __attribute__((noinline)) int check_all(const struct uaio_sqe *sqe,
					       const struct uaio_file *file,
					       uint32_t mode)
{
	if (sqe->ioprio) {
		int ret = uaio_rw_check_ioprio(sqe->ioprio);

		if (ret < 0)
			return ret;
	}
	if (sqe->rw_flags) {
		int ret = check_flags(sqe, file, uaio_file_has(file, mode));

		if (ret < 0)
			return ret;
	}
	if (unlikely(!uaio_file_has(file, mode)))
		return uaio_file_has(file, UAIO_FILE_F_RING) ? -EINVAL : -EBADF;
	return check_place(sqe, uaio_optab[sqe->op].is_vectored
					? check_iovs(sqe)
					: check_buffer(sqe));
}

int uaio_rw_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	uint32_t mode = op->class == UAIO_CLASS_READ ? UAIO_FILE_F_READ
						     : UAIO_FILE_F_WRITE;

	if (likely(!(sqe->ioprio | sqe->rw_flags) && !op->is_vectored &&
		   uaio_file_has(file, mode)))
		return check_place(sqe, check_buffer(sqe));
	return check_all(sqe, file, mode);
}
