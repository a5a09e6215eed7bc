/* SPDX-License-Identifier: MIT */
/*
 * The operations that wait for what no file tells of: opdef.c has their rows
 *
 * Tested by test-uring-futex.c and test-uring-waitid.c.
 */
#ifndef UAIO_URING_FUTEX_H
#define UAIO_URING_FUTEX_H

#include "uring/fs.h"

uaio_uring_prep_fn uaio_uring_prep_futex_wake;
uaio_uring_prep_fn uaio_uring_prep_futex_wait;
uaio_uring_prep_fn uaio_uring_prep_futex_waitv;
uaio_uring_prep_fn uaio_uring_prep_waitid;
uaio_uring_prep_fn uaio_uring_prep_epoll_wait;

#endif /* UAIO_URING_FUTEX_H */
