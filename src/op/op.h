/* SPDX-License-Identifier: MIT */
/*
 * Operations: one pair of functions per row of the table in optab.c
 *
 * prep refuses what is not safe to go on with, or can never be made, whatever
 * interface the request came by; run makes the system call. They know nothing of
 * contexts, queues or threads.
 */
#ifndef UAIO_OP_OP_H
#define UAIO_OP_OP_H

#include "engine/opdef.h"

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

/* nop.c */
int uaio_nop_prep(const struct uaio_sqe *sqe, const struct uaio_file *file);
int64_t uaio_nop_run(const struct uaio_sqe *sqe, int fd, bool is_stream,
		     uint32_t extra_flags);

#endif /* UAIO_OP_OP_H */
