/* SPDX-License-Identifier: MIT */
/* The kernel's iocb, checked and translated for the engine. */
#ifndef UAIO_FRONT_IOCB_H
#define UAIO_FRONT_IOCB_H

#include <linux/aio_abi.h>

#include "engine/opdef.h"

enum { UAIO_IOCB_KEY = 0 }; /* what the kernel writes to aio_key */

/* Return: 0, or -EFAULT if the iocb cannot be read. */
int uaio_iocb_check_address(const struct iocb *iocb);

/* Return: 0, -EFAULT, or -EINVAL for fields that no operation may have so. */
int uaio_iocb_check(const struct iocb *iocb);

/* Return: 0, or -EINVAL for an unknown operation. */
int uaio_iocb_translate(const struct iocb *iocb, struct uaio_sqe *ret_sqe);

#endif /* UAIO_FRONT_IOCB_H */
