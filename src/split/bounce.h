/* SPDX-License-Identifier: MIT */
/*
 * Executes misaligned direct requests through an aligned copy ("bouncing")
 *
 * Used only with --bounce. If the kernel refuses a misaligned request on a file opened
 * with O_DIRECT (align.h), the library executes the request again: in whole blocks,
 * through aligned memory of its own, 64 pages at a time.
 *
 *   I1  This module executes only requests that the kernel has refused with -EINVAL.
 *   I2  If a write begins or ends inside a block, the library reads the block and writes
 *       it back. Such a write is ordered as UAIO_ORDER_WRITE_EXCLUSIVE: while it runs, no
 *       other write of this process to the inode runs, neither on a worker nor inline.
 *   I3  A file is truncated only to its old size or to the end of the request's data,
 *       whichever is larger. It is truncated only if its size is still the size that this
 *       write has given it.
 *   I4  The library copies the client's memory only by system calls. If the memory is not
 *       mapped, the result is -EFAULT, as for any other request.
 *
 * Some requests are never executed through a copy, and fail with the kernel's error:
 * appending and atomic writes, requests with RWF_NOWAIT, and writes of a misaligned
 * range on a descriptor that is not open for reading.
 *
 * Accepted race: a write that extends the file adds up to a block of zeros after its
 * data, and then truncates them. Later requests of this process do not see these zeros.
 * Other processes, mappings and plain system calls do. Bytes that they write meanwhile
 * to the same blocks are lost.
 *
 * Thread-safety: any thread.
 */
#ifndef UAIO_SPLIT_BOUNCE_H
#define UAIO_SPLIT_BOUNCE_H

#include <errno.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "options/config.h"
#include "file/file.h"
#include "op/op.h"

struct uaio_req;

enum {
	UAIO_BOUNCE_BYTES = 64 * 4096,
	/*
	 * Requests with RWF_NOWAIT or RWF_ATOMIC are never executed through a copy.
	 * Older headers lack these names.
	 */
	UAIO_RWF_UNBOUNCED = 0x8 | 0x40,
};

/*
 * Called each time the library starts, also in a child of fork(): reset the module.
 */
void uaio_bounce_init(void);

/*
 * res: what the kernel's call for the request has returned.
 * Return: whether the request may succeed if it is executed through a copy.
 */
static inline bool uaio_may_bounce(const struct uaio_file *file,
				   const struct uaio_sqe *sqe, int64_t res)
{
	return res == -EINVAL && unlikely(uaio_config.bounces) &&
	       uaio_file_kind(file) == UAIO_KIND_DIRECT &&
	       sqe->off != UAIO_OFF_POSITION &&
	       !(sqe->rw_flags & UAIO_RWF_UNBOUNCED);
}

/*
 * Return: whether sqe, a write, must be exclusive (I2) if it is executed through a
 * copy. The caller has a reference to file.
 */
bool uaio_bounces_exclusively(struct uaio_file *file,
			      const struct uaio_sqe *sqe);

/*
 * Execute a RUNNING request for which uaio_may_bounce() was true.
 * Return: the request's result. It is -EINVAL, as from the kernel, if the request
 * cannot be executed through a copy; the request's sqe is then unchanged.
 */
int64_t uaio_bounce(struct uaio_req *req);

#endif /* UAIO_SPLIT_BOUNCE_H */
