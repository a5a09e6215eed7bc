/* SPDX-License-Identifier: MIT */
/*
 * The functions prep and run of each operation, for the table in optab.c
 *
 * op.h says what prep and run do. These functions know nothing of contexts, queues or
 * threads, nor of the interface by which a request was submitted.
 */
#ifndef UAIO_OP_ROWS_H
#define UAIO_OP_ROWS_H

#include "op/op.h"

/* rw.c */
int uaio_rw_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_rw_run_read(const struct uaio_sqe *sqe, int fd,
			 struct uaio_found *found, uint32_t extra_flags);
/*
 * Have the front-end (kernel AIO, io_uring or POSIX AIO) choose memory for a call that
 * reads at most sqe->len bytes from a stream.
 * Return: 0 if memory was chosen; the caller then makes the call, and reports the
 * result of the call to the front-end. Otherwise the request's result. If a retried
 * request finds neither memory nor bytes to read, the result is -EAGAIN: the request
 * waits again.
 */
int uaio_rw_pick(const struct uaio_sqe *sqe, int fd, bool may_block,
		 uint32_t extra_flags, struct iovec *ret_iov);
int64_t uaio_rw_run_select(const struct uaio_sqe *sqe, int fd,
			   struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_rw_run_readv(const struct uaio_sqe *sqe, int fd,
			  struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_rw_run_write(const struct uaio_sqe *sqe, int fd,
			  struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_rw_run_writev(const struct uaio_sqe *sqe, int fd,
			   struct uaio_found *found, uint32_t extra_flags);

/* tries.c */
extern const struct uaio_op_tries uaio_rw_tries;
extern const struct uaio_op_tries uaio_rw_select_tries;
extern const struct uaio_op_tries uaio_plain_tries;
extern const struct uaio_op_tries uaio_sock_tries;
extern const struct uaio_op_tries uaio_accept_tries;
/* Return: whether poll() reports one of the events for the file, or poll() fails. */
bool uaio_may_be_ready(int fd, short events);

/* sync.c */
int uaio_sync_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_sync_run_fsync(const struct uaio_sqe *sqe, int fd,
			    struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_sync_run_fdsync(const struct uaio_sqe *sqe, int fd,
			     struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_sync_run_range(const struct uaio_sqe *sqe, int fd,
			    struct uaio_found *found, uint32_t extra_flags);

/* poll.c */
int uaio_poll_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_poll_run(const struct uaio_sqe *sqe, int fd,
		      struct uaio_found *found, uint32_t extra_flags);

/* open.c */
int uaio_openat_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_openat_run(const struct uaio_sqe *sqe, int fd,
			struct uaio_found *found, uint32_t extra_flags);
int uaio_openat2_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_openat2_run(const struct uaio_sqe *sqe, int fd,
			 struct uaio_found *found, uint32_t extra_flags);

/* timer.c */
int uaio_timer_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_timer_run(const struct uaio_sqe *sqe, int fd,
		       struct uaio_found *found, uint32_t extra_flags);

/* futex.c */
int64_t uaio_futex_wake_run(const struct uaio_sqe *sqe, int fd,
			    struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_futex_wait_run(const struct uaio_sqe *sqe, int fd,
			    struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_futex_waitv_run(const struct uaio_sqe *sqe, int fd,
			     struct uaio_found *found, uint32_t extra_flags);

/* waitid.c */
int64_t uaio_waitid_run(const struct uaio_sqe *sqe, int fd,
			struct uaio_found *found, uint32_t extra_flags);

/* space.c */
int uaio_fallocate_prep(const struct uaio_sqe *sqe,
			const struct uaio_file *file);
int uaio_ftruncate_prep(const struct uaio_sqe *sqe,
			const struct uaio_file *file);
int64_t uaio_fallocate_run(const struct uaio_sqe *sqe, int fd,
			   struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_ftruncate_run(const struct uaio_sqe *sqe, int fd,
			   struct uaio_found *found, uint32_t extra_flags);

/* advise.c */
int64_t uaio_fadvise_run(const struct uaio_sqe *sqe, int fd,
			 struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_madvise_run(const struct uaio_sqe *sqe, int fd,
			 struct uaio_found *found, uint32_t extra_flags);

/* path.c */
int uaio_statx_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_statx_run(const struct uaio_sqe *sqe, int fd,
		       struct uaio_found *found, uint32_t extra_flags);
int uaio_paths_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_renameat_run(const struct uaio_sqe *sqe, int fd,
			  struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_symlinkat_run(const struct uaio_sqe *sqe, int fd,
			   struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_linkat_run(const struct uaio_sqe *sqe, int fd,
			struct uaio_found *found, uint32_t extra_flags);
int uaio_unlinkat_prep(const struct uaio_sqe *sqe,
		       const struct uaio_file *file);
int64_t uaio_unlinkat_run(const struct uaio_sqe *sqe, int fd,
			  struct uaio_found *found, uint32_t extra_flags);
int uaio_mkdirat_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_mkdirat_run(const struct uaio_sqe *sqe, int fd,
			 struct uaio_found *found, uint32_t extra_flags);

/* xattr.c */
int uaio_getxattr_prep(const struct uaio_sqe *sqe,
		       const struct uaio_file *file);
int64_t uaio_getxattr_run(const struct uaio_sqe *sqe, int fd,
			  struct uaio_found *found, uint32_t extra_flags);
int uaio_setxattr_prep(const struct uaio_sqe *sqe,
		       const struct uaio_file *file);
int64_t uaio_setxattr_run(const struct uaio_sqe *sqe, int fd,
			  struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_fgetxattr_run(const struct uaio_sqe *sqe, int fd,
			   struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_fsetxattr_run(const struct uaio_sqe *sqe, int fd,
			   struct uaio_found *found, uint32_t extra_flags);

/* splice.c */
int uaio_splice_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_splice_run(const struct uaio_sqe *sqe, int fd,
			struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_tee_run(const struct uaio_sqe *sqe, int fd,
		     struct uaio_found *found, uint32_t extra_flags);

/* descriptor.c */
int64_t uaio_close_run(const struct uaio_sqe *sqe, int fd,
		       struct uaio_found *found, uint32_t extra_flags);
int uaio_epoll_ctl_prep(const struct uaio_sqe *sqe,
			const struct uaio_file *file);
int64_t uaio_epoll_ctl_run(const struct uaio_sqe *sqe, int fd,
			   struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_epoll_wait_run(const struct uaio_sqe *sqe, int fd,
			    struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_pipe_run(const struct uaio_sqe *sqe, int fd,
		      struct uaio_found *found, uint32_t extra_flags);

/* message.c */
int uaio_socket_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_send_run(const struct uaio_sqe *sqe, int fd,
		      struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_sendmsg_run(const struct uaio_sqe *sqe, int fd,
			 struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_send_zc_run(const struct uaio_sqe *sqe, int fd,
			 struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_sendmsg_zc_run(const struct uaio_sqe *sqe, int fd,
			    struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_recv_run(const struct uaio_sqe *sqe, int fd,
		      struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_recvmsg_run(const struct uaio_sqe *sqe, int fd,
			 struct uaio_found *found, uint32_t extra_flags);

/* socket.c */
int64_t uaio_accept_run(const struct uaio_sqe *sqe, int fd,
			struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_connect_run(const struct uaio_sqe *sqe, int fd,
			 struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_shutdown_run(const struct uaio_sqe *sqe, int fd,
			  struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_bind_run(const struct uaio_sqe *sqe, int fd,
		      struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_listen_run(const struct uaio_sqe *sqe, int fd,
			struct uaio_found *found, uint32_t extra_flags);
int uaio_socket_cmd_prep(const struct uaio_sqe *sqe,
			 const struct uaio_file *file);
int64_t uaio_socket_cmd_run(const struct uaio_sqe *sqe, int fd,
			    struct uaio_found *found, uint32_t extra_flags);
int64_t uaio_socket_run(const struct uaio_sqe *sqe, int fd,
			struct uaio_found *found, uint32_t extra_flags);

/*
 * nop.c. uaio_nop_prep() also serves all operations whose system call checks its arguments
 * itself
 */
int uaio_nop_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_nop_run(const struct uaio_sqe *sqe, int fd,
		     struct uaio_found *found, uint32_t extra_flags);

/* called.c */
int uaio_called_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_called_run(const struct uaio_sqe *sqe, int fd,
			struct uaio_found *found, uint32_t extra_flags);

#endif /* UAIO_OP_ROWS_H */
