/* SPDX-License-Identifier: MIT */
/*
 * The alignment that a file opened with O_DIRECT needs
 *
 * Since Linux 6.1 the kernel reports it for file systems that know it (STATX_DIOALIGN).
 * For others the library uses the block size: the logical one of a block device,
 * st_blksize of a file. This may be more than the file needs, never less.
 *
 * The kernel is queried once for each open file, when the alignment is first needed.
 *
 * Thread-safety: any thread.
 */
#ifndef UAIO_SPLIT_ALIGN_H
#define UAIO_SPLIT_ALIGN_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_file;
struct uaio_sqe;

/* In bytes, powers of two. Both are 1 if the file is not open for direct I/O. */
struct uaio_alignment {
	uint32_t memory; /* for the address of each buffer */
	uint32_t offset; /* for the offset and each length */
};

/* No file needs more alignment than this; larger values are ignored. */
enum { UAIO_ALIGNMENT_MAX = 64 << 10 };

/* fd is a descriptor of file, to which the caller has a reference. */
void uaio_alignment_of(struct uaio_file *file, int fd,
		       struct uaio_alignment *ret_alignment);

/* Return: whether offset and length are aligned; the address of the memory does not matter. */
bool uaio_is_range_aligned(const struct uaio_alignment *alignment,
			   const struct uaio_sqe *sqe);

/* Return: whether offset, length and memory of a read or write are aligned. */
bool uaio_is_aligned(const struct uaio_alignment *alignment,
		     const struct uaio_sqe *sqe);

#endif /* UAIO_SPLIT_ALIGN_H */
