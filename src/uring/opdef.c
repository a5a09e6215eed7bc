/* SPDX-License-Identifier: MIT */
/*
 * The table of operations, and the translation of no-ops
 *
 * Each function checks a submission in the kernel's order.
 *
 * Tested by test-uring-ops.c.
 */
#include <errno.h>
#include <stdint.h>

#include "base/check.h"
#include "uring/note.h"
#include "uring/opdef.h"
#include "uring/ring.h"
#include "uring/sq.h"

/*
 * Return: the result of a no-op: the error that it injects, or the error of the file or
 * buffer that it names.
 */
static __attribute__((noinline)) int
result_of_nop(const struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	const uint32_t flags = raw->rw_flags;
	bool is_fixed =
		flags & IORING_NOP_FIXED_FILE || raw->flags & IOSQE_FIXED_FILE;

	if (flags & IORING_NOP_FILE &&
	    !(is_fixed ? uaio_uring_has_fixed(entry->ring, (uint32_t)raw->fd)
		       : uaio_uring_may_use(raw->fd)))
		return -EBADF;
	if (flags & IORING_NOP_FIXED_BUFFER &&
	    !uaio_uring_table_at(&entry->ring->buffers, raw->buf_index))
		return -EFAULT;
	return flags & IORING_NOP_INJECT_RESULT ? (int)raw->len : 0;
}

static int prep_nop(struct uaio_uring_entry *entry)
{
	const uint32_t flags = IORING_NOP_INJECT_RESULT | IORING_NOP_FILE |
			       IORING_NOP_FIXED_FILE | IORING_NOP_FIXED_BUFFER |
			       IORING_NOP_TW | IORING_NOP_CQE32;
	const struct io_uring_sqe *raw = &entry->raw;

	if (likely(!raw->rw_flags))
		return 0;
	if (raw->rw_flags & ~flags)
		return -EINVAL;
	if (raw->rw_flags & IORING_NOP_CQE32) {
		if (!(entry->ring->setup &
		      (IORING_SETUP_CQE32 | IORING_SETUP_CQE_MIXED)))
			return -EINVAL;
		if (!uaio_uring_note_for(entry))
			return -ENOMEM;
		if (entry->ring->setup & IORING_SETUP_CQE_MIXED)
			entry->note->cqe_flags = IORING_CQE_F_32;
		entry->note->extra[0] = raw->off;
		entry->note->extra[1] = raw->addr;
	}
	/*
	 * Ignore IORING_NOP_TW: it only affects in which context the kernel completes a
	 * no-op.
	 */
	entry->sqe.len = (uint32_t)result_of_nop(entry);
	return 0;
}

static const struct uaio_uring_row rows[] = {
	[IORING_OP_NOP] = {
		.op = UAIO_OP_NOP,
		.prep = prep_nop,
		.has_iopoll = true,
	},
	[IORING_OP_READ] = {
		.op = UAIO_OP_READ,
		.prep = uaio_uring_prep_rw,
		.has_file = true,
		.has_ioprio = true,
		.has_iopoll = true,
		.selects_buffer = true,
	},
	[IORING_OP_READV] = {
		.op = UAIO_OP_READV,
		.prep = uaio_uring_prep_rwv,
		.has_file = true,
		.has_ioprio = true,
		.has_iopoll = true,
		.selects_buffer = true,
	},
	[IORING_OP_READ_MULTISHOT] = {
		.op = UAIO_OP_READ_SELECT,
		.prep = uaio_uring_prep_read_multishot,
		.has_file = true,
		.selects_buffer = true,
	},
	[IORING_OP_READ_FIXED] = {
		.op = UAIO_OP_READ,
		.prep = uaio_uring_prep_rw_fixed,
		.has_file = true,
		.has_ioprio = true,
		.has_iopoll = true,
	},
	[IORING_OP_WRITE] = {
		.op = UAIO_OP_WRITE,
		.prep = uaio_uring_prep_rw,
		.has_file = true,
		.has_ioprio = true,
		.has_iopoll = true,
	},
	[IORING_OP_WRITEV] = {
		.op = UAIO_OP_WRITEV,
		.prep = uaio_uring_prep_rwv,
		.has_file = true,
		.has_ioprio = true,
		.has_iopoll = true,
	},
	[IORING_OP_WRITE_FIXED] = {
		.op = UAIO_OP_WRITE,
		.prep = uaio_uring_prep_rw_fixed,
		.has_file = true,
		.has_ioprio = true,
		.has_iopoll = true,
	},
	[IORING_OP_READV_FIXED] = {
		.op = UAIO_OP_READV,
		.prep = uaio_uring_prep_rwv_fixed,
		.has_file = true,
		.has_ioprio = true,
		.has_iopoll = true,
	},
	[IORING_OP_WRITEV_FIXED] = {
		.op = UAIO_OP_WRITEV,
		.prep = uaio_uring_prep_rwv_fixed,
		.has_file = true,
		.has_ioprio = true,
		.has_iopoll = true,
	},
	[IORING_OP_FSYNC] = {
		.op = UAIO_OP_FSYNC,
		.prep = uaio_uring_prep_fsync,
		.has_file = true,
	},
	[IORING_OP_POLL_ADD] = {
		.op = UAIO_OP_POLL,
		.prep = uaio_uring_prep_poll_add,
		.has_file = true,
	},
	[IORING_OP_POLL_REMOVE] = {
		.op = UAIO_OP_CALLED,
		.prep = uaio_uring_prep_poll_remove,
	},
	[IORING_OP_TIMEOUT] = {
		.op = UAIO_OP_TIMER,
		.prep = uaio_uring_prep_timeout,
	},
	[IORING_OP_TIMEOUT_REMOVE] = {
		.op = UAIO_OP_CALLED,
		.prep = uaio_uring_prep_timeout_remove,
	},
	[IORING_OP_LINK_TIMEOUT] = {
		.op = UAIO_OP_LINK_TIMER,
		.prep = uaio_uring_prep_link_timeout,
	},
	[IORING_OP_ASYNC_CANCEL] = {
		.op = UAIO_OP_CALLED,
		.prep = uaio_uring_prep_async_cancel,
	},
	[IORING_OP_PROVIDE_BUFFERS] = {
		.op = UAIO_OP_CALLED,
		.prep = uaio_uring_prep_provide,
		.has_iopoll = true,
	},
	[IORING_OP_REMOVE_BUFFERS] = {
		.op = UAIO_OP_CALLED,
		.prep = uaio_uring_prep_remove,
		.has_iopoll = true,
	},
	[IORING_OP_MSG_RING] = {
		.op = UAIO_OP_CALLED,
		.prep = uaio_uring_prep_msg,
		.has_iopoll = true,
	},
	[IORING_OP_OPENAT] = {
		.op = UAIO_OP_OPENAT,
		.prep = uaio_uring_prep_openat,
	},
	[IORING_OP_FALLOCATE] = {
		.op = UAIO_OP_FALLOCATE,
		.prep = uaio_uring_prep_fallocate,
		.has_file = true,
	},
	[IORING_OP_FTRUNCATE] = {
		.op = UAIO_OP_FTRUNCATE,
		.prep = uaio_uring_prep_ftruncate,
		.has_file = true,
	},
	[IORING_OP_SYNC_FILE_RANGE] = {
		.op = UAIO_OP_SYNC_FILE_RANGE,
		.prep = uaio_uring_prep_sync_range,
		.has_file = true,
	},
	[IORING_OP_FADVISE] = {
		.op = UAIO_OP_FADVISE,
		.prep = uaio_uring_prep_fadvise,
		.has_file = true,
	},
	[IORING_OP_MADVISE] = {
		.op = UAIO_OP_MADVISE,
		.prep = uaio_uring_prep_madvise,
	},
	[IORING_OP_OPENAT2] = {
		.op = UAIO_OP_OPENAT2,
		.prep = uaio_uring_prep_openat2,
	},
	[IORING_OP_CLOSE] = {
		.op = UAIO_OP_CLOSE,
		.prep = uaio_uring_prep_close,
	},
	[IORING_OP_FILES_UPDATE] = {
		.op = UAIO_OP_CALLED,
		.prep = uaio_uring_prep_files_update,
	},
	[IORING_OP_FIXED_FD_INSTALL] = {
		.op = UAIO_OP_CALLED,
		.prep = uaio_uring_prep_install,
	},
	[IORING_OP_STATX] = {
		.op = UAIO_OP_STATX,
		.prep = uaio_uring_prep_statx,
	},
	[IORING_OP_RENAMEAT] = {
		.op = UAIO_OP_RENAMEAT,
		.prep = uaio_uring_prep_renameat,
	},
	[IORING_OP_UNLINKAT] = {
		.op = UAIO_OP_UNLINKAT,
		.prep = uaio_uring_prep_unlinkat,
	},
	[IORING_OP_MKDIRAT] = {
		.op = UAIO_OP_MKDIRAT,
		.prep = uaio_uring_prep_mkdirat,
	},
	[IORING_OP_SYMLINKAT] = {
		.op = UAIO_OP_SYMLINKAT,
		.prep = uaio_uring_prep_symlinkat,
	},
	[IORING_OP_LINKAT] = {
		.op = UAIO_OP_LINKAT,
		.prep = uaio_uring_prep_linkat,
	},
	[IORING_OP_FGETXATTR] = {
		.op = UAIO_OP_FGETXATTR,
		.prep = uaio_uring_prep_fgetxattr,
		.has_file = true,
	},
	[IORING_OP_FSETXATTR] = {
		.op = UAIO_OP_FSETXATTR,
		.prep = uaio_uring_prep_fsetxattr,
		.has_file = true,
	},
	[IORING_OP_GETXATTR] = {
		.op = UAIO_OP_GETXATTR,
		.prep = uaio_uring_prep_getxattr,
	},
	[IORING_OP_SETXATTR] = {
		.op = UAIO_OP_SETXATTR,
		.prep = uaio_uring_prep_setxattr,
	},
	[IORING_OP_SPLICE] = {
		.op = UAIO_OP_SPLICE,
		.prep = uaio_uring_prep_splice,
	},
	[IORING_OP_TEE] = {
		.op = UAIO_OP_TEE,
		.prep = uaio_uring_prep_tee,
	},
	[IORING_OP_EPOLL_CTL] = {
		.op = UAIO_OP_EPOLL_CTL,
		.prep = uaio_uring_prep_epoll_ctl,
	},
	[IORING_OP_PIPE] = {
		.op = UAIO_OP_PIPE,
		.prep = uaio_uring_prep_pipe,
	},
	[IORING_OP_FUTEX_WAKE] = {
		.op = UAIO_OP_FUTEX_WAKE,
		.prep = uaio_uring_prep_futex_wake,
	},
	[IORING_OP_FUTEX_WAIT] = {
		.op = UAIO_OP_FUTEX_WAIT,
		.prep = uaio_uring_prep_futex_wait,
	},
	[IORING_OP_FUTEX_WAITV] = {
		.op = UAIO_OP_FUTEX_WAITV,
		.prep = uaio_uring_prep_futex_waitv,
	},
	[IORING_OP_WAITID] = {
		.op = UAIO_OP_WAITID,
		.prep = uaio_uring_prep_waitid,
	},
	[IORING_OP_EPOLL_WAIT] = {
		.op = UAIO_OP_EPOLL_WAIT,
		.prep = uaio_uring_prep_epoll_wait,
		.has_file = true,
	},
	[IORING_OP_SEND] = {
		.op = UAIO_OP_SEND,
		.prep = uaio_uring_prep_send,
		.has_file = true,
		.has_ioprio = true,
		.selects_buffer = true,
	},
	[IORING_OP_SENDMSG] = {
		.op = UAIO_OP_SENDMSG,
		.prep = uaio_uring_prep_sendmsg,
		.has_file = true,
		.has_ioprio = true,
	},
	[IORING_OP_SEND_ZC] = {
		.op = UAIO_OP_SEND_ZC,
		.prep = uaio_uring_prep_send_zc,
		.has_file = true,
		.has_ioprio = true,
	},
	[IORING_OP_SENDMSG_ZC] = {
		.op = UAIO_OP_SENDMSG_ZC,
		.prep = uaio_uring_prep_sendmsg_zc,
		.has_file = true,
		.has_ioprio = true,
	},
	[IORING_OP_RECV] = {
		.op = UAIO_OP_RECV,
		.prep = uaio_uring_prep_recv,
		.has_file = true,
		.has_ioprio = true,
		.selects_buffer = true,
	},
	[IORING_OP_RECVMSG] = {
		.op = UAIO_OP_RECVMSG,
		.prep = uaio_uring_prep_recvmsg,
		.has_file = true,
		.has_ioprio = true,
		.selects_buffer = true,
	},
	[IORING_OP_ACCEPT] = {
		.op = UAIO_OP_ACCEPT,
		.prep = uaio_uring_prep_accept,
		.has_file = true,
		.has_ioprio = true,
	},
	[IORING_OP_CONNECT] = {
		.op = UAIO_OP_CONNECT,
		.prep = uaio_uring_prep_connect,
		.has_file = true,
	},
	[IORING_OP_SHUTDOWN] = {
		.op = UAIO_OP_SHUTDOWN,
		.prep = uaio_uring_prep_shutdown,
		.has_file = true,
	},
	[IORING_OP_SOCKET] = {
		.op = UAIO_OP_SOCKET,
		.prep = uaio_uring_prep_socket,
	},
	[IORING_OP_BIND] = {
		.op = UAIO_OP_BIND,
		.prep = uaio_uring_prep_bind,
		.has_file = true,
	},
	[IORING_OP_LISTEN] = {
		.op = UAIO_OP_LISTEN,
		.prep = uaio_uring_prep_listen,
		.has_file = true,
	},
	[IORING_OP_URING_CMD] = {
		.op = UAIO_OP_SOCKET_CMD,
		.selects_buffer = true,
		.prep = uaio_uring_prep_cmd,
		.has_file = true,
		.has_iopoll = true,
	},
};

const struct uaio_uring_row *uaio_uring_row_of(unsigned opcode)
{
	return opcode < sizeof(rows) / sizeof(rows[0]) && rows[opcode].prep
		       ? &rows[opcode]
		       : NULL;
}
