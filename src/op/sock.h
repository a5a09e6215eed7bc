/* SPDX-License-Identifier: MIT */
/*
 * Operations on sockets: what other files need to know about them
 *
 * The system call of such an operation either has a flag against blocking (message.c), or
 * blocks only on a socket that is not O_NONBLOCK (socket.c). A request waits for its socket
 * even if that is O_NONBLOCK, unless the request has MSG_DONTWAIT.
 */
#ifndef UAIO_OP_SOCK_H
#define UAIO_OP_SOCK_H

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "op/op.h"

/* The commands of SOCKET_CMD (args.h: what); the values are io_uring's. */
enum uaio_socket_cmd {
	UAIO_SOCKET_CMD_INQ,
	UAIO_SOCKET_CMD_OUTQ,
	UAIO_SOCKET_CMD_GETSOCKOPT,
	UAIO_SOCKET_CMD_SETSOCKOPT,
};

/*
 * A bit of call_flags of a SEND, SENDMSG or RECV: the front-end (kernel AIO, io_uring or POSIX
 * AIO) chooses the memory in pieces (op.h). The bit is MSG_CMSG_COMPAT, which the calls
 * refuse, so no client can set it.
 */
#define UAIO_MSG_PIECES (1u << 31)

/* Return: whether the operation sends or receives bytes. */
static inline bool uaio_sock_has_bytes(const struct uaio_sqe *sqe)
{
	return sqe->op >= UAIO_OP_SEND && sqe->op <= UAIO_OP_RECVMSG;
}

/* Return: whether the request reads the socket's queue of errors, and no data. */
static inline bool uaio_sock_reads_errors(const struct uaio_sqe *sqe)
{
	return (sqe->op == UAIO_OP_RECV || sqe->op == UAIO_OP_RECVMSG) &&
	       sqe->call_flags & MSG_ERRQUEUE;
}

/*
 * Return: whether a send on fd, or its result, must wait until the socket is ready. A send
 * with polls_first must wait, as the socket may have less free space than poll() requires. A
 * receive with polls_first gets what data there is, whatever SO_RCVLOWAT says; only if it
 * fails must its error wait.
 */
bool uaio_sock_waits_to_send(const struct uaio_sqe *sqe, int fd);

/*
 * Return: the result of a request that sends from memory which its front-end has chosen, and
 * whose call on fd returned res. is_rest: the memory is the kept rest of an earlier choice.
 * -EAGAIN: the rest is not readable; as in the kernel's io_uring, the request waits until the
 * socket is ready.
 */
int64_t uaio_sock_sent(const struct uaio_sqe *sqe, int fd, bool is_rest,
		       int64_t res);

/*
 * Return: whether a request on fd continues after a call that has moved some bytes, because
 * MSG_WAITALL requests all bytes and more can arrive.
 */
bool uaio_sock_goes_on(const struct uaio_sqe *sqe, int fd);

/*
 * Return: whether a request on fd continues with the rest of its memory after a call has moved
 * res of bytes bytes. The memory was chosen by its front-end.
 */
bool uaio_sock_keeps(const struct uaio_sqe *sqe, int fd, int64_t res,
		     uint64_t bytes);

/*
 * Return: the result of a multishot receive whose call, or choice of a buffer, returned
 * res; -EAGAIN if there is no buffer, or its memory is invalid. The request then waits
 * until there is something to receive before it chooses a buffer again.
 */
int64_t uaio_sock_no_room(const struct uaio_sqe *sqe, int fd, bool is_stream,
			  int64_t res);

/* Return: how many bytes a socket of type SOCK_STREAM holds for receiving. */
uint64_t uaio_sock_bytes_there(int fd);

/*
 * Find out which sockets hold more data to receive. Querying a single socket takes 0.3 us. A
 * poll of many sockets takes 0.06 us for each, but does not report fewer bytes than
 * SO_RCVLOWAT.
 */
void uaio_sock_ask_rests(const int *fds, unsigned nr, bool *ret_have_more);

/* pieces.c: with UAIO_MSG_PIECES. Not inline: the pieces take much stack. */
__attribute__((noinline)) int64_t
uaio_sock_send_pieces(const struct uaio_sqe *sqe, int fd, int flags,
		      bool may_block);
__attribute__((noinline)) int64_t
uaio_sock_recv_pieces(const struct uaio_sqe *sqe, int fd, bool is_stream,
		      int flags, bool may_block);

/* Return: the value of an option of SOL_SOCKET; -1 if fd has none. */
int uaio_sock_option(int fd, int name);

/*
 * Return: whether the result of a call on fd completes a stream request. Otherwise the request
 * waits to transfer the rest: so does a short write, unless the interface's rules have
 * ends_short_writes.
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
 * header, the address and the control data. The front-end has checked that an int holds the
 * number.
 */
uint64_t uaio_sock_head_bytes(const struct uaio_args *args);

/* Return: whether a multishot request on a stream continues after the result of a call. */
bool uaio_sqe_has_more(const struct uaio_sqe *sqe, int64_t res);

/*
 * Return: whether requests of other files are tried now, after a multishot request has had nr
 * completions in a row, the last with the result res. As in the kernel's io_uring, the limit
 * is 33 completions; but 1 if the last was a bundle with as many bytes as the client allows.
 */
bool uaio_sqe_ends_turn(const struct uaio_sqe *sqe, unsigned nr, int64_t res);

#endif /* UAIO_OP_SOCK_H */
