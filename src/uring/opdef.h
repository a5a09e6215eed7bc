/* SPDX-License-Identifier: MIT */
/*
 * The operations of io_uring: a row for each opcode, and the functions that translate
 * submissions
 *
 * Tested by test-uring-ops.c.
 */
#ifndef UAIO_URING_OPDEF_H
#define UAIO_URING_OPDEF_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_uring_entry;

typedef int uaio_uring_prep_fn(struct uaio_uring_entry *entry);

/* The row of an opcode. */
struct uaio_uring_row {
	/*
	 * Translate the submission. NULL: the opcode is not supported. Return: 0 or
	 * -errno; if a submission has several errors, the one that the kernel finds
	 * first.
	 */
	uaio_uring_prep_fn *prep;
	uint8_t op; /* enum uaio_op */
	bool has_file;
	bool has_ioprio;
	bool has_iopoll;
	/* may select a provided buffer (IOSQE_BUFFER_SELECT) */
	bool selects_buffer;
};

/* Return: the row of an opcode; NULL if it is not supported. */
const struct uaio_uring_row *uaio_uring_row_of(unsigned opcode);

/* The table is in opdef.c. The translating functions, by file: */

/* cancel.c */
uaio_uring_prep_fn uaio_uring_prep_async_cancel;

/* filetable.c */
uaio_uring_prep_fn uaio_uring_prep_files_update;

/* fs.c */
uaio_uring_prep_fn uaio_uring_prep_fsync;
uaio_uring_prep_fn uaio_uring_prep_fallocate;
uaio_uring_prep_fn uaio_uring_prep_ftruncate;
uaio_uring_prep_fn uaio_uring_prep_sync_range;
uaio_uring_prep_fn uaio_uring_prep_fadvise;
uaio_uring_prep_fn uaio_uring_prep_madvise;
uaio_uring_prep_fn uaio_uring_prep_statx;
uaio_uring_prep_fn uaio_uring_prep_renameat;
uaio_uring_prep_fn uaio_uring_prep_unlinkat;
uaio_uring_prep_fn uaio_uring_prep_mkdirat;
uaio_uring_prep_fn uaio_uring_prep_symlinkat;
uaio_uring_prep_fn uaio_uring_prep_linkat;
uaio_uring_prep_fn uaio_uring_prep_fgetxattr;
uaio_uring_prep_fn uaio_uring_prep_fsetxattr;
uaio_uring_prep_fn uaio_uring_prep_getxattr;
uaio_uring_prep_fn uaio_uring_prep_setxattr;
uaio_uring_prep_fn uaio_uring_prep_splice;
uaio_uring_prep_fn uaio_uring_prep_tee;

/* futex.c */
uaio_uring_prep_fn uaio_uring_prep_futex_wake;
uaio_uring_prep_fn uaio_uring_prep_futex_wait;
uaio_uring_prep_fn uaio_uring_prep_futex_waitv;

/* kbufreg.c */
uaio_uring_prep_fn uaio_uring_prep_provide;
uaio_uring_prep_fn uaio_uring_prep_remove;

/* msg_ring.c */
uaio_uring_prep_fn uaio_uring_prep_msg;

/* net.c */
uaio_uring_prep_fn uaio_uring_prep_send;
uaio_uring_prep_fn uaio_uring_prep_send_zc;
uaio_uring_prep_fn uaio_uring_prep_sendmsg;
uaio_uring_prep_fn uaio_uring_prep_sendmsg_zc;
uaio_uring_prep_fn uaio_uring_prep_recv;
uaio_uring_prep_fn uaio_uring_prep_recvmsg;
uaio_uring_prep_fn uaio_uring_prep_accept;
uaio_uring_prep_fn uaio_uring_prep_connect;
uaio_uring_prep_fn uaio_uring_prep_shutdown;
uaio_uring_prep_fn uaio_uring_prep_socket;
uaio_uring_prep_fn uaio_uring_prep_bind;
uaio_uring_prep_fn uaio_uring_prep_listen;

/* openclose.c */
uaio_uring_prep_fn uaio_uring_prep_openat;
uaio_uring_prep_fn uaio_uring_prep_openat2;
uaio_uring_prep_fn uaio_uring_prep_close;
uaio_uring_prep_fn uaio_uring_prep_install;
uaio_uring_prep_fn uaio_uring_prep_pipe;

/* poll.c */
uaio_uring_prep_fn uaio_uring_prep_poll_add;
uaio_uring_prep_fn uaio_uring_prep_poll_remove;
uaio_uring_prep_fn uaio_uring_prep_epoll_ctl;
uaio_uring_prep_fn uaio_uring_prep_epoll_wait;

/* rw.c */
uaio_uring_prep_fn uaio_uring_prep_rw;
uaio_uring_prep_fn uaio_uring_prep_read_multishot;
uaio_uring_prep_fn uaio_uring_prep_rwv;
uaio_uring_prep_fn uaio_uring_prep_rw_fixed;
uaio_uring_prep_fn uaio_uring_prep_rwv_fixed;

/* timeout.c */
uaio_uring_prep_fn uaio_uring_prep_timeout;
uaio_uring_prep_fn uaio_uring_prep_link_timeout;
uaio_uring_prep_fn uaio_uring_prep_timeout_remove;

/* uring_cmd.c */
uaio_uring_prep_fn uaio_uring_prep_cmd;

/* waitid.c */
uaio_uring_prep_fn uaio_uring_prep_waitid;

#endif /* UAIO_URING_OPDEF_H */
