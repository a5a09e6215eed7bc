/* SPDX-License-Identifier: MIT */
/*
 * Checking an iocb, translating it to a struct uaio_sqe, and refusing what kernel AIO
 * refuses. Tested by test/conform/rows-submit.c.
 */
#ifndef UAIO_AIO_IOCB_H
#define UAIO_AIO_IOCB_H

#include <linux/aio_abi.h>
#include <stdint.h>

#include "base/check.h"
#include "file/file.h"
#include "op/op.h"

struct uaio_post;

enum { UAIO_IOCB_KEY = 0 }; /* the value that the kernel stores in aio_key */

/* Return: 0, or -EFAULT if the iocb cannot be read. */
int uaio_iocb_check_address(const struct iocb *iocb);

/*
 * Check the fields whose rules do not depend on the operation.
 * Return: 0, -EFAULT if the iocb cannot be read, or -EINVAL if a reserved field is set or the
 * length is negative.
 */
int uaio_iocb_check(const struct iocb *iocb);

/* Return: 0, or -EINVAL if the operation is unknown. */
int uaio_iocb_translate(const struct iocb *iocb, struct uaio_sqe *ret_sqe);

/*
 * Return: the result of a cancelled request: 0 (no events) for a poll, else -ECANCELED.
 */
int64_t uaio_iocb_cancelled(const struct uaio_sqe *sqe);

/*
 * refuse.c: requests that kernel AIO refuses, although they pass the checks that kernel
 * AIO, io_uring and POSIX AIO have in common
 */

/*
 * Called by uaio_refuse() for all requests except ordinary reads and writes, for which
 * kernel AIO has no rules of its own.
 */
int uaio_refuse_rare(const struct uaio_sqe *sqe, const struct uaio_file *file);

/*
 * Return: the negative error number with which kernel AIO refuses the request. 0: the
 * checks common to all front-ends decide.
 */
static inline int uaio_refuse(const struct uaio_sqe *sqe,
			      const struct uaio_file *file)
{
	const uint32_t older = UAIO_FILE_F_OLD_READ | UAIO_FILE_F_OLD_WRITE;

	if (likely(sqe->op <= UAIO_OP_WRITEV && sqe->off >= 0 &&
		   !uaio_file_has(file, older)))
		return 0;
	return uaio_refuse_rare(sqe, file);
}

/* resfd.c: the eventfd (IOCB_FLAG_RESFD) to which each completion adds 1 */

/*
 * Get a reference to the eventfd fd for a request with IOCB_FLAG_RESFD. *ret_word is
 * the reference; the request carries it as its word (sink.h). uaio_resfd_put() or
 * uaio_resfd_drop() drops the reference. uaio_resfd_get_parted() is for a thread with
 * its own descriptor table.
 * Return: 0; -EBADF; -EINVAL if fd is no eventfd; -ENOMEM.
 */
int uaio_resfd_get(int fd, uint64_t *ret_word);
int uaio_resfd_get_parted(int fd, uint64_t *ret_word);

/* Drop the reference to the eventfd of a request that was refused. */
void uaio_resfd_put(uint64_t word);

/*
 * Called for completions that are posted together. uaio_resfd_signal() signals the
 * eventfd of each completion, under the queue's lock. uaio_resfd_drop() drops the
 * references to the eventfds afterwards, without locks.
 */
void uaio_resfd_signal(const struct uaio_post *post);
void uaio_resfd_drop(const struct uaio_post *post);

#endif /* UAIO_AIO_IOCB_H */
