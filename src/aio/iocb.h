/* SPDX-License-Identifier: MIT */
/*
 * Checking the kernel's iocb, and translating it for the engine. Tested by
 * test/conform/rows-submit.c.
 */
#ifndef UAIO_AIO_IOCB_H
#define UAIO_AIO_IOCB_H

#include <linux/aio_abi.h>

#include "op/op.h"

enum { UAIO_IOCB_KEY = 0 }; /* what the kernel writes to aio_key */

/* Return: 0, or -EFAULT if the iocb cannot be read. */
int uaio_iocb_check_address(const struct iocb *iocb);

/*
 * Check what is the same for all operations.
 * Return: 0, -EFAULT if the iocb cannot be read, or -EINVAL if a reserved field
 * is set or the length is negative.
 */
int uaio_iocb_check(const struct iocb *iocb);

/* Return: 0, or -EINVAL if the operation is unknown. */
int uaio_iocb_translate(const struct iocb *iocb, struct uaio_sqe *ret_sqe);

/* Return: the result of a request that was cancelled. A poll has no events. */
int64_t uaio_iocb_cancelled(const struct uaio_sqe *sqe);

#endif /* UAIO_AIO_IOCB_H */
