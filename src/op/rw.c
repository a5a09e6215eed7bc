/* SPDX-License-Identifier: MIT */
/*
 * READ, WRITE and their vectored forms
 *
 * A request without flags uses the simplest possible system call: preadv and pwritev take
 * 90 ns longer than pread and pwrite. On a socket they take 0.2 us longer than recv and
 * send, which also accept MSG_DONTWAIT.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/asked.h"
#include "base/check.h"
#include "base/signals.h"
#include "base/sys.h"
#include "file/file.h"
#include "file/inspect.h"
#include "op/args.h"
#include "op/rows.h"
#include "op/sock.h"

static const uint64_t SIGPIPE_BIT = 1ull << (SIGPIPE - 1);

static bool is_at_position(const struct uaio_sqe *sqe, bool is_stream)
{
	return is_stream || sqe->off == UAIO_OFF_POSITION;
}

/*
 * Return: whether the request transfers 0 bytes on a stream. For 0 bytes, readv() and
 * writev() return without calling the file's driver. So such a request needs another
 * call: an eventfd must refuse it, and a datagram socket must send an empty datagram.
 */
static bool is_nothing(const struct uaio_sqe *sqe, bool is_stream)
{
	return unlikely(is_stream) && !uaio_sqe_bytes(sqe);
}

/* Return: the target of the file's link in /proc/self/fd. */
static const char *name_of(int fd, char ret_name[32])
{
	char path[UAIO_FD_PATH_BYTES];
	int64_t nr;

	uaio_fd_path(fd, path);
	nr = sys_readlinkat(AT_FDCWD, path, ret_name, 31);
	ret_name[nr < 0 ? 0 : nr] = '\0';
	return ret_name;
}

static bool is_eventfd(int fd)
{
	char name[32];

	return !strcmp(name_of(fd, name), "anon_inode:[eventfd]");
}

static int64_t write_nothing(const struct uaio_sqe *sqe, int fd)
{
	int64_t res = sys_send(
		fd, NULL, 0,
		MSG_DONTWAIT |
			(uaio_sqe_rules(sqe)->no_sigpipe ? MSG_NOSIGNAL : 0));

	/* If the file is not a socket, a write() of 0 bytes cannot block. */
	if (res == -ENOTSOCK || res == -ENOSYS)
		res = sys_write(fd, NULL, 0);
	/*
	 * For 0 bytes the kernel's io_uring does not call the file's driver, so an eventfd
	 * does not refuse the request.
	 */
	return res == -EINVAL && uaio_sqe_rules(sqe)->skips_empty &&
			       is_eventfd(fd)
		       ? 0
		       : res;
}

/*
 * fd is a pipe that refuses RWF_NOWAIT. An unnamed pipe refuses RWF_NOWAIT after a splice
 * from the pipe. Such a pipe may be in packet mode, where vmsplice() must not replace a
 * read, because it ignores packets. A FIFO is hardly ever in packet mode, because there
 * only fcntl() sets this mode.
 * Return: whether fd is a FIFO, which was opened by its path.
 */
static bool may_be_fifo(int fd)
{
	struct statfs fs;

	return sys_fstatfs(fd, &fs) == 0 && fs.f_type != PIPEFS_MAGIC;
}

/*
 * Read from a FIFO by vmsplice(), which copies the data like a read, but ignores packet
 * boundaries. With SPLICE_F_NONBLOCK it does not block. On a descriptor that is open for
 * writing, vmsplice() would write, so use it only on read-only descriptors.
 */
static int64_t read_fifo_nowait(int fd, const struct iovec *iov, int nr)
{
	int open_flags = sys_fcntl(fd, F_GETFL, 0);
	int64_t res;

	if (open_flags < 0 || (open_flags & O_ACCMODE) != O_RDONLY ||
	    !may_be_fifo(fd))
		return UAIO_OP_BLOCKS;
	do
		res = sys_vmsplice(fd, iov, nr, SPLICE_F_NONBLOCK);
	while (res == -EINTR);
	/* EBADF: fd is not a pipe */
	return res == -EBADF || res == -ENOSYS ? UAIO_OP_BLOCKS : res;
}

/*
 * A write waited on a socket whose other end has closed. In the kernel this write
 * returns the socket's error, ECONNRESET or EPIPE; later writes return EPIPE.
 * Return: the error of the write.
 */
static int64_t reason_of_end(int fd)
{
	int error = 0;
	uint32_t size = sizeof(error);

	(void)sys_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
	return error == ECONNRESET ? -ECONNRESET : -EPIPE;
}

/*
 * Return: whether the result shows that fd is no socket any more, or that the kernel
 * refuses the call.
 */
static bool is_no_socket(int64_t res)
{
	return res == -ENOTSOCK || res == -ENOSYS;
}

/*
 * The kernel refuses a try with RWF_NOWAIT.
 * Return: whether the library may instead use a call without the client's flags, as these
 * flags have no effect on a stream.
 */
static bool may_try_otherwise(const struct uaio_sqe *sqe, bool is_stream,
			      uint32_t flags)
{
	const uint32_t without_effect =
		RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_APPEND;

	return is_stream && flags & RWF_NOWAIT &&
	       !(sqe->rw_flags & ~without_effect);
}

/*
 * Linux before 6.5 refuses RWF_NOWAIT on sockets, but recvmsg() accepts MSG_DONTWAIT.
 * Return: as for recvmsg(); UAIO_OP_BLOCKS: fd is no socket, or the kernel refuses the
 * call.
 */
static int64_t read_message(int fd, const struct iovec *iov, int nr)
{
	struct uaio_msghdr msg = {
		.msg_iov = (struct iovec *)(uintptr_t)iov,
		.msg_iovlen = (size_t)nr,
	};
	int64_t res = sys_recvmsg(fd, &msg, MSG_DONTWAIT);

	return is_no_socket(res) ? UAIO_OP_BLOCKS : res;
}

/* Like read_message(), but write. On SOCK_SEQPACKET each write ends a record. */
static int64_t write_message(int fd, const struct iovec *iov, int nr,
			     bool no_sigpipe)
{
	struct uaio_msghdr msg = {
		.msg_iov = (struct iovec *)(uintptr_t)iov,
		.msg_iovlen = (size_t)nr,
	};
	int type = uaio_sock_option(fd, SO_TYPE);
	int64_t res;

	if (type < 0)
		return UAIO_OP_BLOCKS;
	res = sys_sendmsg(fd, &msg,
			  MSG_DONTWAIT | (no_sigpipe ? MSG_NOSIGNAL : 0) |
				  (type == SOCK_SEQPACKET ? MSG_EOR : 0));
	if (res == -EPIPE && no_sigpipe)
		return reason_of_end(fd);
	return is_no_socket(res) ? UAIO_OP_BLOCKS : res;
}

/*
 * Return: whether fd is a timerfd or signalfd, for which this read is too short, so that it
 * fails and does not block. Linux before 6.10 refuses RWF_NOWAIT on such files.
 */
static bool is_too_short(int fd, const struct iovec *iov)
{
	enum { TICKS_BYTES = 8, SIGNAL_BYTES = 128 };
	char name[32];

	if (iov->iov_len >= SIGNAL_BYTES)
		return false;
	(void)name_of(fd, name);
	return !strcmp(name, "anon_inode:[signalfd]") ||
	       (iov->iov_len < TICKS_BYTES &&
		!strcmp(name, "anon_inode:[timerfd]"));
}

/* The file refuses RWF_NOWAIT: try a read by another call that does not block. */
static int64_t read_otherwise(int fd, const struct iovec *iov, int nr)
{
	int64_t res = read_fifo_nowait(fd, iov, nr);

	if (res == UAIO_OP_BLOCKS)
		res = read_message(fd, iov, nr);
	return res == UAIO_OP_BLOCKS && is_too_short(fd, iov) ? -EINVAL : res;
}

/*
 * A call with RWF_* flags has returned res. Emulators and sandboxes may refuse all such
 * calls, by EPERM, EACCES or ENOSYS: then no file honours a flag, and the result is
 * EOPNOTSUPP. But a sealed file also returns EPERM, so uaio_call_is_answered() finds
 * out what has refused the call.
 * Return: the request's result.
 */
static int64_t answer(enum uaio_call call, int64_t res)
{
	if (likely(res != -EPERM && res != -EACCES && res != -ENOSYS))
		return res;
	return uaio_call_is_answered(call) ? res : -EOPNOTSUPP;
}

/*
 * Linux 5.9 and 5.10 may end a read with RWF_NOWAIT early, or return 0, as if the file
 * ended there. This happens at a page that readahead has marked. Only a read that may
 * block can tell whether a device ends there. So if the client itself set RWF_NOWAIT
 * for a device, the client gets the kernel's result.
 * Return: whether the file has, or may have, bytes at the offset of the read.
 */
static bool may_go_on(const struct uaio_sqe *sqe, int fd)
{
	int64_t off = sqe->off;
	struct stat st;

	if (!uaio_sqe_bytes(sqe))
		return false;
	if (off == UAIO_OFF_POSITION)
		off = sys_lseek(fd, 0, SEEK_CUR);
	if (sys_fstat(fd, &st) < 0 || S_ISBLK(st.st_mode))
		return !(sqe->rw_flags & RWF_NOWAIT);
	return S_ISREG(st.st_mode) && off < st.st_size;
}

/* Return: whether the file refuses a RWF_NOWAIT that only the library has set. */
static bool is_without_way(const struct uaio_sqe *sqe, uint32_t flags,
			   int64_t res)
{
	return res == -EOPNOTSUPP && flags & ~sqe->rw_flags & RWF_NOWAIT;
}

static int64_t readv_flags(const struct uaio_sqe *sqe, int fd,
			   const struct iovec *iov, int nr, bool is_stream,
			   uint32_t flags)
{
	int64_t off = is_stream ? -1 : sqe->off;
	int64_t res = answer(UAIO_CALL_PREADV2,
			     sys_preadv2(fd, iov, nr, off, (int)flags));

	if (is_without_way(sqe, flags, res))
		return may_try_otherwise(sqe, is_stream, flags)
			       ? read_otherwise(fd, iov, nr)
			       : UAIO_OP_BLOCKS;
	if (unlikely(!res) && !is_stream && flags & RWF_NOWAIT &&
	    may_go_on(sqe, fd))
		return -EAGAIN;
	return res;
}

static int64_t pwritev_flags(int fd, const struct iovec *iov, int nr,
			     int64_t off, uint32_t flags)
{
	return answer(UAIO_CALL_PWRITEV2,
		      sys_pwritev2(fd, iov, nr, off, (int)flags));
}

/*
 * Called if the kernel cannot execute the write without blocking.
 * Return: whether fd is a pipe without a reader: then the write fails at once.
 */
static bool has_no_reader(int fd)
{
	static const struct timespec zero;
	struct pollfd pfd = { .fd = fd };
	struct stat st;

	return sys_ppoll(&pfd, 1, &zero, NULL, 0) == 1 &&
	       pfd.revents & POLLERR && sys_fstat(fd, &st) == 0 &&
	       S_ISFIFO(st.st_mode);
}

static int64_t refuse_broken(int fd, uint32_t flags)
{
	if (!has_no_reader(fd))
		return UAIO_OP_BLOCKS;
	/*
	 * UAIO_RWF_HAS_WAITED has the bit of RWF_NOSIGNAL, so this test is also right for a
	 * client that sets RWF_NOSIGNAL.
	 */
	if (!(flags & UAIO_RWF_HAS_WAITED))
		(void)sys_tgkill(sys_getpid(), sys_gettid(), SIGPIPE);
	return -EPIPE;
}

static bool is_sigpipe_blocked(void)
{
	const uint64_t none = 0;
	uint64_t mask = 0;

	(void)sys_sigmask(SIG_BLOCK, &none, &mask);
	return mask & SIGPIPE_BIT;
}

/*
 * Used if the kernel has no RWF_NOSIGNAL, or a seccomp filter refuses calls with flags:
 * write without raising SIGPIPE. The filter may also refuse the calls that consume a
 * signal. Then only a thread that blocks SIGPIPE anyway, as each worker does, makes the
 * write: the signal stays pending there. In other threads the result is EOPNOTSUPP.
 */
static int64_t write_signal_held(int fd, const struct iovec *iov, int nr,
				 uint32_t flags)
{
	struct uaio_blocked_signals blocked;
	bool is_held = uaio_signals_block(SIGPIPE_BIT, &blocked);
	int64_t res;

	if (!is_held && !is_sigpipe_blocked())
		return -EOPNOTSUPP;
	res = flags ? pwritev_flags(fd, iov, nr, -1, flags)
		    : sys_writev(fd, iov, nr);
	if (is_held)
		uaio_signals_unblock(&blocked, res == -EPIPE);
	return res;
}

/* Write to a stream without raising SIGPIPE. */
static int64_t write_again(int fd, const struct iovec *iov, int nr,
			   uint32_t flags)
{
	/* atomic: set if the kernel does not know RWF_NOSIGNAL */
	static uint32_t is_unknown;
	int64_t res = -EOPNOTSUPP;

	/* relaxed: a thread that still reads 0 makes one more call, which fails */
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

/*
 * Return: the RWF_* flags of a write. On a stream they include RWF_NOSIGNAL if SIGPIPE must
 * not be raised.
 */
static uint32_t write_flags(const struct uaio_sqe *sqe, bool is_stream,
			    uint32_t extra_flags)
{
	uint32_t flags = sqe->rw_flags |
			 (extra_flags & (RWF_NOWAIT | UAIO_RWF_HAS_WAITED));

	return unlikely(is_stream) && uaio_sqe_rules(sqe)->no_sigpipe
		       ? flags | UAIO_RWF_HAS_WAITED
		       : flags;
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
	if (!is_without_way(sqe, flags, res))
		return res;
	if (may_try_otherwise(sqe, is_stream, flags)) {
		res = write_message(fd, iov, nr, flags & UAIO_RWF_HAS_WAITED);
		if (res != UAIO_OP_BLOCKS)
			return res;
	}
	return is_stream ? refuse_broken(fd, flags) : UAIO_OP_BLOCKS;
}

static uint32_t read_flags(const struct uaio_sqe *sqe, uint32_t extra_flags)
{
	return sqe->rw_flags | (extra_flags & RWF_NOWAIT);
}

/*
 * Return: whether recv() or send() may replace the read or write: fd is a stream
 * socket, the call must not block, and the client has set no RWF_* flags.
 */
static bool is_for_socket(const struct uaio_sqe *sqe, uint32_t extra_flags)
{
	const uint32_t both = RWF_NOWAIT | UAIO_RWF_ON_SOCKET;

	return (extra_flags & both) == both && !sqe->rw_flags;
}

int64_t uaio_rw_run_readv(const struct uaio_sqe *sqe, int fd,
			  struct uaio_found *found, uint32_t extra_flags)
{
	bool is_stream = extra_flags & UAIO_RWF_ON_STREAM;
	uint32_t flags = read_flags(sqe, extra_flags);
	int nr = (int)sqe->len;

	(void)found;
	if (is_nothing(sqe, is_stream))
		return sys_read(fd, NULL, 0);
	if (flags)
		return readv_flags(sqe, fd, sqe->iov, nr, is_stream, flags);
	return is_at_position(sqe, is_stream)
		       ? sys_readv(fd, sqe->iov, nr)
		       : sys_preadv(fd, sqe->iov, nr, sqe->off);
}

/*
 * After a short write of res bytes, restore the file position. For io_uring the kernel
 * would write the rest by a second call. If that call fails, the kernel leaves the
 * position as it was before the write. The position of a file opened with O_APPEND
 * cannot be restored.
 */
static int64_t stay(const struct uaio_sqe *sqe, int fd, bool is_stream,
		    int64_t res)
{
	int open_flags;

	if (likely(is_stream || sqe->off != UAIO_OFF_POSITION ||
		   !uaio_sqe_rules(sqe)->ends_short_writes || res <= 0 ||
		   (uint64_t)res >= uaio_sqe_bytes(sqe)))
		return res;
	open_flags = sys_fcntl(fd, F_GETFL, 0);
	if (open_flags >= 0 && !(open_flags & O_APPEND))
		(void)sys_lseek(fd, -res, SEEK_CUR);
	return res;
}

int64_t uaio_rw_run_writev(const struct uaio_sqe *sqe, int fd,
			   struct uaio_found *found, uint32_t extra_flags)
{
	bool is_stream = extra_flags & UAIO_RWF_ON_STREAM;
	uint32_t flags = write_flags(sqe, is_stream, extra_flags);
	int nr = (int)sqe->len;

	(void)found;
	if (is_nothing(sqe, is_stream))
		return write_nothing(sqe, fd);
	if (flags)
		return stay(
			sqe, fd, is_stream,
			writev_flags(sqe, fd, sqe->iov, nr, is_stream, flags));
	return is_at_position(sqe, is_stream)
		       ? stay(sqe, fd, is_stream, sys_writev(fd, sqe->iov, nr))
		       : sys_pwritev(fd, sqe->iov, nr, sqe->off);
}

/*
 * Return: the result of reading a directory: -EISDIR. With io_uring's rules a read of 0
 * bytes returns 0, as the kernel's io_uring does not call the file's driver.
 */
static int64_t read_folder(const struct uaio_sqe *sqe)
{
	return uaio_sqe_rules(sqe)->skips_empty && !sqe->len ? 0 : -EISDIR;
}

int64_t uaio_rw_run_read(const struct uaio_sqe *sqe, int fd,
			 struct uaio_found *found, uint32_t extra_flags)
{
	bool is_stream = extra_flags & UAIO_RWF_ON_STREAM;
	uint32_t flags = read_flags(sqe, extra_flags);
	const struct iovec iov = { sqe->buf, sqe->len };
	int64_t res;

	(void)found;
	if (is_nothing(sqe, is_stream))
		return sys_read(fd, NULL, 0);
	if (is_for_socket(sqe, extra_flags)) {
		res = sys_recv(fd, sqe->buf, sqe->len, MSG_DONTWAIT);
		if (likely(!is_no_socket(res)))
			return res;
	}
	if (flags)
		return readv_flags(sqe, fd, &iov, 1, is_stream, flags);
	res = unlikely(is_at_position(sqe, is_stream))
		      ? sys_read(fd, sqe->buf, sqe->len)
		      : sys_pread(fd, sqe->buf, sqe->len, sqe->off);
	return unlikely(res == -EISDIR) ? read_folder(sqe) : res;
}

int uaio_rw_select(struct uaio_sqe *sqe)
{
	struct iovec iov;
	int ret = -EBADFD;

	/*
	 * A multishot request must choose other memory for each shot, not once for all
	 * shots: so this function fails.
	 */
	if (!sqe->is_multishot)
		ret = uaio_op_door->pick(sqe, sqe->len, true, &iov);
	if (ret < 0)
		return ret;
	sqe->op = UAIO_OP_READ;
	sqe->by_door = false;
	sqe->buf = iov.iov_base;
	sqe->len = iov.iov_len;
	return 0;
}

int uaio_rw_pick(const struct uaio_sqe *sqe, int fd, bool may_block,
		 uint32_t extra_flags, struct iovec *ret_iov)
{
	int ret = uaio_op_door->pick(sqe, sqe->len, may_block, ret_iov);

	/*
	 * Without a buffer, a retried request waits again if there is nothing to read, as
	 * in the kernel.
	 */
	return ret == -ENOBUFS && extra_flags & UAIO_RWF_HAS_WAITED &&
			       !may_block && !uaio_may_be_ready(fd, POLLIN)
		       ? -EAGAIN
		       : ret;
}

int64_t uaio_rw_run_select(const struct uaio_sqe *sqe, int fd,
			   struct uaio_found *found, uint32_t extra_flags)
{
	uint32_t flags = sqe->rw_flags | extra_flags;
	bool may_block =
		!(extra_flags & UAIO_RWF_ON_STREAM) || !(flags & RWF_NOWAIT);
	struct uaio_sqe own = *sqe;
	struct iovec iov;
	int64_t res;
	int ret = uaio_rw_pick(sqe, fd, may_block, extra_flags, &iov);

	if (ret < 0)
		return ret;
	own.op = UAIO_OP_READ;
	own.buf = iov.iov_base;
	own.len = iov.iov_len;
	res = uaio_rw_run_read(&own, fd, found, extra_flags);
	uaio_op_door->picked(sqe, res);
	return res;
}

/* Write to a socket by send(). flags: as for writev_flags(). */
static int64_t write_socket(const struct uaio_sqe *sqe, int fd, uint32_t flags)
{
	bool no_sigpipe = flags & UAIO_RWF_HAS_WAITED;
	int64_t res = sys_send(fd, sqe->buf, sqe->len,
			       MSG_DONTWAIT | (no_sigpipe ? MSG_NOSIGNAL : 0));

	return res == -EPIPE && no_sigpipe ? reason_of_end(fd) : res;
}

int64_t uaio_rw_run_write(const struct uaio_sqe *sqe, int fd,
			  struct uaio_found *found, uint32_t extra_flags)
{
	bool is_stream = extra_flags & UAIO_RWF_ON_STREAM;
	uint32_t flags = write_flags(sqe, is_stream, extra_flags);
	const struct iovec iov = { sqe->buf, sqe->len };
	int64_t res;

	(void)found;
	if (is_nothing(sqe, is_stream))
		return write_nothing(sqe, fd);
	if (is_for_socket(sqe, extra_flags)) {
		res = write_socket(sqe, fd, flags);
		if (likely(!is_no_socket(res)))
			return res;
	}
	if (flags)
		return stay(sqe, fd, is_stream,
			    writev_flags(sqe, fd, &iov, 1, is_stream, flags));
	return unlikely(is_at_position(sqe, is_stream))
		       ? stay(sqe, fd, is_stream,
			      sys_write(fd, sqe->buf, sqe->len))
		       : sys_pwrite(fd, sqe->buf, sqe->len, sqe->off);
}
