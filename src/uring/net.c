/* SPDX-License-Identifier: MIT */
/*
 * Operations on sockets
 *
 * Tested by test-uring-socket.c.
 */
#include <errno.h>
#include <limits.h>
#include <sys/socket.h>

#include "base/check.h"
#include "op/sock.h"
#include "uring/calls.h"
#include "uring/kbuf.h"
#include "uring/note.h"
#include "uring/opdef.h"
#include "uring/ring.h"
#include "uring/rsrc.h"
#include "uring/sq.h"

/* All checks below are in the order in which the kernel makes them. */

enum {
	SEND_FLAGS = IORING_RECVSEND_POLL_FIRST | IORING_RECVSEND_BUNDLE |
		     IORING_SEND_VECTORIZED,
	SENDMSG_FLAGS = IORING_RECVSEND_POLL_FIRST | IORING_SEND_VECTORIZED,
	ZC_FLAGS = IORING_RECVSEND_POLL_FIRST | IORING_RECVSEND_FIXED_BUF |
		   IORING_SEND_ZC_REPORT_USAGE | IORING_SEND_VECTORIZED,
	RECVMSG_FLAGS = IORING_RECVSEND_POLL_FIRST | IORING_RECV_MULTISHOT,
	RECV_FLAGS = RECVMSG_FLAGS | IORING_RECVSEND_BUNDLE,
	ACCEPT_FLAGS = IORING_ACCEPT_MULTISHOT | IORING_ACCEPT_DONTWAIT |
		       IORING_ACCEPT_POLL_FIRST,
};

/*
 * Check a socket address, and store it in args.
 * Return: 0; -EINVAL: the length is invalid; -EFAULT: the address is not readable.
 */
static int take_address(struct uaio_args *args, uint64_t addr, int64_t bytes)
{
	if (bytes < 0 || bytes > UAIO_ADDRESS_BYTES_MAX)
		return -EINVAL;
	if (bytes && !uaio_uring_may_read(addr, (size_t)bytes))
		return -EFAULT;
	args->address = uaio_uring_pointer(addr);
	args->address_bytes = (uint32_t)bytes;
	return 0;
}

static bool receives(const struct uaio_uring_entry *entry)
{
	return entry->raw.opcode == IORING_OP_RECV ||
	       entry->raw.opcode == IORING_OP_RECVMSG;
}

/*
 * Poll the socket before the first try. With MSG_DONTWAIT the request fails with EAGAIN
 * instead, unless it is a multishot request with IOSQE_ASYNC, or after a drain
 * (take_shots()).
 */
static void poll_first(struct uaio_uring_entry *entry)
{
	if (entry->sqe.call_flags & MSG_DONTWAIT && !entry->sqe.polls_first)
		entry->late_error = -EAGAIN;
	/* POLLIN does not report urgent data, so receive MSG_OOB at once. */
	entry->sqe.polls_first =
		!(entry->sqe.call_flags & MSG_OOB) || !receives(entry);
}

/*
 * Make the request a multishot one. With IOSQE_ASYNC or after a drain, poll first, even
 * with MSG_DONTWAIT: the kernel's worker does so.
 */
static void take_shots(struct uaio_uring_entry *entry)
{
	entry->sqe.is_multishot = true;
	if (unlikely(uaio_uring_begins_aside(entry)))
		entry->sqe.is_async = entry->sqe.polls_first = true;
}

/* Sends and receives */

static void begin(struct uaio_uring_entry *entry)
{
	entry->sqe.off = UAIO_OFF_POSITION;
	entry->sqe.call_flags = entry->raw.msg_flags & ~UAIO_MSG_PIECES;
	if (unlikely(entry->raw.ioprio & IORING_RECVSEND_POLL_FIRST))
		poll_first(entry);
}

/* IOSQE_CQE_SKIP_SUCCESS: with MSG_WAITALL, fewer bytes count as a failure. */
static int expect(struct uaio_uring_entry *entry, uint64_t bytes)
{
	if (!(entry->raw.flags & IOSQE_CQE_SKIP_SUCCESS))
		return 0;
	if (!uaio_uring_note_for(entry))
		return -ENOMEM;
	entry->note->expected =
		entry->sqe.call_flags & MSG_WAITALL ? (uint32_t)bytes : 0;
	return 0;
}

static int prep_bytes(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	begin(entry);
	entry->sqe.buf = uaio_uring_pointer(raw->addr);
	entry->sqe.len = raw->len;
	return expect(entry, raw->len);
}

/* Return: the sum of the vectors' lengths, at most UAIO_RW_BYTES_MAX. */
static uint64_t sum_of(const struct iovec *iov, uint64_t nr)
{
	uint64_t bytes = 0;

	for (uint64_t i = 0; i < nr; i++) {
		bytes += iov[i].iov_len;
		if (bytes > UAIO_RW_BYTES_MAX)
			bytes = UAIO_RW_BYTES_MAX;
	}
	return bytes;
}

/* Translate a send with an address to sendmsg() with one vector. */
static int prep_send_to(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_args *args = uaio_uring_args_of(entry);

	entry->sqe.op = entry->sqe.op == UAIO_OP_SEND_ZC ? UAIO_OP_SENDMSG_ZC
							 : UAIO_OP_SENDMSG;
	entry->iov = (struct iovec){ uaio_uring_pointer(raw->addr), raw->len };
	args->in = &entry->iov;
	args->in_bytes = sizeof(entry->iov);
	return take_address(args, raw->addr2, raw->addr_len);
}

/*
 * Check and use the vectors of a message.
 * Return: 0; -EFAULT: a bad address; -EINVAL: too many bytes; -ENOMEM.
 */
static int take_iovs(struct uaio_uring_entry *entry, const struct iovec *iov,
		     uint64_t nr)
{
	struct uaio_args *args = &entry->args;
	int ret;

	args->in = iov;
	args->in_bytes = (uint32_t)(nr * sizeof(*iov));
	if (args->in_bytes &&
	    !uaio_uring_may_read((uintptr_t)args->in, args->in_bytes))
		return -EFAULT;
	ret = uaio_uring_check_vectors(iov, nr);
	if (ret < 0)
		return ret;
	entry->sqe.len = sum_of(iov, nr);
	return expect(entry, entry->sqe.len);
}

/* Translate a send of vectors to sendmsg(), with or without an address. */
static int prep_send_vectors(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	int ret;

	if (raw->__pad3[0])
		return -EINVAL;
	begin(entry);
	ret = prep_send_to(entry);
	if (ret == 0 && raw->len > IOV_MAX)
		ret = -EINVAL;
	return ret < 0 ? ret
		       : take_iovs(entry, uaio_uring_pointer(raw->addr),
				   raw->len);
}

static int prep_send_bytes(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	int ret = raw->__pad3[0] ? -EINVAL : prep_bytes(entry);

	return ret < 0 || !raw->addr2 ? ret : prep_send_to(entry);
}

/* Return: whether the submission has vectors, and does not select a buffer. */
static bool has_vectors(const struct io_uring_sqe *raw)
{
	return raw->ioprio & IORING_SEND_VECTORIZED &&
	       !(raw->flags & IOSQE_BUFFER_SELECT);
}

/* Use the client's own memory, or have the request select a buffer when it begins. */
static int take_memory(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	return raw->flags & IOSQE_BUFFER_SELECT
		       ? uaio_uring_prep_select(entry)
		       : uaio_uring_check_range(raw->addr, raw->len);
}

/*
 * A bundle of sends: the request makes one send after another, each with several
 * buffers, until the group is empty. With IOSQE_ASYNC it fails once the socket is
 * ready, as in the kernel, whose workers find no buffers (bundle.c).
 */
static int prep_send_bundle(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	int ret;

	entry->sqe.call_flags |= UAIO_MSG_PIECES | MSG_WAITALL;
	entry->sqe.is_multishot = true;
	entry->sqe.polls_first |= !!(raw->flags & IOSQE_ASYNC);
	if (raw->flags & IOSQE_ASYNC)
		entry->late_error = 0;
	if (raw->flags & IOSQE_BUFFER_SELECT)
		ret = uaio_uring_prep_select(entry);
	else
		ret = uaio_uring_check_range(raw->addr, raw->len);
	if (ret == 0 && !(raw->flags & IOSQE_BUFFER_SELECT))
		ret = uaio_uring_prep_own_bundle(entry);
	/*
	 * As in the kernel, a request makes no further send after one that had to wait.
	 */
	if (ret == 0 && entry->sqe.polls_first)
		entry->note->choice.is_last = true;
	return ret;
}

/* Prepare a send with rarely used options. */
static __attribute__((noinline)) int
prep_rare_send(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	int ret;

	if (raw->ioprio & ~SEND_FLAGS)
		return -EINVAL;
	if (has_vectors(raw))
		return prep_send_vectors(entry);
	ret = prep_send_bytes(entry);
	if (ret < 0)
		return ret;
	return raw->ioprio & IORING_RECVSEND_BUNDLE ? prep_send_bundle(entry)
						    : take_memory(entry);
}

int uaio_uring_prep_send(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	int ret;

	if ((int32_t)raw->len < 0)
		return -EINVAL;
	if (unlikely(raw->ioprio))
		return prep_rare_send(entry);
	ret = prep_send_bytes(entry);
	return ret < 0 ? ret : take_memory(entry);
}

/* Copy the client's message header. Return: 0; -EFAULT; -EINVAL: bad msg_namelen. */
static int take_header(struct uaio_uring_entry *entry,
		       struct uaio_msghdr *ret_msg)
{
	const struct io_uring_sqe *raw = &entry->raw;

	begin(entry);
	if (uaio_uring_copy_in(ret_msg, raw->addr, sizeof(*ret_msg)) < 0)
		return -EFAULT;
	/*
	 * A multishot receive stores addresses in its buffers, so keep msg_namelen.
	 */
	if (!ret_msg->msg_name && !entry->sqe.is_multishot)
		ret_msg->msg_namelen = 0;
	if ((int32_t)ret_msg->msg_namelen < 0)
		return -EINVAL;
	if (ret_msg->msg_namelen > UAIO_ADDRESS_BYTES_MAX)
		ret_msg->msg_namelen = UAIO_ADDRESS_BYTES_MAX;
	return 0;
}

static int take_vectors(struct uaio_uring_entry *entry,
			const struct uaio_msghdr *msg)
{
	struct uaio_args *args = &entry->args;

	if (msg->msg_iovlen > IOV_MAX)
		return -EMSGSIZE;
	args->control = msg->msg_control;
	args->control_bytes = msg->msg_control ? msg->msg_controllen : 0;
	return take_iovs(entry, msg->msg_iov, msg->msg_iovlen);
}

static int prep_any_sendmsg(struct uaio_uring_entry *entry)
{
	struct uaio_args *args = uaio_uring_args_of(entry);
	struct uaio_msghdr msg;
	int ret = take_header(entry, &msg);

	if (ret == 0)
		ret = take_address(args, (uintptr_t)msg.msg_name,
				   msg.msg_namelen);
	return ret < 0 ? ret : take_vectors(entry, &msg);
}

int uaio_uring_prep_sendmsg(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->addr2 || raw->file_index || (int32_t)raw->len < 0 ||
	    raw->ioprio & ~SENDMSG_FLAGS)
		return -EINVAL;
	return prep_any_sendmsg(entry);
}

/* Zero-copy sends: the library copies, so the second completion follows at once. */

static int prep_zc(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->__pad2[0] || raw->addr3 || raw->flags & IOSQE_CQE_SKIP_SUCCESS)
		return -EINVAL;
	if (!uaio_uring_note_for(entry))
		return -ENOMEM;
	/* From here on, an error also posts two completions. */
	entry->note->kind = UAIO_URING_NOTE_NOTICE;
	entry->note->notice = (struct uaio_uring_notice){ .res = 0 };
	entry->note->cqe_flags = IORING_CQE_F_MORE;
	if (raw->ioprio & ~ZC_FLAGS)
		return -EINVAL;
	if (raw->ioprio & IORING_SEND_ZC_REPORT_USAGE)
		entry->note->notice.res = (int32_t)IORING_NOTIF_USAGE_ZC_COPIED;
	return 0;
}

/*
 * If a zero-copy send polls first, the kernel reports memory outside the registered
 * buffer only once the socket is ready. So send from an address that faults.
 */
static void fail_polled(struct uaio_uring_entry *entry)
{
	void *nowhere = uaio_uring_pointer(UINT64_MAX);

	/* With MSG_DONTWAIT the request fails without a send. */
	entry->late_error = entry->sqe.call_flags & MSG_DONTWAIT ? -EAGAIN : 0;
	entry->iov = (struct iovec){ nowhere, 1 };
	if (entry->sqe.op != UAIO_OP_SEND_ZC)
		return; /* sendmsg() uses entry->iov */
	entry->sqe.buf = nowhere;
	entry->sqe.len = 1;
}

/*
 * Finish preparing a zero-copy send. If the send fails with EFAULT, the kernel has
 * copied nothing, so the second completion has the result 0.
 */
static int end_zc(struct uaio_uring_entry *entry, int ret)
{
	if (ret == 0)
		entry->note->notice.is_0_on_fault =
			entry->note->notice.res && entry->late_error != -EFAULT;
	return ret;
}

static int prep_send_zc_bytes(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	int ret = prep_send_bytes(entry);

	if (ret < 0)
		return ret;
	return raw->ioprio & IORING_RECVSEND_FIXED_BUF
		       ? uaio_uring_use_buffer(entry)
		       : uaio_uring_check_range(raw->addr, raw->len);
}

int uaio_uring_prep_send_zc(struct uaio_uring_entry *entry)
{
	const uint32_t vectors_of_buffer =
		IORING_SEND_VECTORIZED | IORING_RECVSEND_FIXED_BUF;
	int ret = prep_zc(entry);

	/* Only SENDMSG_ZC may send vectors of a registered buffer. */
	if (ret == 0 &&
	    (entry->raw.ioprio & vectors_of_buffer) == vectors_of_buffer)
		ret = -EINVAL;
	if (ret < 0)
		return ret;
	ret = end_zc(entry, has_vectors(&entry->raw)
				    ? prep_send_vectors(entry)
				    : prep_send_zc_bytes(entry));
	if (ret == 0 && entry->late_error == -EFAULT && entry->sqe.polls_first)
		fail_polled(entry);
	return ret;
}

int uaio_uring_prep_sendmsg_zc(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	int ret = prep_zc(entry);

	if (ret == 0 && (raw->addr2 || raw->file_index))
		ret = -EINVAL;
	if (ret == 0)
		ret = prep_any_sendmsg(entry);
	if (ret == 0 && raw->ioprio & IORING_RECVSEND_FIXED_BUF)
		ret = uaio_uring_use_buffer_by(entry, entry->args.in,
					       entry->args.in_bytes /
						       sizeof(struct iovec));
	return end_zc(entry, ret);
}

/*
 * Receiving
 */

static int prep_any_recv(struct uaio_uring_entry *entry, unsigned flags)
{
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->addr2 || (int32_t)raw->len < 0 || raw->ioprio & ~flags)
		return -EINVAL;
	/* Only a multishot RECV may limit its total bytes (file_index). */
	if (raw->file_index && !(raw->ioprio & IORING_RECV_MULTISHOT &&
				 raw->opcode == IORING_OP_RECV))
		return -EINVAL;
	if (!(raw->ioprio & IORING_RECV_MULTISHOT))
		return 0;
	/* Each receive of a multishot request must select a buffer. */
	if (!(raw->flags & IOSQE_BUFFER_SELECT) || raw->msg_flags & MSG_WAITALL)
		return -EINVAL;
	take_shots(entry);
	return uaio_uring_note_for(entry) ? 0 : -ENOMEM;
}

int uaio_uring_prep_recv(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	int ret = prep_any_recv(entry, RECV_FLAGS);

	if (ret == 0)
		ret = prep_bytes(entry);
	if (ret == 0)
		ret = take_memory(entry);
	if (ret < 0 || !(raw->flags & IOSQE_BUFFER_SELECT))
		return ret;
	entry->note->choice.left = raw->file_index;
	if (unlikely(raw->ioprio & IORING_RECVSEND_BUNDLE))
		entry->sqe.call_flags |= UAIO_MSG_PIECES;
	return 0;
}

/*
 * If a message selects a buffer, its only vector limits how many bytes of this buffer
 * are used.
 */
static int take_limit(struct uaio_uring_entry *entry,
		      const struct uaio_msghdr *msg)
{
	struct iovec iov = { 0 };

	if (msg->msg_iovlen > 1)
		return -EINVAL;
	if (msg->msg_iovlen &&
	    uaio_uring_copy_in(&iov, (uintptr_t)msg->msg_iov, sizeof(iov)) < 0)
		return -EFAULT;
	if ((int64_t)iov.iov_len < 0)
		return -EINVAL;
	entry->sqe.len = iov.iov_len;
	entry->args.control = msg->msg_control;
	entry->args.control_bytes = msg->msg_controllen;
	if (entry->sqe.is_multishot &&
	    (msg->msg_controllen > INT_MAX ||
	     uaio_sock_head_bytes(&entry->args) > INT_MAX))
		return -EOVERFLOW;
	return uaio_uring_prep_select(entry);
}

int uaio_uring_prep_recvmsg(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_args *args = uaio_uring_args_of(entry);
	int ret = prep_any_recv(entry, RECVMSG_FLAGS);
	struct uaio_msghdr msg;

	if (ret == 0)
		ret = take_header(entry, &msg);
	if (ret < 0)
		return ret;
	args->out = uaio_uring_pointer(raw->addr);
	args->sender = msg.msg_name;
	args->sender_bytes = msg.msg_namelen;
	/*
	 * As in the kernel, a receive with room for control data is a single call,
	 * because a second call would overwrite the control data. So remove
	 * MSG_WAITALL: it has no effect on a nonblocking call, but causes more calls.
	 */
	if (msg.msg_controllen)
		entry->sqe.call_flags &= ~(uint32_t)MSG_WAITALL;
	if (raw->flags & IOSQE_BUFFER_SELECT)
		return take_limit(entry, &msg);
	return take_vectors(entry, &msg);
}

/*
 * Connections
 */

int uaio_uring_prep_accept(struct uaio_uring_entry *entry)
{
	const uint32_t known = SOCK_CLOEXEC | SOCK_NONBLOCK;
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->len || raw->buf_index || raw->ioprio & ~ACCEPT_FLAGS)
		return -EINVAL;
	if (raw->file_index && (raw->accept_flags & SOCK_CLOEXEC ||
				(raw->ioprio & IORING_ACCEPT_MULTISHOT &&
				 raw->file_index != IORING_FILE_INDEX_ALLOC)))
		return -EINVAL;
	if (raw->accept_flags & ~known)
		return -EINVAL;
	entry->sqe.off = UAIO_OFF_POSITION;
	entry->sqe.buf = uaio_uring_pointer(raw->addr);
	entry->sqe.len = raw->addr2;
	entry->sqe.call_flags = raw->accept_flags;
	if (raw->ioprio & IORING_ACCEPT_DONTWAIT)
		entry->sqe.call_flags |= MSG_DONTWAIT;
	if (raw->ioprio & IORING_ACCEPT_MULTISHOT) {
		take_shots(entry);
		if (!uaio_uring_note_for(entry))
			return -ENOMEM;
	}
	if (raw->ioprio & IORING_ACCEPT_POLL_FIRST)
		poll_first(entry);
	return uaio_uring_prep_land(entry, raw->accept_flags);
}

int uaio_uring_prep_connect(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_args *args = uaio_uring_args_of(entry);

	if (raw->len || raw->buf_index || raw->rw_flags || raw->splice_fd_in)
		return -EINVAL;
	entry->sqe.off = UAIO_OFF_POSITION;
	return take_address(args, raw->addr, (int)raw->addr2);
}

int uaio_uring_prep_shutdown(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->off || raw->addr || raw->rw_flags || raw->buf_index ||
	    raw->splice_fd_in)
		return -EINVAL;
	entry->sqe.len = raw->len;
	return 0;
}

int uaio_uring_prep_socket(struct uaio_uring_entry *entry)
{
	const uint32_t types = 0xf, known = SOCK_CLOEXEC | SOCK_NONBLOCK;
	const struct io_uring_sqe *raw = &entry->raw;
	uint32_t flags = (uint32_t)raw->off & ~types;

	if (raw->addr || raw->rw_flags || raw->buf_index)
		return -EINVAL;
	if (raw->file_index && flags & SOCK_CLOEXEC)
		return -EINVAL;
	if (flags & ~known)
		return -EINVAL;
	entry->sqe.mode = (uint32_t)raw->off;
	entry->sqe.len = raw->len;
	return uaio_uring_prep_land(entry, flags);
}

int uaio_uring_prep_bind(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_args *args = uaio_uring_args_of(entry);

	if (raw->len || raw->buf_index || raw->rw_flags || raw->splice_fd_in)
		return -EINVAL;
	return take_address(args, raw->addr, (int)raw->addr2);
}

int uaio_uring_prep_listen(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->addr || raw->buf_index || raw->rw_flags || raw->splice_fd_in ||
	    raw->addr2)
		return -EINVAL;
	entry->sqe.len = raw->len;
	return 0;
}
