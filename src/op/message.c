/* SPDX-License-Identifier: MIT */
/*
 * SEND, RECV, SENDMSG and RECVMSG
 *
 * If a send or receive must not block, the call is made with MSG_DONTWAIT, so the
 * socket need not be O_NONBLOCK. A send raises no SIGPIPE.
 *
 * Tested by uring/test-uring-socket.c.
 */
#include <errno.h>
#include <linux/fs.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/asked.h"
#include "base/check.h"
#include "base/io_uring.h"
#include "base/uaddr.h"
#include "file/file.h"
#include "op/args.h"
#include "op/rows.h"
#include "op/sock.h"

int uaio_socket_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	(void)sqe;
	if (uaio_file_has(file, UAIO_FILE_F_PATH))
		return -EBADF;
	return uaio_file_has(file, UAIO_FILE_F_SOCKET) ? 0 : -ENOTSOCK;
}

int uaio_sock_option(int fd, int name)
{
	uint32_t size = sizeof(int);
	int value = -1;

	(void)sys_getsockopt(fd, SOL_SOCKET, name, &value, &size);
	return value;
}

static bool waits_for_all(const struct uaio_sqe *sqe, int fd)
{
	int type;

	if (likely(!(sqe->call_flags & MSG_WAITALL)) ||
	    !uaio_sock_has_bytes(sqe))
		return false;
	type = uaio_sock_option(fd, SO_TYPE);
	return type == SOCK_STREAM || type == SOCK_SEQPACKET;
}

bool uaio_sock_goes_on(const struct uaio_sqe *sqe, int fd)
{
	if (unlikely(sqe->by_door))
		return sqe->call_flags & MSG_WAITALL &&
		       uaio_sock_has_bytes(sqe) && uaio_op_door->has_rest(sqe);
	return waits_for_all(sqe, fd);
}

bool uaio_sock_keeps(const struct uaio_sqe *sqe, int fd, int64_t res,
		     uint64_t bytes)
{
	return res > 0 && (uint64_t)res < bytes && waits_for_all(sqe, fd);
}

/*
 * Report the result of a call (res) to the front-end that has chosen the memory for the
 * call.
 */
static inline void report_to_door(const struct uaio_sqe *sqe, int fd,
				  int64_t res, const struct iovec *iov)
{
	if (unlikely(sqe->call_flags & MSG_WAITALL) &&
	    uaio_sock_keeps(sqe, fd, res, iov->iov_len))
		uaio_op_door->keep(sqe, res);
	else
		uaio_op_door->picked(sqe, res);
}

static bool is_send(const struct uaio_sqe *sqe)
{
	return uaio_optab[sqe->op].class == UAIO_CLASS_WRITE;
}

/* Return: whether the kernel has zero-copy sends for the socket: only TCP and UDP do. */
static bool has_zc(int fd)
{
	int domain = uaio_sock_option(fd, SO_DOMAIN), protocol;

	if (domain != AF_INET && domain != AF_INET6)
		return false;
	protocol = uaio_sock_option(fd, SO_PROTOCOL);
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP;
}

static bool is_zc(const struct uaio_sqe *sqe)
{
	return sqe->op == UAIO_OP_SEND_ZC || sqe->op == UAIO_OP_SENDMSG_ZC;
}

bool uaio_sock_waits_to_send(const struct uaio_sqe *sqe, int fd)
{
	return is_send(sqe) && !uaio_may_be_ready(fd, POLLOUT) &&
	       (!is_zc(sqe) || has_zc(fd));
}

int64_t uaio_sock_sent(const struct uaio_sqe *sqe, int fd, bool is_rest,
		       int64_t res)
{
	return unlikely(res == -EFAULT) && is_rest &&
			       uaio_sock_waits_to_send(sqe, fd)
		       ? -EAGAIN
		       : res;
}

static int flags_of(const struct uaio_sqe *sqe, uint32_t extra_flags)
{
	return (int)((sqe->call_flags & ~UAIO_MSG_PIECES) |
		     (extra_flags & RWF_NOWAIT ? MSG_DONTWAIT : 0u));
}

static bool is_on_stream(uint32_t extra_flags)
{
	return extra_flags & UAIO_RWF_ON_SOCKET;
}

int64_t uaio_send_run(const struct uaio_sqe *sqe, int fd,
		      struct uaio_found *found, uint32_t extra_flags)
{
	int flags = flags_of(sqe, extra_flags) | MSG_NOSIGNAL;
	struct iovec iov;
	bool is_rest;
	int64_t res;

	(void)found;
	if (likely(!sqe->by_door))
		return sys_send(fd, sqe->buf, sqe->len, flags);
	if (sqe->call_flags & UAIO_MSG_PIECES)
		return uaio_sock_send_pieces(sqe, fd, flags,
					     !(extra_flags & RWF_NOWAIT));
	is_rest = uaio_op_door->has_rest(sqe);
	res = uaio_op_door->pick(sqe, sqe->len, !(extra_flags & RWF_NOWAIT),
				 &iov);
	if (res < 0)
		return res;
	res = sys_send(fd, iov.iov_base, iov.iov_len, flags);
	res = uaio_sock_sent(sqe, fd, is_rest, res);
	report_to_door(sqe, fd, res, &iov);
	return res;
}

/* Return: a message made from the arguments; the caller adds the peer's address. */
static struct uaio_msghdr message_of(const struct uaio_args *args)
{
	return (struct uaio_msghdr){
		.msg_iov = (struct iovec *)(uintptr_t)args->in,
		.msg_iovlen = args->in_bytes / sizeof(struct iovec),
		.msg_control = args->control_bytes ? args->control : NULL,
		.msg_controllen = args->control_bytes,
	};
}

int64_t uaio_sendmsg_run(const struct uaio_sqe *sqe, int fd,
			 struct uaio_found *found, uint32_t extra_flags)
{
	int flags = flags_of(sqe, extra_flags) | MSG_NOSIGNAL;
	struct uaio_msghdr msg = message_of(sqe->args);
	struct iovec iov;
	bool is_rest;
	int64_t res;

	(void)found;
	msg.msg_name = (void *)(uintptr_t)sqe->args->address;
	msg.msg_namelen = sqe->args->address_bytes;
	if (likely(!sqe->by_door))
		return sys_sendmsg(fd, &msg, flags);
	if (sqe->call_flags & UAIO_MSG_PIECES)
		return uaio_sock_send_pieces(sqe, fd, flags,
					     !(extra_flags & RWF_NOWAIT));
	is_rest = uaio_op_door->has_rest(sqe);
	res = uaio_op_door->pick(sqe, sqe->len, !(extra_flags & RWF_NOWAIT),
				 &iov);
	if (res < 0)
		return res;
	msg.msg_iov = &iov;
	msg.msg_iovlen = 1;
	res = sys_sendmsg(fd, &msg, flags);
	res = uaio_sock_sent(sqe, fd, is_rest, res);
	report_to_door(sqe, fd, res, &iov);
	return res;
}

int64_t uaio_send_zc_run(const struct uaio_sqe *sqe, int fd,
			 struct uaio_found *found, uint32_t extra_flags)
{
	return has_zc(fd) ? uaio_send_run(sqe, fd, found, extra_flags)
			  : -EOPNOTSUPP;
}

int64_t uaio_sendmsg_zc_run(const struct uaio_sqe *sqe, int fd,
			    struct uaio_found *found, uint32_t extra_flags)
{
	return has_zc(fd) ? uaio_sendmsg_run(sqe, fd, found, extra_flags)
			  : -EOPNOTSUPP;
}

void uaio_sock_ask_rests(const int *fds, unsigned nr, bool *ret_have_more)
{
	enum { POLLED_MAX = 16 };
	static const struct timespec zero;
	struct pollfd pfds[POLLED_MAX];
	bool is_polled = nr > 1 && nr <= POLLED_MAX;

	for (unsigned i = 0; is_polled && i < nr; i++)
		pfds[i] = (struct pollfd){ .fd = fds[i],
					   .events = POLLIN | POLLRDHUP };
	is_polled = is_polled && sys_ppoll(pfds, nr, &zero, NULL, 0) >= 0;
	for (unsigned i = 0; i < nr; i++)
		/*
		 * If poll() reports events besides POLLIN, query how many bytes the
		 * socket holds. At the end of the stream, or after an error, poll()
		 * reports such events even if no bytes are left.
		 */
		ret_have_more[i] = is_polled && !(pfds[i].revents & ~POLLIN)
					   ? pfds[i].revents
					   : uaio_sock_bytes_there(fds[i]) > 0;
}

/*
 * Return: whether a stream socket is TCP without an upper layer protocol (TCP_ULP). With
 * TLS, for example, a receive may return fewer bytes than the socket holds.
 */
static bool is_plain_tcp(int fd)
{
	enum { TCP_ULP_ = 31 };
	char name[16];
	uint32_t size = sizeof(name);

	return uaio_sock_option(fd, SO_PROTOCOL) == IPPROTO_TCP &&
	       sys_getsockopt(fd, IPPROTO_TCP, TCP_ULP_, name, &size) == 0 &&
	       size == 0;
}

/*
 * Find out how a multishot receive can notice that the socket is empty. poll() does not
 * report fewer bytes than SO_RCVLOWAT. If the client sets this option later, the request
 * leaves bytes in the socket until the socket holds as many as the option says.
 */
static enum uaio_empty_by empty_by(struct uaio_found *found, int fd)
{
	if (unlikely(found->empty_by == UAIO_EMPTY_BY_UNKNOWN)) {
		if (uaio_sock_option(fd, SO_RCVLOWAT) != 1)
			found->empty_by = UAIO_EMPTY_BY_TRY;
		else if (!is_plain_tcp(fd))
			found->empty_by = UAIO_EMPTY_BY_POLL;
		else
			found->empty_by = UAIO_EMPTY_BY_SHORT;
	}
	return found->empty_by;
}

static enum uaio_rest ask_rest(int fd)
{
	return uaio_sock_bytes_there(fd) ? UAIO_REST_THERE : UAIO_REST_UNKNOWN;
}

/*
 * A shot (one receive of a multishot request) has filled its buffer. If poll() reports
 * nothing, the socket is empty, even after an urgent mark (SIOCINQ counts only up to the
 * mark). Then the request skips the receive that would return EAGAIN, and waits: the next
 * bytes cause an edge (a new readiness event).
 */
static enum uaio_rest ask_rest_of_shot(int fd)
{
	static const struct timespec zero;
	struct pollfd pfd = { .fd = fd, .events = POLLIN | POLLRDHUP };
	int nr = sys_ppoll(&pfd, 1, &zero, NULL, 0);

	if (nr == 0)
		return UAIO_REST_NONE;
	/*
	 * At the end of the stream, or after an error, poll() reports further events,
	 * even if no bytes are left. So only POLLIN alone shows that there are bytes.
	 */
	if (nr > 0 && pfd.revents == POLLIN)
		return UAIO_REST_THERE;
	return ask_rest(fd);
}

/*
 * Return: whether a receive may have stopped at an urgent mark, with bytes left after the
 * mark. The request must then receive again: if the client has read the mark's byte,
 * epoll does not report the bytes after it.
 */
static bool may_be_at_mark(int fd)
{
	int is_at_mark = 1;

	return sys_ioctl_socket(fd, SIOCATMARK, &is_at_mark) < 0 || is_at_mark;
}

/*
 * A shot received res bytes of a stream. asks: the socket may hold more bytes, so query
 * it. Not inline, as most receives are not multishot.
 * Return: whether the shot has left bytes in the socket.
 */
static __attribute__((noinline)) enum uaio_rest
rest_of_shot(int fd, struct uaio_found *found, int64_t res, bool asks)
{
	if (asks)
		return empty_by(found, fd) == UAIO_EMPTY_BY_TRY
			       ? ask_rest(fd)
			       : ask_rest_of_shot(fd);
	return res > 0 && empty_by(found, fd) == UAIO_EMPTY_BY_SHORT &&
			       !may_be_at_mark(fd)
		       ? UAIO_REST_NO_BYTES
		       : UAIO_REST_UNKNOWN;
}

/*
 * A call has received res bytes of a stream into a buffer of `room` bytes. Store in found
 * whether the socket holds more, or that the caller must query the socket. A call that did
 * not fill its buffer has emptied the socket, so the query is needed only if the buffer is
 * full.
 */
static inline void note_rest(const struct uaio_sqe *sqe, int fd,
			     struct uaio_found *found, int64_t res,
			     uint64_t room, uint32_t extra_flags)
{
	bool asks = unlikely((uint64_t)res >= room) ||
		    unlikely(sqe->call_flags & MSG_PEEK);
	enum uaio_rest rest = UAIO_REST_UNKNOWN;

	if (unlikely(asks || sqe->is_multishot) && res >= 0 &&
	    is_on_stream(extra_flags) && !(sqe->call_flags & MSG_ERRQUEUE)) {
		if (sqe->is_multishot)
			rest = rest_of_shot(fd, found, res, asks);
		else if (extra_flags & UAIO_RWF_ASKS_LATER)
			rest = UAIO_REST_TO_ASK;
		else
			rest = ask_rest(fd);
	}
	/*
	 * Store the value even if it is UAIO_REST_UNKNOWN, as an earlier call may have
	 * stored another value.
	 */
	if (unlikely(rest != found->rest))
		found->rest = rest & 7; /* three bits */
}

static bool has_nothing(int fd)
{
	static const struct timespec zero;
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return sys_ppoll(&pfd, 1, &zero, NULL, 0) == 0;
}

/*
 * Called if a multishot receive finds no provided buffer.
 * Return: whether the request waits while the socket is empty; otherwise it fails at once
 * with ENOBUFS. As in the kernel's io_uring, a request that has received data before
 * waits if the socket is a stream. A request that has received none yet waits if a worker
 * makes its calls.
 */
static bool waits_first(const struct uaio_sqe *sqe, bool is_stream)
{
	return uaio_op_door->has_begun(sqe) ? is_stream : sqe->is_async;
}

int64_t uaio_sock_no_room(const struct uaio_sqe *sqe, int fd, bool is_stream,
			  int64_t res)
{
	return (res == -ENOBUFS || res == -EFAULT) && sqe->is_multishot &&
			       waits_first(sqe, is_stream) && has_nothing(fd)
		       ? -EAGAIN
		       : res;
}

/*
 * A multishot receive chooses its buffer before the call, even if there is nothing to
 * receive. (If the client requested a worker with IOSQE_ASYNC, the request waits for
 * the socket before it chooses.) With MSG_DONTWAIT the call does not block, even on a
 * worker. A buffer that the call does not use is returned to the front-end.
 */
static inline int pick_room(const struct uaio_sqe *sqe, int fd,
			    uint32_t extra_flags, struct iovec *ret_iov)
{
	bool may_block = !(extra_flags & RWF_NOWAIT);
	int ret;

	if (!sqe->is_multishot)
		return uaio_rw_pick(sqe, fd, may_block, extra_flags, ret_iov);
	may_block &= !(sqe->call_flags & MSG_DONTWAIT);
	ret = uaio_op_door->pick(sqe, sqe->len, may_block, ret_iov);
	return unlikely(ret < 0)
		       ? (int)uaio_sock_no_room(sqe, fd,
						is_on_stream(extra_flags), ret)
		       : ret;
}

int64_t uaio_recv_run(const struct uaio_sqe *sqe, int fd,
		      struct uaio_found *found, uint32_t extra_flags)
{
	int flags = flags_of(sqe, extra_flags);
	struct iovec iov = { sqe->buf, sqe->len };
	int64_t res;

	if (likely(!sqe->by_door)) {
		res = sys_recv(fd, sqe->buf, sqe->len, flags);
		note_rest(sqe, fd, found, res, sqe->len, extra_flags);
		return res;
	}
	if (sqe->call_flags & UAIO_MSG_PIECES)
		return uaio_sock_recv_pieces(sqe, fd, is_on_stream(extra_flags),
					     flags,
					     !(extra_flags & RWF_NOWAIT));
	res = pick_room(sqe, fd, extra_flags, &iov);
	if (res < 0)
		return res;
	res = sys_recv(fd, iov.iov_base, iov.iov_len, flags);
	if (unlikely(res == -EFAULT))
		res = uaio_sock_no_room(sqe, fd, is_on_stream(extra_flags),
					res);
	note_rest(sqe, fd, found, res, iov.iov_len, extra_flags);
	report_to_door(sqe, fd, res, &iov);
	return res;
}

static bool may_write(const void *at, size_t bytes)
{
	return uaio_is_accessible((uintptr_t)at, bytes) &&
	       uaio_can_write((uintptr_t)at, bytes);
}

/*
 * A message with res bytes of data was received. Write the lengths of the address and of
 * the control data, and the message's flags, to the client's own header.
 * Return: res; -EFAULT: the client has unmapped the header. Then the data are lost.
 */
static int64_t write_back(const struct uaio_args *args,
			  const struct uaio_msghdr *msg, int64_t res)
{
	struct uaio_msghdr *header = args->out;

	if (!header)
		return res;
	if (!may_write(header, sizeof(*header)))
		return -EFAULT;
	if (args->sender)
		header->msg_namelen = msg->msg_namelen;
	header->msg_controllen = msg->msg_controllen;
	header->msg_flags = msg->msg_flags;
	return res;
}

uint64_t uaio_sock_head_bytes(const struct uaio_args *args)
{
	return sizeof(struct io_uring_recvmsg_out) + args->sender_bytes +
	       args->control_bytes;
}

/*
 * Receive a message into one buffer of a multishot request. The buffer gets a header, the
 * sender's address, the control data, then the data. For address and control data the
 * request reserves fixed sizes.
 */
static int64_t receive_shot(const struct uaio_sqe *sqe, int fd,
			    struct uaio_found *found, uint32_t extra_flags,
			    const struct iovec *buffer)
{
	const struct uaio_args *args = sqe->args;
	struct io_uring_recvmsg_out out = { 0 };
	uint64_t head = uaio_sock_head_bytes(args);
	struct uaio_msghdr msg = { .msg_namelen = args->sender_bytes };
	struct iovec iov;
	char *at = buffer->iov_base;
	int64_t res;

	if (buffer->iov_len < head)
		return -EFAULT;
	iov = (struct iovec){ at + head, buffer->iov_len - head };
	msg.msg_name = at + sizeof(out);
	msg.msg_control = at + sizeof(out) + args->sender_bytes;
	msg.msg_controllen = args->control_bytes;
	msg.msg_iov = &iov;
	msg.msg_iovlen = 1;
	res = sys_recvmsg(fd, &msg, flags_of(sqe, extra_flags));
	note_rest(sqe, fd, found, res, iov.iov_len, extra_flags);
	if (res < 0)
		return res;
	out.namelen = msg.msg_namelen;
	out.controllen = (uint32_t)msg.msg_controllen;
	out.payloadlen = (uint32_t)res;
	out.flags = (uint32_t)msg.msg_flags;
	if (!may_write(at, sizeof(out)))
		return -EFAULT;
	memcpy(at, &out, sizeof(out));
	return (int64_t)head +
	       (res < (int64_t)iov.iov_len ? res : (int64_t)iov.iov_len);
}

bool uaio_sqe_has_more(const struct uaio_sqe *sqe, int64_t res)
{
	if (res < 0)
		return false;
	/*
	 * The result of an accept is a descriptor or slot. It may be 0, which does not end
	 * the request.
	 */
	if (sqe->op == UAIO_OP_ACCEPT)
		return true;
	/* A multishot request ends when it receives a message without data. */
	if (sqe->op == UAIO_OP_RECVMSG)
		return res > (int64_t)uaio_sock_head_bytes(sqe->args);
	return res > 0 && !(sqe->by_door && uaio_op_door->is_last(sqe));
}

bool uaio_sqe_ends_turn(const struct uaio_sqe *sqe, unsigned nr, int64_t res)
{
	enum { TURN = 33 };

	return nr >= TURN ||
	       (sqe->op == UAIO_OP_RECV && sqe->call_flags & UAIO_MSG_PIECES &&
		sqe->len && (uint64_t)res >= sqe->len);
}

static int64_t receive_picked(const struct uaio_sqe *sqe, int fd,
			      struct uaio_found *found, uint32_t extra_flags)
{
	const struct uaio_args *args = sqe->args;
	struct uaio_msghdr msg = message_of(args);
	struct iovec iov;
	int64_t res = pick_room(sqe, fd, extra_flags, &iov);

	if (res < 0)
		return res;
	if (sqe->is_multishot) {
		res = receive_shot(sqe, fd, found, extra_flags, &iov);
	} else {
		msg.msg_iov = &iov;
		msg.msg_iovlen = 1;
		msg.msg_name = args->sender;
		msg.msg_namelen = args->sender_bytes;
		res = sys_recvmsg(fd, &msg, flags_of(sqe, extra_flags));
		note_rest(sqe, fd, found, res, iov.iov_len, extra_flags);
		if (res >= 0)
			res = write_back(args, &msg, res);
	}
	uaio_op_door->picked(sqe, res);
	return res;
}

int64_t uaio_recvmsg_run(const struct uaio_sqe *sqe, int fd,
			 struct uaio_found *found, uint32_t extra_flags)
{
	struct uaio_msghdr msg;
	int64_t res;

	if (unlikely(sqe->by_door))
		return receive_picked(sqe, fd, found, extra_flags);
	msg = message_of(sqe->args);
	msg.msg_name = sqe->args->sender;
	msg.msg_namelen = sqe->args->sender_bytes;
	res = sys_recvmsg(fd, &msg, flags_of(sqe, extra_flags));
	note_rest(sqe, fd, found, res, sqe->len, extra_flags);
	if (res >= 0)
		res = write_back(sqe->args, &msg, res);
	return res;
}
