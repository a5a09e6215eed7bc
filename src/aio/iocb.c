/* SPDX-License-Identifier: MIT */
#include "aio/iocb.h"

#include <errno.h>
#include <linux/fs.h>

#include "base/check.h"
#include "base/uaddr.h"
#include "options/config.h"

int uaio_iocb_check_address(const struct iocb *iocb)
{
	if (unlikely(!uaio_is_accessible((uintptr_t)iocb, sizeof(*iocb))))
		return -EFAULT;
	if (unlikely(uaio_config.is_strict) &&
	    !uaio_can_read((uintptr_t)iocb, sizeof(*iocb)))
		return -EFAULT;
	return 0;
}

int uaio_iocb_check(const struct iocb *iocb)
{
	int ret = uaio_iocb_check_address(iocb);

	if (unlikely(ret < 0))
		return ret;
	if (unlikely(iocb->aio_reserved2 || (int64_t)iocb->aio_nbytes < 0))
		return -EINVAL;
	return 0;
}

/*
 * The most bytes that one request moves: the kernel's MAX_RW_COUNT. Longer requests are
 * shortened.
 */
static const uint64_t RW_BYTES_MAX = 0x7ffff000;

/*
 * For each opcode of an iocb: the operation of struct uaio_sqe, plus 1; 0: there is no such
 * opcode.
 */
static const uint8_t ops[] = {
	[IOCB_CMD_PREAD] = UAIO_OP_READ + 1,
	[IOCB_CMD_PWRITE] = UAIO_OP_WRITE + 1,
	[IOCB_CMD_FSYNC] = UAIO_OP_FSYNC + 1,
	[IOCB_CMD_FDSYNC] = UAIO_OP_FDSYNC + 1,
	[IOCB_CMD_POLL] = UAIO_OP_POLL + 1,
	[IOCB_CMD_PREADV] = UAIO_OP_READV + 1,
	[IOCB_CMD_PWRITEV] = UAIO_OP_WRITEV + 1,
};

int uaio_iocb_translate(const struct iocb *iocb, struct uaio_sqe *ret_sqe)
{
	unsigned opcode = iocb->aio_lio_opcode;

	if (unlikely(opcode >= sizeof(ops) || !ops[opcode]))
		return -EINVAL;
	*ret_sqe = (struct uaio_sqe){
		.op = (uint8_t)(ops[opcode] - 1),
		.is_signalled = iocb->aio_flags & IOCB_FLAG_RESFD,
		.ioprio = iocb->aio_flags & IOCB_FLAG_IOPRIO
				  ? (uint16_t)iocb->aio_reqprio
				  : 0,
		.rw_flags = (uint32_t)iocb->aio_rw_flags,
		.fd = (int)iocb->aio_fildes,
		.off = iocb->aio_offset,
		.buf = (void *)(uintptr_t)iocb->aio_buf,
		.len = iocb->aio_nbytes,
		.data = iocb->aio_data,
		.key = (uintptr_t)iocb,
	};
	/* As the kernel, use only the low 32 bits of the number of vectors. */
	if (uaio_optab[ret_sqe->op].is_vectored)
		ret_sqe->len = (uint32_t)iocb->aio_nbytes;
	else if (unlikely(iocb->aio_nbytes > RW_BYTES_MAX) &&
		 opcode != IOCB_CMD_FSYNC && opcode != IOCB_CMD_FDSYNC &&
		 opcode != IOCB_CMD_POLL)
		ret_sqe->len = RW_BYTES_MAX;
	/* Drop RWF_HIPRI: kernel AIO accepts it, but does not poll the device. */
	if (unlikely(ret_sqe->rw_flags) && opcode != IOCB_CMD_FSYNC &&
	    opcode != IOCB_CMD_FDSYNC && opcode != IOCB_CMD_POLL)
		ret_sqe->rw_flags &= ~(uint32_t)RWF_HIPRI;
	return 0;
}

int64_t uaio_iocb_cancelled(const struct uaio_sqe *sqe)
{
	return uaio_optab[sqe->op].class == UAIO_CLASS_POLL ? 0 : -ECANCELED;
}
