/* SPDX-License-Identifier: MIT */
/*
 * What kernel AIO refuses and the system calls behind it do not
 *
 * The core refuses what no client could have made for it. Kernel AIO has rules
 * of its own beside those: fields that have to be 0, offset -1, syncs of what
 * cannot be synced, and files that are read or written in the older way.
 * Mistakes of both sorts are reported in the kernel's order.
 */
#ifndef UAIO_FRONT_REFUSE_H
#define UAIO_FRONT_REFUSE_H

#include "base/check.h"
#include "file/file.h"
#include "engine/opdef.h"

/* The same as uaio_refuse(), for all requests. */
int uaio_refuse_rare(const struct uaio_sqe *sqe, const struct uaio_file *file);

/*
 * Return: 0, or the -errno with which kernel AIO refuses the request. 0 leaves
 * the core's own check to be made.
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

#endif /* UAIO_FRONT_REFUSE_H */
