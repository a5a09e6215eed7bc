/* SPDX-License-Identifier: MIT */
/*
 * What kernel AIO refuses and the core does not
 *
 * The core refuses what it could execute for no client. Kernel AIO has further
 * rules: some fields have to be 0, offset -1 is invalid, a file that cannot be
 * synced is refused at once, and so is a file with only the older read and
 * write functions (no read_iter, write_iter). Mistakes of both sorts are
 * reported in the kernel's order.
 */
#ifndef UAIO_AIO_REFUSE_H
#define UAIO_AIO_REFUSE_H

#include "base/check.h"
#include "file/file.h"
#include "op/op.h"

/* uaio_refuse() without its shortcut. */
int uaio_refuse_rare(const struct uaio_sqe *sqe, const struct uaio_file *file);

/*
 * Return: the negative error number with which kernel AIO refuses the request,
 * or 0; the core's own check then follows.
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

#endif /* UAIO_AIO_REFUSE_H */
