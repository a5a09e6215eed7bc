/* SPDX-License-Identifier: MIT */
/*
 * SEND and RECV with memory in several pieces (provided buffers), which the front-end
 * chooses
 *
 * The front-end first chooses memory for a receive without knowing how much data the
 * socket holds. So a small receive costs one system call. If the data fill this memory,
 * a further call asks how many bytes the socket still holds. Then the front-end chooses
 * more memory.
 *
 * Tested by uring/test-uring-bundle.c.
 */
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/asked.h"
#include "base/check.h"
#include "op/args.h"
#include "op/sock.h"

uint64_t uaio_sock_bytes_there(int fd)
{
	int nr = 0;

	return sys_ioctl_socket(fd, SIOCINQ, &nr) < 0 || nr < 0 ? 0
								: (uint64_t)nr;
}

static struct uaio_msghdr message_of(struct uaio_pieces *pieces)
{
	return (struct uaio_msghdr){ .msg_iov = pieces->iov,
				     .msg_iovlen = pieces->nr };
}

/*
 * Choose memory, and receive once. *ret_is_full: whether the call has filled the memory.
 * Return: the call's result.
 */
static int64_t receive(const struct uaio_sqe *sqe, int fd, bool is_stream,
		       int flags, bool may_block, uint64_t known,
		       bool *ret_is_full)
{
	struct uaio_pieces pieces;
	struct uaio_msghdr msg;
	int64_t res = uaio_op_door->pick_pieces(sqe, known, may_block, &pieces);

	if (res < 0)
		return uaio_sock_no_room(sqe, fd, is_stream, res);
	if (likely(pieces.nr == 1)) {
		res = sys_recv(fd, pieces.iov[0].iov_base,
			       pieces.iov[0].iov_len, flags);
	} else {
		msg = message_of(&pieces);
		res = sys_recvmsg(fd, &msg, flags);
	}
	if (unlikely(res == -EFAULT))
		res = uaio_sock_no_room(sqe, fd, is_stream, res);
	*ret_is_full = res >= 0 && (uint64_t)res >= pieces.bytes;
	return uaio_op_door->picked_pieces(
		sqe, &pieces, res, uaio_sock_keeps(sqe, fd, res, pieces.bytes));
}

int64_t uaio_sock_recv_pieces(const struct uaio_sqe *sqe, int fd,
			      bool is_stream, int flags, bool may_block)
{
	uint64_t known = 0, bytes = 0;
	bool is_full;
	int64_t res;

	/*
	 * With MSG_DONTWAIT even a worker's call does not block. So other requests need
	 * not wait until picked_pieces() is called (op.h).
	 */
	if (sqe->is_multishot && sqe->call_flags & MSG_DONTWAIT)
		may_block = false;
	do {
		is_full = false;
		/*
		 * If `known` is not 0, the socket held bytes just now. Another thread
		 * may have received them meanwhile: with MSG_DONTWAIT the call then
		 * does not block.
		 */
		res = receive(sqe, fd, is_stream,
			      known ? flags | MSG_DONTWAIT : flags, may_block,
			      known, &is_full);
		if (res > 0)
			bytes += (uint64_t)res;
		known = is_full && is_stream ? uaio_sock_bytes_there(fd) : 0;
	} while (uaio_op_door->goes_on(sqe, bytes, known));
	return bytes ? (int64_t)bytes : res;
}

int64_t uaio_sock_send_pieces(const struct uaio_sqe *sqe, int fd, int flags,
			      bool may_block)
{
	struct uaio_pieces pieces;
	struct uaio_msghdr msg;
	bool is_rest = uaio_op_door->has_rest(sqe);
	int64_t res = uaio_op_door->pick_pieces(sqe, 0, may_block, &pieces);

	if (res < 0)
		return res;
	msg = message_of(&pieces);
	if (sqe->op == UAIO_OP_SENDMSG) {
		msg.msg_name = (void *)(uintptr_t)sqe->args->address;
		msg.msg_namelen = sqe->args->address_bytes;
	}
	res = uaio_sock_sent(sqe, fd, is_rest, sys_sendmsg(fd, &msg, flags));
	return uaio_op_door->picked_pieces(
		sqe, &pieces, res, uaio_sock_keeps(sqe, fd, res, pieces.bytes));
}
