/* SPDX-License-Identifier: MIT */
/*
 * Operations of sockets: what others have to know of them
 *
 * A call of theirs takes a flag not to wait (message.c), or waits only on a socket
 * that is not O_NONBLOCK (socket.c). They wait for their socket whatever it is, unless
 * the request itself has MSG_DONTWAIT.
 */
#ifndef UAIO_OP_SOCK_H
#define UAIO_OP_SOCK_H

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "op/op.h"

/* What SOCKET_CMD does (args.h: what); the values are io_uring's. */
enum uaio_socket_cmd {
	UAIO_SOCKET_CMD_INQ,
	UAIO_SOCKET_CMD_OUTQ,
	UAIO_SOCKET_CMD_GETSOCKOPT,
	UAIO_SOCKET_CMD_SETSOCKOPT,
};

/*
 * In call_flags of a SEND, SENDMSG or RECV: its door chooses its memory in pieces
 * (op.h). As MSG_CMSG_COMPAT the calls refuse it, and so no client can ask for it.
 */
#define UAIO_MSG_PIECES (1u << 31)

/* Return: whether the operation moves bytes. */
static inline bool uaio_sock_has_bytes(const struct uaio_sqe *sqe)
{
	return sqe->op >= UAIO_OP_SEND && sqe->op <= UAIO_OP_RECVMSG;
}

/* Return: whether it reads the errors that a socket has queued, and no data. */
static inline bool uaio_sock_reads_errors(const struct uaio_sqe *sqe)
{
	return (sqe->op == UAIO_OP_RECV || sqe->op == UAIO_OP_RECVMSG) &&
	       sqe->call_flags & MSG_ERRQUEUE;
}

/*
 * A send is not made before its socket is ready, if it polls first (polls_first): there may
 * be less room than poll() calls some. A receive takes what there is, which poll() would
 * call ready, whatever SO_RCVLOWAT says; so only a mistake waits until then.
 * Return: whether a call on fd, or its result, has to wait.
 */
bool uaio_sock_waits_to_send(const struct uaio_sqe *sqe, int fd);

/*
 * A call on fd has returned res, of memory that its door has chosen: for this call, or
 * (is_rest) for one before it, that has left a rest.
 * Return: the result; -EAGAIN: the rest is not there, which waits until the socket is
 * ready, as in the kernel's io_uring.
 */
int64_t uaio_sock_sent(const struct uaio_sqe *sqe, int fd, bool is_rest,
		       int64_t res);

/*
 * Return: whether a request on fd goes on although a call has moved some bytes: it
 * asks for all (MSG_WAITALL), and there are more to come.
 */
bool uaio_sock_goes_on(const struct uaio_sqe *sqe, int fd);

/*
 * Return: whether a call on fd that has moved res of so many bytes of memory, which its
 * door has chosen, leaves a rest for which the request goes on.
 */
bool uaio_sock_keeps(const struct uaio_sqe *sqe, int fd, int64_t res,
		     uint64_t bytes);

/*
 * Return: the result of a multishot receive whose call, or choice of a buffer, had res; or
 * -EAGAIN if it has no room, or none that is memory: it waits until there is something to
 * receive before it asks for room again.
 */
int64_t uaio_sock_no_room(const struct uaio_sqe *sqe, int fd, bool is_stream,
			  int64_t res);

/* Return: how many bytes a socket of type SOCK_STREAM has to be received. */
uint64_t uaio_sock_bytes_there(int fd);

/*
 * Find out which of these sockets have more to receive. To ask one takes 0.3 us, and to
 * poll many 0.06 each; but poll() does not tell of fewer bytes than SO_RCVLOWAT.
 */
void uaio_sock_ask_rests(const int *fds, unsigned nr, bool *ret_have_more);

/*
 * pieces.c: SEND, also to an address, and RECV with UAIO_MSG_PIECES. Not inline: the
 * pieces are large, and on the stack.
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
 * Return: whether a request on a stream, on fd, is complete with the result of a call,
 * or waits for the rest: a write does, unless it is patient, as one of io_uring's that
 * has begun waits no longer.
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
 * Return: how many bytes a buffer of a multishot RECVMSG begins with: a header, and the
 * room that the request has for an address and for control data. The door has seen to
 * it that they are no more than an int holds.
 */
uint64_t uaio_sock_head_bytes(const struct uaio_args *args);

/* Return: whether a multishot request of a stream goes on after the result of a call. */
bool uaio_sqe_has_more(const struct uaio_sqe *sqe, int64_t res);

/*
 * A multishot request of a stream has had nr completions in a row, the last of them with
 * the result res.
 * Return: whether requests of other files are tried first now. As in the kernel's
 * io_uring, a receive has 33 completions in a row; but one, if that is a bundle of as many
 * bytes as the client allows.
 */
bool uaio_sqe_ends_turn(const struct uaio_sqe *sqe, unsigned nr, int64_t res);

#endif /* UAIO_OP_SOCK_H */
