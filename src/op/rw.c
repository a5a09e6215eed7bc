/* SPDX-License-Identifier: MIT */
/*
 * READ, WRITE and their vectored forms
 *
 * A request without flags is the plainest call that does it: the vectored ones
 * cost 90 ns more than pread and pwrite.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/sys.h"
#include "base/uaddr.h"
#include "options/config.h"
#include "file/file.h"
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

	if (sys_capget(&header, data) < 0)
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
		if (sqe->len == 1 && part > UAIO_RW_BYTES_MAX)
			part = UAIO_RW_BYTES_MAX;
		if (!uaio_is_user_range((uintptr_t)sqe->iov[i].iov_base, part))
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
 * Flags that the file cannot honour come before all other mistakes. Which those
 * are only the kernel knows, and it tells only of a request without mistakes;
 * refused here is what no file of this kind honours.
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

int uaio_rw_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
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
	bytes = op->is_vectored ? check_iovs(sqe) : check_buffer(sqe);
	if (unlikely(bytes < 0))
		return (int)bytes;
	if (unlikely(sqe->off < UAIO_OFF_POSITION ||
		     sqe->off > INT64_MAX - bytes))
		return -EINVAL;
	return 0;
}

static bool is_at_position(const struct uaio_sqe *sqe, bool is_stream)
{
	return is_stream || sqe->off == UAIO_OFF_POSITION;
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
	return res == -ENOTSOCK || res == -ENOSYS ? sys_write(fd, NULL, 0)
						  : res;
}

/*
 * A pipe for which the kernel has no RWF_NOWAIT is a FIFO opened by its path.
 * (Or one that was spliced from; those may be in packet mode, of which their
 * reader has no sign. A FIFO is hardly ever: that takes an fcntl().)
 */
static bool may_be_fifo(int fd)
{
	struct statfs fs;

	return sys_fstatfs(fd, &fs) == 0 && fs.f_type != PIPEFS_MAGIC;
}

/*
 * vmsplice() copies out of a FIFO just as a read does, but for packets, and is
 * told for each call whether to wait. At the other end it would write, so it is
 * for read-only descriptors.
 */
static int64_t read_fifo_nowait(int fd, const struct iovec *iov, int nr)
{
	int open_flags = sys_fcntl(fd, F_GETFL, 0);
	int64_t res;

	if (open_flags < 0 || (open_flags & O_ACCMODE) != O_RDONLY ||
	    !may_be_fifo(fd))
		return -EOPNOTSUPP;
	do
		res = sys_vmsplice(fd, iov, nr, SPLICE_F_NONBLOCK);
	while (res == -EINTR);
	/* EBADF: not a pipe */
	return res == -EBADF || res == -ENOSYS ? -EOPNOTSUPP : res;
}

/*
 * The calls that take flags. Some emulators do not know them, some sandboxes do
 * not let them through, with EPERM, which files say, too (sealed ones): then no
 * file can honour a flag.
 */
static int64_t answer(enum uaio_call call, int64_t res)
{
	if (likely(res != -EPERM && res != -EACCES && res != -ENOSYS))
		return res;
	return uaio_call_is_answered(call) ? res : -EOPNOTSUPP;
}

static int64_t readv_flags(const struct uaio_sqe *sqe, int fd,
			   const struct iovec *iov, int nr, bool is_stream,
			   uint32_t flags)
{
	int64_t off = is_stream ? -1 : sqe->off;
	int64_t res = answer(UAIO_CALL_PREADV2,
			     sys_preadv2(fd, iov, nr, off, (int)flags));

	if (res == -EOPNOTSUPP && is_stream && flags & RWF_NOWAIT &&
	    !(sqe->rw_flags & RWF_NOWAIT))
		return read_fifo_nowait(fd, iov, nr);
	return res;
}

static int64_t pwritev_flags(int fd, const struct iovec *iov, int nr,
			     int64_t off, uint32_t flags)
{
	return answer(UAIO_CALL_PWRITEV2,
		      sys_pwritev2(fd, iov, nr, off, (int)flags));
}

/*
 * A write that the kernel cannot try without waiting, to a pipe: without a
 * reader it fails at once.
 */
static bool has_no_reader(int fd)
{
	static const struct timespec zero;
	struct pollfd slot = { .fd = fd };
	struct stat st;

	return sys_ppoll(&slot, 1, &zero, NULL, 0) == 1 &&
	       slot.revents & POLLERR && sys_fstat(fd, &st) == 0 &&
	       S_ISFIFO(st.st_mode);
}

static int64_t refuse_broken(int fd, uint32_t flags)
{
	if (!has_no_reader(fd))
		return -EOPNOTSUPP;
	/* The same bit says that the client wants no signal. */
	if (!(flags & UAIO_RWF_HAS_WAITED))
		(void)sys_tgkill(sys_getpid(), sys_gettid(), SIGPIPE);
	return -EPIPE;
}

/* Where the kernel has no RWF_NOSIGNAL: the signal comes, and is taken back. */
static int64_t write_signal_held(int fd, const struct iovec *iov, int nr,
				 uint32_t flags)
{
	static const struct timespec zero;
	const uint64_t sigpipe = 1ull << (SIGPIPE - 1);
	uint64_t old, pending = 0;
	int64_t res;

	if (!uaio_may_call(UAIO_CALL_SIGPENDING) ||
	    !uaio_may_call(UAIO_CALL_SIGTIMEDWAIT))
		return -EOPNOTSUPP;
	(void)sys_sigmask(SIG_BLOCK, &sigpipe, &old);
	(void)sys_sigpending(&pending);
	res = pwritev_flags(fd, iov, nr, -1, flags);
	/* One that was there before is somebody else's. */
	if (res == -EPIPE && !(pending & sigpipe))
		(void)sys_sigtimedwait(&sigpipe, &zero);
	(void)sys_sigmask(SIG_SETMASK, &old, NULL);
	return res;
}

/*
 * A write that waits in the kernel is told first why the other end went, one
 * that begins later that it is gone.
 */
static int64_t reason_of_end(int fd)
{
	int error = 0;
	uint32_t size = sizeof(error);

	(void)sys_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
	return error == ECONNRESET ? -ECONNRESET : -EPIPE;
}

/* A write to a stream, tried again. */
static int64_t write_again(int fd, const struct iovec *iov, int nr,
			   uint32_t flags)
{
	static uint32_t is_unknown; /* atomic: the kernel knows no NOSIGNAL */
	int64_t res = -EOPNOTSUPP;

	/* relaxed: who does not know it yet finds out */
	if (!load_relaxed(&is_unknown))
		res = pwritev_flags(fd, iov, nr, -1, flags);
	if (res == -EOPNOTSUPP) {
		flags &= ~(uint32_t)UAIO_RWF_HAS_WAITED;
		res = write_signal_held(fd, iov, nr, flags);
		if (res != -EOPNOTSUPP)
			store_relaxed(&is_unknown, 1);
	}
	return res == -EPIPE ? reason_of_end(fd) : res;
}

static int64_t writev_flags(const struct uaio_sqe *sqe, int fd,
			    const struct iovec *iov, int nr, bool is_stream,
			    uint32_t flags)
{
	int64_t off = is_stream ? -1 : sqe->off;
	int64_t res;

	if (!is_stream)
		flags &= ~(uint32_t)UAIO_RWF_HAS_WAITED | sqe->rw_flags;
	if (flags & UAIO_RWF_HAS_WAITED & ~sqe->rw_flags)
		res = write_again(fd, iov, nr, flags);
	else
		res = pwritev_flags(fd, iov, nr, off, flags);
	if (res == -EOPNOTSUPP && is_stream && flags & RWF_NOWAIT &&
	    !(sqe->rw_flags & RWF_NOWAIT))
		return refuse_broken(fd, flags);
	return res;
}

static uint32_t read_flags(const struct uaio_sqe *sqe, uint32_t extra_flags)
{
	return sqe->rw_flags | (extra_flags & ~(uint32_t)UAIO_RWF_HAS_WAITED);
}

int64_t uaio_rw_run_readv(const struct uaio_sqe *sqe, int fd, bool is_stream,
			  uint32_t extra_flags)
{
	uint32_t flags = read_flags(sqe, extra_flags);
	int nr = (int)sqe->len;

	if (is_nothing(sqe, is_stream))
		return sys_read(fd, NULL, 0);
	if (flags)
		return readv_flags(sqe, fd, sqe->iov, nr, is_stream, flags);
	return is_at_position(sqe, is_stream)
		       ? sys_readv(fd, sqe->iov, nr)
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
	return is_at_position(sqe, is_stream)
		       ? sys_writev(fd, sqe->iov, nr)
		       : sys_pwritev(fd, sqe->iov, nr, sqe->off);
}

int64_t uaio_rw_run_read(const struct uaio_sqe *sqe, int fd, bool is_stream,
			 uint32_t extra_flags)
{
	uint32_t flags = read_flags(sqe, extra_flags);
	const struct iovec iov = { sqe->buf, sqe->len };

	if (is_nothing(sqe, is_stream))
		return sys_read(fd, NULL, 0);
	if (flags)
		return readv_flags(sqe, fd, &iov, 1, is_stream, flags);
	return unlikely(is_at_position(sqe, is_stream))
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
	return unlikely(is_at_position(sqe, is_stream))
		       ? sys_write(fd, sqe->buf, sqe->len)
		       : sys_pwrite(fd, sqe->buf, sqe->len, sqe->off);
}
