/* SPDX-License-Identifier: MIT */
/*
 * Misaligned direct requests, executed through an aligned copy ("bounced")
 *
 * Only with --bounce. If the kernel refuses a misaligned request on a file opened with
 * O_DIRECT (align.h), the library executes the request again in whole blocks, through aligned
 * memory of its own, 64 pages at a time.
 *
 *   I1  Only requests that the kernel has refused (-EINVAL) are executed here.
 *   I2  A write that begins or ends inside a block reads the block and writes it back. Such a
 *       write is ordered as UAIO_ORDER_WRITE_EXCLUSIVE: while it runs, no other write of this
 *       process to the inode runs, neither on a worker nor inline.
 *   I3  A file is truncated only to its old size or to the end of the request's data,
 *       whichever is larger. It is truncated only if its size is still the size that this
 *       write has given it.
 *   I4  Only system calls touch the client's memory: if it is not mapped, the result is
 *       -EFAULT, as for any other request.
 *
 * Some requests are not executed through a copy, and fail with the kernel's error: appending
 * and atomic writes, requests with RWF_NOWAIT, and writes of a misaligned range on a
 * descriptor that is not open for reading.
 *
 * Race, accepted: a write that extends the file first makes it too long, by less than a block
 * of zeros. Later requests of this process do not see these zeros. Other processes, mappings
 * and plain calls do, and bytes that they write meanwhile to the same blocks are lost.
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
	/* RWF_NOWAIT and RWF_ATOMIC; older headers lack the latter. */
	UAIO_RWF_UNBOUNCED = 0x8 | 0x40,
};

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_bounce_init(void);

/*
 * Return: whether a request with the result res may succeed if it is executed through a copy.
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
 * Return: whether sqe, a write, has to be exclusive (I2) if it is executed through a copy. The
 * caller has a reference to file.
 */
bool uaio_bounces_exclusively(struct uaio_file *file,
			      const struct uaio_sqe *sqe);

/*
 * Execute a RUNNING request for which uaio_may_bounce() was true.
 * Return: its result; -EINVAL if the kernel's error stands; the request's sqe is then
 * unchanged.
 */
int64_t uaio_bounce(struct uaio_req *req);

#endif /* UAIO_SPLIT_BOUNCE_H */
