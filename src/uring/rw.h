/* SPDX-License-Identifier: MIT */
/*
 * Reads, writes and syncs: opdef.c has their rows
 *
 * Tested by test-uring-ops.c and test-uring-regbuf.c.
 */
#ifndef UAIO_URING_RW_H
#define UAIO_URING_RW_H

#include "uring/fs.h"

uaio_uring_prep_fn uaio_uring_prep_rw;
uaio_uring_prep_fn uaio_uring_prep_read_multishot;
uaio_uring_prep_fn uaio_uring_prep_rwv;
uaio_uring_prep_fn uaio_uring_prep_rw_fixed;
uaio_uring_prep_fn uaio_uring_prep_rwv_fixed;
uaio_uring_prep_fn uaio_uring_prep_fsync;

#endif /* UAIO_URING_RW_H */
