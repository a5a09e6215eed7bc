/* SPDX-License-Identifier: MIT */
/*
 * SPLICE and TEE: move bytes between two files, of which at least one is a pipe
 *
 * A splice or tee may block for ever, on an empty or full pipe, or on a socket, which may
 * ignore SPLICE_F_NONBLOCK. So a worker executes it, as in the kernel. The request has
 * references to both files, so that the program may close the descriptors meanwhile. If a
 * call is known not to block, the submitting thread makes it (issue/ends.c). That thread
 * blocks SIGPIPE and SIGXFSZ during the call: in the kernel a worker makes the call, and
 * its signals do not reach the program.
 *
 *   I1  The system call does not wait for a pipe (SPLICE_F_NONBLOCK). If a file ignores this
 *       flag, the call is made only when that file is ready. Instead of blocking in the call,
 *       the worker waits in poll(), and a canceller can end that wait (endable.h).
 *   I2  A stream socket that is ready has free space for a quarter of its buffer. So each call
 *       sends at most this quarter.
 *   I3  A Unix socket takes messages until its send buffer is full, but poll() reports it
 *       ready only while at most a quarter is used. So if more is used, the worker waits
 *       only for a full buffer. The kernel sends up to 16 buffers of a pipe as one message,
 *       which needs only one free byte. If the pipe may hold more buffers, each call sends
 *       at most half of a stream socket's free space, or a page if this is more.
 *
 * Accepted races: another thread may read a socket's bytes after the socket was found ready,
 * or may send to it. A page may lie in more than 16 buffers of a large pipe. The peer's queue
 * of datagrams may be full, too, if over a quarter of a Unix socket's buffer is used. Then
 * the call may block, and cannot be ended. Without an endable (args.h), no wait can be ended.
 *
 * Tested by test-splice.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <linux/sockios.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/asked.h"
#include "base/signals.h"
#include "proc/endable.h"
#include "file/file.h"
#include "op/args.h"
#include "op/rows.h"
#include "op/sock.h"

int uaio_splice_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	const uint32_t known = SPLICE_F_MOVE | SPLICE_F_NONBLOCK |
			       SPLICE_F_MORE | SPLICE_F_GIFT;

	(void)file;
	return sqe->call_flags & ~known ? -EINVAL : 0;
}

/* The result in the kernel's io_uring if a signal has ended the call. */
enum { ERESTARTSYS_ = 512 };

/* One of the two files of a splice or tee. */
struct end {
	int fd;
	uint32_t events; /* events of poll() that mean: the file is ready */
	/* the capacity of a pipe in bytes; 0: the file is no pipe */
	uint32_t pipe_bytes;
	/* the file is a pipe: calls block on it, unless SPLICE_F_NONBLOCK is set */
	bool is_pipe;
	/*
	 * a call does not block on this file: the file is O_NONBLOCK, or obeys
	 * SPLICE_F_NONBLOCK
	 */
	bool is_nonblocking;
	/* calls block on the file even with SPLICE_F_NONBLOCK */
	bool is_stubborn;
	/* calls write to a Unix socket (I3) */
	bool is_unix_out;
};

struct transfer {
	const struct uaio_sqe *sqe;
	bool is_tee;
	struct end ends[UAIO_NR_ENDS];
	/* offsets in both files; each call advances them */
	int64_t offs[UAIO_NR_ENDS];
	uint64_t left;
	int64_t done;
};

static struct end *end_of(struct transfer *transfer, enum uaio_end which)
{
	return &transfer->ends[which];
}

static void use(struct transfer *transfer)
{
	const struct uaio_sqe *sqe = transfer->sqe;
	struct uaio_file *const *files = sqe->args->files;

	*end_of(transfer, UAIO_END_IN) = (struct end){
		.fd = files[UAIO_END_IN] ? uaio_file_use(files[UAIO_END_IN])
					 : sqe->args->fd,
		.events = POLLIN,
	};
	*end_of(transfer, UAIO_END_OUT) = (struct end){
		.fd = files[UAIO_END_OUT] ? uaio_file_use(files[UAIO_END_OUT])
					  : sqe->fd,
		.events = POLLOUT,
	};
}

static void unuse(const struct uaio_sqe *sqe)
{
	for (unsigned i = 0; i < UAIO_NR_ENDS; i++)
		if (sqe->args->files[i])
			uaio_file_unuse(sqe->args->files[i]);
}

static int64_t call(struct transfer *transfer, uint64_t bytes, uint32_t flags)
{
	int64_t *offs[UAIO_NR_ENDS] = { NULL, NULL };
	int in = end_of(transfer, UAIO_END_IN)->fd;
	int out = end_of(transfer, UAIO_END_OUT)->fd;

	flags |= transfer->sqe->call_flags;
	if (transfer->is_tee)
		return sys_tee(in, out, bytes, (int)flags);
	for (unsigned i = 0; i < UAIO_NR_ENDS; i++)
		if (transfer->offs[i] != UAIO_OFF_POSITION)
			offs[i] = &transfer->offs[i];
	return sys_splice(in, offs[UAIO_END_IN], out, offs[UAIO_END_OUT], bytes,
			  (int)flags);
}

/* Waiting for the two files */

static void look_at(struct end *end, const struct uaio_file *file,
		    bool is_impatient)
{
	int flags = sys_fcntl(end->fd, F_GETFL, 0), bytes;
	bool is_in = end->events == POLLIN, is_unix;

	if (flags < 0 || uaio_file_kind(file) < UAIO_KIND_STREAM)
		return;
	bytes = sys_fcntl(end->fd, F_GETPIPE_SZ, 0);
	end->is_pipe = bytes > 0;
	end->pipe_bytes = end->is_pipe ? (uint32_t)bytes : 0;
	is_unix = uaio_sock_option(end->fd, SO_DOMAIN) == AF_UNIX;
	end->is_unix_out = is_unix && !is_in;
	/* Reads of a Unix stream socket obey SPLICE_F_NONBLOCK. */
	end->is_nonblocking = flags & O_NONBLOCK ||
			      (is_impatient && is_unix && is_in &&
			       uaio_file_has(file, UAIO_FILE_F_SOCK_STREAM));
	/*
	 * Calls never block on a file that cannot be spliced, or on a listening socket,
	 * because the kernel refuses them.
	 */
	end->is_stubborn = !end->is_pipe && !end->is_nonblocking &&
			   uaio_sock_option(end->fd, SO_ACCEPTCONN) != 1 &&
			   !uaio_file_has(file, is_in ? UAIO_FILE_F_OLD_READ
						      : UAIO_FILE_F_OLD_WRITE);
}

/* Return: whether the kernel refuses the call before it could block on a file. */
static bool is_refused(const struct transfer *transfer)
{
	const struct uaio_sqe *sqe = transfer->sqe;
	struct uaio_file *const *files = sqe->args->files;
	bool has_pipe = false, has_other = false;

	for (unsigned i = 0; i < UAIO_NR_ENDS; i++) {
		const struct end *end = &transfer->ends[i];

		has_pipe |= end->is_pipe;
		has_other |= !end->is_pipe;
		if (transfer->offs[i] != UAIO_OFF_POSITION &&
		    (end->is_pipe || end->is_stubborn))
			return true;
	}
	return !sqe->len || !has_pipe || (transfer->is_tee && has_other) ||
	       !uaio_file_has(files[UAIO_END_IN], UAIO_FILE_F_READ) ||
	       !uaio_file_has(files[UAIO_END_OUT], UAIO_FILE_F_WRITE);
}

/*
 * Return: whether the file is ready, so that a call does not wait for it; true if poll()
 * fails.
 */
static bool is_ready(const struct end *end)
{
	static const struct timespec zero;
	struct pollfd pfd = { .fd = end->fd, .events = (short)end->events };

	return sys_ppoll(&pfd, 1, &zero, NULL, 0) != 0;
}

/* Return: the size of the socket's send buffer; 0 if the socket has none. */
static uint64_t send_buffer(const struct end *out)
{
	int bytes = uaio_sock_option(out->fd, SO_SNDBUF);

	return bytes > 0 ? (uint64_t)bytes : 0;
}

/* Return: how many bytes of a Unix socket's send buffer are used. */
static uint64_t unix_used(const struct end *out)
{
	int bytes;

	return sys_ioctl_socket(out->fd, SIOCOUTQ, &bytes) < 0 || bytes < 0
		       ? 0
		       : (uint64_t)bytes;
}

/*
 * poll() has reported that a file is not ready.
 * Return: whether the file is a Unix socket that takes a message nevertheless (I3).
 */
static bool takes_more(const struct end *end)
{
	uint64_t used = end->is_unix_out ? unix_used(end) : 0;
	uint64_t size = used ? send_buffer(end) : 0;

	return used > size / 4 && used < size;
}

static const struct end *unready_pipe(const struct transfer *transfer)
{
	for (unsigned i = 0; i < UAIO_NR_ENDS; i++)
		if (transfer->ends[i].is_pipe && !is_ready(&transfer->ends[i]))
			return &transfer->ends[i];
	return NULL;
}

/*
 * Wait until the file is ready.
 * Return: 0; -EINTR: a canceller has ended the wait; another error: the wait failed.
 */
static int await(const struct transfer *transfer, const struct end *end)
{
	return uaio_endable_wait(transfer->sqe->args->endable, end->fd,
				 end->events);
}

/*
 * The pipes are ready. Wait for the file that ignores SPLICE_F_NONBLOCK.
 * Return: as for await().
 */
static int await_stubborn(const struct transfer *transfer)
{
	int ret = 0;

	for (unsigned i = 0; i < UAIO_NR_ENDS && ret == 0; i++) {
		const struct end *end = &transfer->ends[i];

		if (end->is_stubborn && !is_ready(end) && !takes_more(end))
			ret = await(transfer, end);
	}
	return ret;
}

/*
 * The splice or tee has returned EAGAIN: wait for the pipe that is not ready.
 * Return: as for await(); -EAGAIN: the request ends with this result.
 */
static int await_pipe(const struct transfer *transfer)
{
	const struct end *pipe = unready_pipe(transfer);
	bool is_impatient = transfer->sqe->call_flags & SPLICE_F_NONBLOCK;

	for (unsigned i = 0; i < UAIO_NR_ENDS; i++) {
		const struct end *end = &transfer->ends[i];

		if (!end->is_nonblocking)
			continue;
		is_impatient |= end->is_pipe;
		/*
		 * All pipes are ready, so this file, which is no pipe, made the call
		 * return EAGAIN. The file is O_NONBLOCK or obeys SPLICE_F_NONBLOCK, so
		 * the request must not wait for it.
		 */
		if (!pipe && !end->is_pipe)
			return -EAGAIN;
	}
	if (!pipe)
		return 0;
	return is_impatient ? -EAGAIN : await(transfer, pipe);
}

/* Return: how many bytes the next call may move without blocking (I2, I3). */
static uint64_t portion(struct transfer *transfer)
{
	const struct uaio_file *file = transfer->sqe->args->files[UAIO_END_OUT];
	const struct end *out = end_of(transfer, UAIO_END_OUT);
	const uint64_t page = getauxval(AT_PAGESZ);
	uint64_t bytes, used;

	if (!out->is_stubborn ||
	    !uaio_file_has(file, UAIO_FILE_F_SOCK_STREAM) ||
	    (out->is_unix_out &&
	     end_of(transfer, UAIO_END_IN)->pipe_bytes <= 16 * page))
		return transfer->left;
	bytes = send_buffer(out);
	if (out->is_unix_out) {
		used = unix_used(out);
		bytes = used < bytes ? (bytes - used) / 2 : 0;
		bytes = bytes > page ? bytes : page;
	} else {
		bytes /= 4;
	}
	return bytes && bytes < transfer->left ? bytes : transfer->left;
}

/*
 * Move bytes until the request is complete, waiting as needed.
 * Return: the request's result.
 */
static int64_t move_patiently(struct transfer *transfer)
{
	uint64_t bytes;
	int64_t res;
	int ret = 0;

	do {
		if (!unready_pipe(transfer))
			ret = await_stubborn(transfer);
		if (ret < 0)
			break;
		bytes = portion(transfer);
		res = call(transfer, bytes, SPLICE_F_NONBLOCK);
		if (res > 0) {
			transfer->done += res;
			transfer->left -= (uint64_t)res;
			if (!transfer->left || bytes > (uint64_t)res)
				return transfer->done;
		} else if (transfer->done || res != -EAGAIN) {
			return transfer->done ? transfer->done : res;
		} else {
			ret = await_pipe(transfer);
		}
	} while (ret == 0);
	if (transfer->done)
		return transfer->done;
	if (ret == -EINTR)
		return -ERESTARTSYS_;
	if (ret == -EAGAIN)
		return ret;
	return call(transfer, transfer->left, 0);
}

/*
 * Make the call with SPLICE_F_NONBLOCK. The caller has checked that only a pipe could make
 * it block.
 * Return: the call's result.
 */
static int64_t call_now(struct transfer *transfer)
{
	const uint64_t signals = 1ull << (SIGPIPE - 1) | 1ull << (SIGXFSZ - 1);
	struct uaio_blocked_signals blocked;
	int64_t res;

	if (!uaio_signals_block(signals, &blocked))
		return UAIO_OP_BLOCKS;
	res = call(transfer, transfer->left, SPLICE_F_NONBLOCK);
	/*
	 * If the limit RLIMIT_FSIZE has made the call move fewer bytes than requested,
	 * the call has also sent SIGXFSZ.
	 */
	uaio_signals_unblock(&blocked, res < (int64_t)transfer->left);
	return res;
}

static int64_t run(const struct uaio_sqe *sqe, bool is_tee,
		   uint32_t extra_flags)
{
	struct transfer transfer = {
		.sqe = sqe,
		.is_tee = is_tee,
		.offs = { is_tee ? UAIO_OFF_POSITION : sqe->args->off,
			  is_tee ? UAIO_OFF_POSITION : sqe->off },
		.left = sqe->len,
	};
	int64_t res;

	use(&transfer);
	if (extra_flags & RWF_NOWAIT) {
		res = call_now(&transfer);
		unuse(sqe);
		return res;
	}
	for (unsigned i = 0; i < UAIO_NR_ENDS && sqe->args->endable; i++)
		look_at(&transfer.ends[i], sqe->args->files[i],
			sqe->call_flags & SPLICE_F_NONBLOCK);
	if (!sqe->args->endable || is_refused(&transfer))
		res = call(&transfer, sqe->len, 0);
	else
		res = move_patiently(&transfer);
	unuse(sqe);
	return res;
}

int64_t uaio_splice_run(const struct uaio_sqe *sqe, int fd,
			struct uaio_found *found, uint32_t extra_flags)
{
	(void)fd;
	(void)found;
	return run(sqe, false, extra_flags);
}

int64_t uaio_tee_run(const struct uaio_sqe *sqe, int fd,
		     struct uaio_found *found, uint32_t extra_flags)
{
	(void)fd;
	(void)found;
	return run(sqe, true, extra_flags);
}
