/* SPDX-License-Identifier: MIT */
/*
 * READ, WRITE and their vectored forms
 *
 * A request without flags uses the simplest system call possible: the vectored calls take 90
 * ns more than pread and pwrite. On a socket the vectored calls take 0.2 us more than recv and
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
#include "base/sys.h"
#include "file/file.h"
#include "file/inspect.h"
#include "op/args.h"
#include "op/rows.h"
#include "op/signals.h"
#include "op/sock.h"

static const uint64_t SIGPIPE_BIT = 1ull << (SIGPIPE - 1);

static bool is_at_position(const struct uaio_sqe *sqe, bool is_stream)
{
	return is_stream || sqe->off == UAIO_OFF_POSITION;
}

/*
 * Return: whether the request reads or writes 0 bytes on a stream. For such a request the
 * vectored calls would not call the file. But an eventfd refuses a read or write of 0 bytes,
 * and a datagram socket sends an empty datagram.
 */
static bool is_nothing(const struct uaio_sqe *sqe, bool is_stream)
{
	return unlikely(is_stream) && !uaio_sqe_bytes(sqe);
}

/* Return: the name of the file in /proc/self/fd. */
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

	/* A write of 0 bytes can block only on a socket. */
	if (res == -ENOTSOCK || res == -ENOSYS)
		res = sys_write(fd, NULL, 0);
	/*
	 * The kernel's io_uring does not call the file for 0 bytes, so an eventfd does not
	 * refuse.
	 */
	return res == -EINVAL && uaio_sqe_rules(sqe)->skips_empty &&
			       is_eventfd(fd)
		       ? 0
		       : res;
}

/*
 * Return: whether a pipe that refuses RWF_NOWAIT is a FIFO, which was opened by its path. An
 * unnamed pipe refuses RWF_NOWAIT if it was spliced from. It may be in packet mode, which its
 * reader cannot find out. A FIFO is hardly ever in packet mode, as that needs a call of
 * fcntl().
 */
static bool may_be_fifo(int fd)
{
	struct statfs fs;

	return sys_fstatfs(fd, &fs) == 0 && fs.f_type != PIPEFS_MAGIC;
}

/*
 * Read from a FIFO by vmsplice(). vmsplice() copies the data like a read, but ignores packet
 * boundaries; SPLICE_F_NONBLOCK keeps it from blocking. On a descriptor that is open for
 * writing vmsplice() would write, so only read-only descriptors are read in this way.
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
	/* EBADF: not a pipe */
	return res == -EBADF || res == -ENOSYS ? UAIO_OP_BLOCKS : res;
}

/*
 * Return: the error of a write that has waited when the other end closes. In the kernel
 * such a write gets the error with which the other end closed; a later write gets EPIPE.
 */
static int64_t reason_of_end(int fd)
{
	int error = 0;
	uint32_t size = sizeof(error);

	(void)sys_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
	return error == ECONNRESET ? -ECONNRESET : -EPIPE;
}

/* Return: whether fd now refers to another file, or the kernel refuses the call. */
static bool is_no_socket(int64_t res)
{
	return res == -ENOTSOCK || res == -ENOSYS;
}

/*
 * Return: whether, if the kernel refuses a try, the library may use a call without the
 * client's flags, because these flags have no effect on a stream.
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
 * Return: as recvmsg(); UAIO_OP_BLOCKS: fd is no socket, or the call is refused.
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

/* Like read_message(), for a write. A write to a SOCK_SEQPACKET socket ends a record. */
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
 * Return: whether fd is a timerfd or signalfd that fails the read as too short, instead of
 * blocking. Linux before 6.10 refuses RWF_NOWAIT on such files.
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
 * Return: the request's result, for a call with RWF_* flags that returned res. Emulators and
 * sandboxes may refuse such calls: then no file can honour a flag, and the result is
 * EOPNOTSUPP. But EPERM may also come from the file, if it is sealed.
 */
static int64_t answer(enum uaio_call call, int64_t res)
{
	if (likely(res != -EPERM && res != -EACCES && res != -ENOSYS))
		return res;
	return uaio_call_is_answered(call) ? res : -EOPNOTSUPP;
}

/*
 * Linux 5.9 and 5.10 may end a read with RWF_NOWAIT early, or return 0, at a page that
 * read ahead has marked, as if the file ended there.
 * Return: whether the file continues, or may continue. Where a device ends, only a read that
 * may block shows. A client that forbids blocking gets the kernel's result.
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

/* Return: whether the file refuses RWF_NOWAIT, and the client did not set this flag. */
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
 * Return: whether fd is a pipe without a reader, so that a write fails at once. Called if
 * the kernel cannot try the write without blocking.
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
	/* The bit equals RWF_NOSIGNAL, so it may also come from the client. */
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
 * Write without SIGPIPE, if the kernel has no RWF_NOSIGNAL, or a seccomp filter refuses the
 * call with flags. If the filter also refuses the calls that consume a signal, only a thread
 * that blocks SIGPIPE makes the write, as each worker does; the signal stays pending in that
 * thread.
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

/* Write to a stream without SIGPIPE. */
static int64_t write_again(int fd, const struct iovec *iov, int nr,
			   uint32_t flags)
{
	/* atomic: the kernel does not know RWF_NOSIGNAL */
	static uint32_t is_unknown;
	int64_t res = -EOPNOTSUPP;

	/* relaxed: a thread that still reads 0 finds out by its own call */
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

/* Return: the flags of a write; on a stream also the flag against SIGPIPE if needed. */
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
 * Return: whether a call that must not block, and for which the client has set no flags, may
 * be the socket's own recv() or send().
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
 * Restore the position of a file after a short write of res bytes. The kernel's io_uring
 * itself retries the rest, fails, and leaves the position unchanged. The position of a file
 * opened with O_APPEND cannot be restored.
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
 * Return: the result of reading a directory: an error. For 0 bytes the kernel's io_uring does
 * not call the file, so the result is 0.
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

	/* A request that chooses memory at once cannot be multishot. */
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

	/* The kernel retries such a request only when there is something to read. */
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

/* Write to a socket by send(). flags: as of writev_flags(). */
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
