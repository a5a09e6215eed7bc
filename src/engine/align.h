/* SPDX-License-Identifier: MIT */
/*
 * What a file opened with O_DIRECT needs of memory, offset and length
 *
 * The kernel tells since 6.1, for file systems that know (STATX_DIOALIGN). For
 * all others it is taken to be the block: the logical one of a block device,
 * the preferred one of a file. That may be more than is needed, never less.
 *
 * It is asked once for each open file, when somebody first wants to know.
 *
 * Thread-safety: any thread.
 */
#ifndef UAIO_ENGINE_ALIGN_H
#define UAIO_ENGINE_ALIGN_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_file;
struct uaio_sqe;

/*
 * In bytes, powers of two. Both are 1 where the file takes anything: it is not
 * open for direct I/O, or the file system makes that of it by itself.
 */
struct uaio_alignment {
	uint32_t memory; /* of each buffer's address */
	uint32_t offset; /* of the offset and of each length */
};

/* The largest there is. */
enum { UAIO_ALIGNMENT_MAX = 64 << 10 };

/* fd is the number of file, to which the caller has a reference. */
void uaio_alignment_of(struct uaio_file *file, int fd,
		       struct uaio_alignment *ret_alignment);

/* Return: whether the range in the file is, whatever the memory. */
bool uaio_is_range_aligned(const struct uaio_alignment *alignment,
			   const struct uaio_sqe *sqe);

/* Return: whether all of a read or write is, each of its vectors too. */
bool uaio_is_aligned(const struct uaio_alignment *alignment,
		     const struct uaio_sqe *sqe);

#endif /* UAIO_ENGINE_ALIGN_H */
