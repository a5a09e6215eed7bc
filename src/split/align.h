/* SPDX-License-Identifier: MIT */
/*
 * The alignment that a file opened with O_DIRECT needs
 *
 * Since Linux 6.1 the kernel reports this alignment for file systems that know it
 * (STATX_DIOALIGN). For other files the library uses the block size: the logical block
 * size of a block device, or st_blksize of a file. The block size may be more than the
 * file needs, never less.
 *
 * The library queries the kernel once for each open file, when it first needs the
 * alignment.
 *
 * Thread-safety: any thread.
 */
#ifndef UAIO_SPLIT_ALIGN_H
#define UAIO_SPLIT_ALIGN_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_file;
struct uaio_sqe;

/*
 * Alignments in bytes, powers of two. memory and offset are 1 if the file is not open
 * for direct I/O.
 */
struct uaio_alignment {
	/* for the address of each buffer */
	uint32_t memory;
	/* for the file offset, and for the length of each buffer */
	uint32_t offset;
};

/*
 * No file needs more alignment than this. If the kernel reports more, the library
 * ignores the value.
 */
enum { UAIO_ALIGNMENT_MAX = 64 << 10 };

/*
 * Find the alignment that `file` needs. fd is a descriptor of `file`, to which the
 * caller has a reference.
 */
void uaio_alignment_of(struct uaio_file *file, int fd,
		       struct uaio_alignment *ret_alignment);

/*
 * Return: whether the offset and length of sqe are aligned. The address of the memory
 * is not checked.
 */
bool uaio_is_range_aligned(const struct uaio_alignment *alignment,
			   const struct uaio_sqe *sqe);

/*
 * Return: whether the offset, lengths and memory addresses of a read or write are
 * aligned.
 */
bool uaio_is_aligned(const struct uaio_alignment *alignment,
		     const struct uaio_sqe *sqe);

#endif /* UAIO_SPLIT_ALIGN_H */
