/* SPDX-License-Identifier: MIT */
/*
 * Operations on sockets: what other files need to know about them
 *
 * The system call of an operation on sockets either has a flag against blocking
 * (message.c), or blocks only if the socket is not O_NONBLOCK (socket.c). A request
 * waits for its socket even if the socket is O_NONBLOCK. But a request with
 * MSG_DONTWAIT does not wait.
 */
#ifndef UAIO_OP_SOCK_H
#define UAIO_OP_SOCK_H

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "op/op.h"

/* The commands of SOCKET_CMD (member `what` of its args); the values are io_uring's. */
enum uaio_socket_cmd {
	UAIO_SOCKET_CMD_INQ,
	UAIO_SOCKET_CMD_OUTQ,
	UAIO_SOCKET_CMD_GETSOCKOPT,
	UAIO_SOCKET_CMD_SETSOCKOPT,
};

/*
 * A bit in call_flags of SEND, SENDMSG or RECV: the front-end (kernel AIO, io_uring or
 * POSIX AIO) chooses the memory in pieces (op.h). The value is that of MSG_CMSG_COMPAT,
 * which the system calls refuse, so no client can set it.
 */
#define UAIO_MSG_PIECES (1u << 31)

/* Return: whether the operation sends or receives bytes. */
static inline bool uaio_sock_has_bytes(const struct uaio_sqe *sqe)
{
	return sqe->op >= UAIO_OP_SEND && sqe->op <= UAIO_OP_RECVMSG;
}

/* Return: whether the request reads the socket's error queue, not its data. */
static inline bool uaio_sock_reads_errors(const struct uaio_sqe *sqe)
{
	return (sqe->op == UAIO_OP_RECV || sqe->op == UAIO_OP_RECVMSG) &&
	       sqe->call_flags & MSG_ERRQUEUE;
}

/*
 * Called for a request with polls_first, and for a send whose later part has failed with
 * EFAULT.
 * Return: whether a send must wait because poll() does not report the socket ready.
 * (poll() may require more free space than the send needs.) False for a receive: with
 * polls_first, a receive returns the data in the socket, even if they are fewer bytes
 * than SO_RCVLOWAT.
 */
bool uaio_sock_waits_to_send(const struct uaio_sqe *sqe, int fd);

/*
 * Called after a send on fd, which returned res. The front-end had chosen the memory.
 * is_rest: an earlier call has sent the first part of this memory.
 * Return: the request's result. -EAGAIN: the rest of the memory cannot be read; as in
 * the kernel's io_uring, the request waits until the socket is ready.
 */
int64_t uaio_sock_sent(const struct uaio_sqe *sqe, int fd, bool is_rest,
		       int64_t res);

/*
 * A call on fd has transferred some bytes.
 * Return: whether the request continues. With MSG_WAITALL it continues until all bytes
 * are transferred, or no more can arrive.
 */
bool uaio_sock_goes_on(const struct uaio_sqe *sqe, int fd);

/*
 * The front-end has chosen memory of `bytes` bytes. A call has transferred res bytes of
 * it.
 * Return: whether the request on fd continues with the rest of this memory.
 */
bool uaio_sock_keeps(const struct uaio_sqe *sqe, int fd, int64_t res,
		     uint64_t bytes);

/*
 * A multishot receive has failed with res: in its call, or when it chose a buffer.
 * Return: the request's result. -EAGAIN if there is no buffer, or the buffer's memory
 * is invalid: the request waits until there is something to receive, then chooses a
 * buffer again.
 */
int64_t uaio_sock_no_room(const struct uaio_sqe *sqe, int fd, bool is_stream,
			  int64_t res);

/* Return: how many bytes a socket of type SOCK_STREAM holds for receiving. */
uint64_t uaio_sock_bytes_there(int fd);

/*
 * Find out which sockets hold more data to receive. Asking a single socket takes 0.3 us. A
 * poll of many sockets takes 0.06 us for each, but does not report fewer bytes than
 * SO_RCVLOWAT.
 */
void uaio_sock_ask_rests(const int *fds, unsigned nr, bool *ret_have_more);

/*
 * pieces.c, for requests with UAIO_MSG_PIECES. Not inline, as the pieces take much stack.
 */
__attribute__((noinline)) int64_t
uaio_sock_send_pieces(const struct uaio_sqe *sqe, int fd, int flags,
		      bool may_block);
__attribute__((noinline)) int64_t
uaio_sock_recv_pieces(const struct uaio_sqe *sqe, int fd, bool is_stream,
		      int flags, bool may_block);

/* Return: the value of an option of SOL_SOCKET; -1 if fd has none. */
int uaio_sock_option(int fd, int name);

/*
 * Return: whether a stream request is complete after a call on fd with this result.
 * Otherwise the request waits to transfer the rest. After a short write it waits, too,
 * unless the interface's rules have ends_short_writes.
 */
static inline bool uaio_sqe_is_whole(const struct uaio_sqe *sqe, int fd,
				     int64_t res)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];

	if (res < 0)
		return res != -EAGAIN;
	if (unlikely(op->is_of_socket))
		return res == 0 || likely(!(sqe->call_flags & MSG_WAITALL)) ||
		       (!sqe->by_door && (uint64_t)res >= sqe->len) ||
		       !uaio_sock_goes_on(sqe, fd);
	return op->class == UAIO_CLASS_READ ||
	       uaio_sqe_rules(sqe)->ends_short_writes ||
	       (uint64_t)res >= uaio_sqe_bytes(sqe);
}

/*
 * Return: how many bytes at the beginning of a multishot RECVMSG's buffer are used for a
 * header, the address and the control data. The front-end has checked that the number fits
 * into an int.
 */
uint64_t uaio_sock_head_bytes(const struct uaio_args *args);

/* Return: whether a multishot request on a stream continues after the result of a call. */
bool uaio_sqe_has_more(const struct uaio_sqe *sqe, int64_t res);

/*
 * The multishot request has posted nr completions in a row, the last one with the
 * result res. As in the kernel's io_uring, it may post 33 in a row. But if the last
 * completion was a bundle (a receive into several buffers) with as many bytes as the
 * client allows, it must stop at once.
 * Return: whether the request must now let requests on other files run.
 */
bool uaio_sqe_ends_turn(const struct uaio_sqe *sqe, unsigned nr, int64_t res);

#endif /* UAIO_OP_SOCK_H */
