/* SPDX-License-Identifier: MIT */
/*
 * The functions of the operations: one pair for each row of optab.c
 *
 * op.h says what prep and run do. They know nothing of contexts, queues or
 * threads, nor of the interface that a request came by.
 */
#ifndef UAIO_OP_ROWS_H
#define UAIO_OP_ROWS_H

#include "op/op.h"

/* rw.c */
int uaio_rw_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_rw_run_read(const struct uaio_sqe *sqe, int fd, bool is_stream,
			 uint32_t extra_flags);
int64_t uaio_rw_run_readv(const struct uaio_sqe *sqe, int fd, bool is_stream,
			  uint32_t extra_flags);
int64_t uaio_rw_run_write(const struct uaio_sqe *sqe, int fd, bool is_stream,
			  uint32_t extra_flags);
int64_t uaio_rw_run_writev(const struct uaio_sqe *sqe, int fd, bool is_stream,
			   uint32_t extra_flags);

/* sync.c */
int uaio_sync_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_sync_run_fsync(const struct uaio_sqe *sqe, int fd, bool is_stream,
			    uint32_t extra_flags);
int64_t uaio_sync_run_fdsync(const struct uaio_sqe *sqe, int fd, bool is_stream,
			     uint32_t extra_flags);

/* poll.c */
int uaio_poll_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_poll_run(const struct uaio_sqe *sqe, int fd, bool is_stream,
		      uint32_t extra_flags);

/* open.c */
int uaio_openat_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_openat_run(const struct uaio_sqe *sqe, int fd, bool is_stream,
			uint32_t extra_flags);

/* timer.c */
int uaio_timer_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_timer_run(const struct uaio_sqe *sqe, int fd, bool is_stream,
		       uint32_t extra_flags);

/* nop.c */
int uaio_nop_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_nop_run(const struct uaio_sqe *sqe, int fd, bool is_stream,
		     uint32_t extra_flags);

#endif /* UAIO_OP_ROWS_H */
