/* SPDX-License-Identifier: MIT */
/*
 * The operations that are a call about a file, a path or a descriptor: opdef.c has
 * their rows
 *
 * Tested by test-uring-calls.c.
 */
#ifndef UAIO_URING_FS_H
#define UAIO_URING_FS_H

struct uaio_uring_entry;

typedef int uaio_uring_prep_fn(struct uaio_uring_entry *entry);

uaio_uring_prep_fn uaio_uring_prep_fallocate;
uaio_uring_prep_fn uaio_uring_prep_ftruncate;
uaio_uring_prep_fn uaio_uring_prep_sync_range;
uaio_uring_prep_fn uaio_uring_prep_fadvise;
uaio_uring_prep_fn uaio_uring_prep_madvise;
uaio_uring_prep_fn uaio_uring_prep_openat;
uaio_uring_prep_fn uaio_uring_prep_openat2;
uaio_uring_prep_fn uaio_uring_prep_close;
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
uaio_uring_prep_fn uaio_uring_prep_epoll_ctl;
uaio_uring_prep_fn uaio_uring_prep_pipe;

#endif /* UAIO_URING_FS_H */
