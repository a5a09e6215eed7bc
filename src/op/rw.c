/* SPDX-License-Identifier: MIT */
/*
 * READ, WRITE and their vectored forms
 *
 * A request without flags is the plainest call that does it: the vectored ones
 * cost 90 ns more than pread and pwrite.
 */
#include <errno.h>
#include <linux/fs.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/sys.h"
#include "base/uaddr.h"
#include "engine/config.h"
#include "engine/file.h"
#include "op/op.h"

enum {
	IOVS_MAX = 1024,        /* UIO_MAXIOV */
	RWF_KNOWN_END = 1 << 9, /* no kernel knows a flag from here on */
	RWF_APPEND_EITHER = 0x10 | 0x20, /* APPEND, NOAPPEND */
	RWF_ATOMIC_ = 0x40, /* newer than the headers of many a machine */
	RWF_DONTCACHE_ = 0x80,
	IOPRIO_CLASS_SHIFT = 13,
	IOPRIO_LEVEL_MASK = 7,
	CAP_SYS_NICE = 23,
	CAP_SYS_ADMIN = 21,
};

/* What one call moves at most: INT_MAX less the rest of its page. */
static const uint64_t RW_BYTES_MAX = 0x7ffff000;

/* Real-time classes are for the privileged; who is, only the kernel knows. */
static bool may_be_realtime(void)
{
	struct {
		uint32_t version;
		int pid;
	} header = { 0x20080522, 0 };
	struct {
		uint32_t effective, permitted, inheritable;
	} data[2];

	if (uaio_sys6(SYS_capget, (long)&header, (long)data, 0, 0, 0, 0) < 0)
		return false;
	return data[0].effective & (1u << CAP_SYS_NICE | 1u << CAP_SYS_ADMIN);
}

static int check_ioprio(uint16_t ioprio)
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

/* Return: bytes, 0 or more, or -errno. */
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
		if ((int64_t)sqe->iov[i].iov_len < 0)
			return -EINVAL;
	for (uint64_t i = 0; i < sqe->len; i++) {
		uint64_t part = sqe->iov[i].iov_len;

		/* One piece alone is cut before it is looked at. */
		if (sqe->len == 1 && part > RW_BYTES_MAX)
			part = RW_BYTES_MAX;
		if (!uaio_is_user_range((uintptr_t)sqe->iov[i].iov_base, part))
			return -EFAULT;
		if (part > RW_BYTES_MAX - bytes)
			part = RW_BYTES_MAX - bytes;
		bytes += part;
	}
	return (int64_t)bytes;
}

static int64_t check_buffer(const struct uaio_sqe *sqe)
{
	uint64_t bytes = sqe->len < RW_BYTES_MAX ? sqe->len : RW_BYTES_MAX;

	return uaio_is_user_range((uintptr_t)sqe->buf, bytes) ? (int64_t)bytes
							      : -EFAULT;
}

/*
 * Flags that the file cannot honour come before all other mistakes. Which those
 * are only the kernel knows, and it tells only of a request without mistakes;
 * refused here is what no file of this kind honours.
 */
static int check_flags(const struct uaio_sqe *sqe, const struct uaio_file *file,
		       bool is_right_way)
{
	const uint32_t neither = UAIO_FILE_F_NO_READ | UAIO_FILE_F_NO_WRITE;
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

int uaio_rw_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	uint32_t none = op->class == UAIO_CLASS_READ ? UAIO_FILE_F_NO_READ
						     : UAIO_FILE_F_NO_WRITE;
	uint32_t mode = op->class == UAIO_CLASS_READ ? UAIO_FILE_F_READ
						     : UAIO_FILE_F_WRITE;
	int64_t bytes;

	if (unlikely(sqe->ioprio)) {
		int ret = check_ioprio(sqe->ioprio);

		if (ret < 0)
			return ret;
	}
	if (unlikely(sqe->rw_flags)) {
		int ret = check_flags(sqe, file, uaio_file_has(file, mode));

		if (ret < 0)
			return ret;
	}
	if (unlikely(!uaio_file_has(file, mode)))
		return -EBADF;
	if (unlikely(uaio_file_has(file, none)))
		return -EINVAL;
	bytes = op->is_vectored ? check_iovs(sqe) : check_buffer(sqe);
	if (unlikely(bytes < 0))
		return (int)bytes;
	if (unlikely(sqe->off < 0 || sqe->off > INT64_MAX - bytes))
		return -EINVAL;
	return 0;
}

/*
 * Nothing to read or write on a stream: the vectored calls would not even ask
 * the file. An eventfd refuses it, a datagram socket sends a datagram of it.
 */
static bool is_nothing(const struct uaio_sqe *sqe, bool is_stream)
{
	return unlikely(is_stream) && !uaio_sqe_bytes(sqe);
}

static int64_t write_nothing(int fd)
{
	int64_t res = sys_send(fd, NULL, 0, MSG_DONTWAIT);

	/* Only a socket can make this wait. */
	return res == -ENOTSOCK ? sys_write(fd, NULL, 0) : res;
}

/*
 * The calls that take flags. Some emulators do not know them: then no file can
 * honour a flag.
 */
static int64_t readv_flags(const struct uaio_sqe *sqe, int fd,
			   const struct iovec *iov, int nr, bool is_stream,
			   uint32_t flags)
{
	int64_t res =
		sys_preadv2(fd, iov, nr, is_stream ? -1 : sqe->off, (int)flags);

	return res == -ENOSYS ? -EOPNOTSUPP : res;
}

static int64_t writev_flags(const struct uaio_sqe *sqe, int fd,
			    const struct iovec *iov, int nr, bool is_stream,
			    uint32_t flags)
{
	int64_t res = sys_pwritev2(fd, iov, nr, is_stream ? -1 : sqe->off,
				   (int)flags);

	return res == -ENOSYS ? -EOPNOTSUPP : res;
}

int64_t uaio_rw_run_readv(const struct uaio_sqe *sqe, int fd, bool is_stream,
			  uint32_t extra_flags)
{
	uint32_t flags = sqe->rw_flags | extra_flags;
	int nr = (int)sqe->len;

	if (is_nothing(sqe, is_stream))
		return sys_read(fd, NULL, 0);
	if (flags)
		return readv_flags(sqe, fd, sqe->iov, nr, is_stream, flags);
	return is_stream ? sys_readv(fd, sqe->iov, nr)
			 : sys_preadv(fd, sqe->iov, nr, sqe->off);
}

int64_t uaio_rw_run_writev(const struct uaio_sqe *sqe, int fd, bool is_stream,
			   uint32_t extra_flags)
{
	uint32_t flags = sqe->rw_flags | extra_flags;
	int nr = (int)sqe->len;

	if (is_nothing(sqe, is_stream))
		return write_nothing(fd);
	if (flags)
		return writev_flags(sqe, fd, sqe->iov, nr, is_stream, flags);
	return is_stream ? sys_writev(fd, sqe->iov, nr)
			 : sys_pwritev(fd, sqe->iov, nr, sqe->off);
}

int64_t uaio_rw_run_read(const struct uaio_sqe *sqe, int fd, bool is_stream,
			 uint32_t extra_flags)
{
	uint32_t flags = sqe->rw_flags | extra_flags;
	const struct iovec iov = { sqe->buf, sqe->len };

	if (is_nothing(sqe, is_stream))
		return sys_read(fd, NULL, 0);
	if (flags)
		return readv_flags(sqe, fd, &iov, 1, is_stream, flags);
	return unlikely(is_stream)
		       ? sys_read(fd, sqe->buf, sqe->len)
		       : sys_pread(fd, sqe->buf, sqe->len, sqe->off);
}

int64_t uaio_rw_run_write(const struct uaio_sqe *sqe, int fd, bool is_stream,
			  uint32_t extra_flags)
{
	uint32_t flags = sqe->rw_flags | extra_flags;
	const struct iovec iov = { sqe->buf, sqe->len };

	if (is_nothing(sqe, is_stream))
		return write_nothing(fd);
	if (flags)
		return writev_flags(sqe, fd, &iov, 1, is_stream, flags);
	return unlikely(is_stream)
		       ? sys_write(fd, sqe->buf, sqe->len)
		       : sys_pwrite(fd, sqe->buf, sqe->len, sqe->off);
}
