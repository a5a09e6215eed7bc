/* SPDX-License-Identifier: MIT */
/*
 * Misaligned direct requests, made through a copy
 *
 * Only where it is asked for (--bounce). A request of a file opened with
 * O_DIRECT that the kernel refuses, and that is misaligned by what the file
 * needs (align.h), is made once more: in whole blocks, from or into aligned
 * memory of the engine's, 64 pages at a time.
 *
 *   I1  Nothing comes here that the kernel has not refused (-EINVAL).
 *   I2  A write that begins or ends inside a block reads the block and writes
 *       it back. It is an UAIO_ORDER_WRITE_ALONE: meanwhile no other write
 *       of this process to the inode runs, be it queued or made inline.
 *   I3  A file is cut only to the larger of what it was and where the request
 *       ends, and only while it is as long as this write has made it.
 *   I4  The client's memory is touched by system calls alone: what is not
 *       mapped is -EFAULT, as it is for any other request.
 *
 * Appending writes, atomic ones, those that are not to wait, and misaligned
 * ranges of a descriptor that cannot be read keep the kernel's answer.
 *
 * Window: a file that is extended is for a moment longer than it will be, by
 * less than a block of zeros. Requests of this process submitted later do not
 * see it. Other processes, mappings and plain calls do, and what these write
 * meanwhile to the same blocks is lost.
 *
 * Thread-safety: any thread.
 */
#ifndef UAIO_ENGINE_BOUNCE_H
#define UAIO_ENGINE_BOUNCE_H

#include <errno.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "options/config.h"
#include "file/file.h"
#include "engine/opdef.h"

struct uaio_req;

enum {
	UAIO_BOUNCE_BYTES = 64 * 4096,
	/* NOWAIT, and ATOMIC, which not all headers have. */
	UAIO_RWF_UNBOUNCED = 0x8 | 0x40,
};

/* From nothing. */
void uaio_bounce_init(void);

/* Return: whether a request that came to res may do better through a copy. */
static inline bool uaio_may_bounce(const struct uaio_file *file,
				   const struct uaio_sqe *sqe, int64_t res)
{
	return res == -EINVAL && unlikely(uaio_config.bounces) &&
	       uaio_file_kind(file) == UAIO_KIND_DIRECT &&
	       sqe->off != UAIO_OFF_POSITION &&
	       !(sqe->rw_flags & UAIO_RWF_UNBOUNCED);
}

/*
 * Return: whether sqe, on a file to which the caller has a reference, is a
 * write that would have to be alone (I2).
 */
bool uaio_bounces_alone(struct uaio_file *file, const struct uaio_sqe *sqe);

/*
 * Make a RUNNING request that may bounce.
 * Return: its result; -EINVAL if it is none for here, or cannot be: out of
 * what sqe says then nothing has been used up.
 */
int64_t uaio_bounce(struct uaio_req *req);

#endif /* UAIO_ENGINE_BOUNCE_H */
