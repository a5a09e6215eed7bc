/* SPDX-License-Identifier: MIT */
#include "split/align.h"

#include <assert.h>
#include <linux/fs.h>
#include <stddef.h>

#include "base/check.h"
#include "base/newer.h"
#include "base/sys.h"
#include "file/file.h"
#include "op/op.h"

enum {
	/* The block size assumed for a file whose st_blksize is not valid. */
	USUAL_BLOCK = 4096,

	/*
	 * Layout of file->alignment. Low 8 bits: the binary logarithm of the memory
	 * alignment. Next 8 bits: that of the offset alignment. IS_KNOWN: the file's
	 * alignment is known.
	 */
	OFFSET_SHIFT = 8,
	BITS_MASK = 0xff,
	IS_KNOWN = 1 << 16,
};

static bool is_block(uint32_t bytes)
{
	return bytes && !(bytes & (bytes - 1)) && bytes <= UAIO_ALIGNMENT_MAX;
}

/*
 * Return: whether the kernel reports a valid alignment. If it reports zeros, the file
 * system does no direct I/O on the file, or an emulator does not implement the query.
 */
static bool query_kernel(int fd, struct uaio_alignment *ret_alignment)
{
	struct uaio_statx answer = { .mask = 0 };

	if (sys_statx(fd, 0, UAIO_STATX_DIOALIGN, &answer) < 0 ||
	    !(answer.mask & UAIO_STATX_DIOALIGN))
		return false;
	if (!is_block(answer.dio_mem_align) ||
	    !is_block(answer.dio_offset_align))
		return false;
	*ret_alignment = (struct uaio_alignment){ answer.dio_mem_align,
						  answer.dio_offset_align };
	return true;
}

static uint32_t block_of(const struct uaio_file *file, int fd)
{
	struct stat st;
	int sector = 0;

	if (uaio_file_has(file, UAIO_FILE_F_BLOCKDEV))
		(void)sys_ioctl_block(fd, BLKSSZGET, &sector);
	else if (sys_fstat(fd, &st) == 0 && st.st_blksize <= UAIO_ALIGNMENT_MAX)
		sector = (int)st.st_blksize;
	return is_block((uint32_t)sector) ? (uint32_t)sector : USUAL_BLOCK;
}

static uint32_t bits_of(uint32_t power_of_two)
{
	return (uint32_t)__builtin_ctz(power_of_two);
}

static uint32_t query(const struct uaio_file *file, int fd)
{
	struct uaio_alignment alignment = { 1, 1 };

	if (uaio_file_kind(file) == UAIO_KIND_DIRECT &&
	    !query_kernel(fd, &alignment))
		alignment.memory = alignment.offset = block_of(file, fd);
	return IS_KNOWN | bits_of(alignment.offset) << OFFSET_SHIFT |
	       bits_of(alignment.memory);
}

void uaio_alignment_of(struct uaio_file *file, int fd,
		       struct uaio_alignment *ret_alignment)
{
	/*
	 * relaxed: a thread that still loads 0 queries the kernel itself, with the same
	 * result
	 */
	uint32_t word = load_relaxed(&file->alignment);

	if (unlikely(!word)) {
		word = query(file, fd);
		store_relaxed(&file->alignment, word);
	}
	ret_alignment->memory = 1u << (word & BITS_MASK);
	ret_alignment->offset = 1u << (word >> OFFSET_SHIFT & BITS_MASK);
}

bool uaio_is_range_aligned(const struct uaio_alignment *alignment,
			   const struct uaio_sqe *sqe)
{
	return !(((uint64_t)sqe->off | uaio_sqe_bytes(sqe)) &
		 (alignment->offset - 1));
}

bool uaio_is_aligned(const struct uaio_alignment *alignment,
		     const struct uaio_sqe *sqe)
{
	uint64_t lengths = (uint64_t)sqe->off, memory = 0;

	if (!uaio_optab[sqe->op].is_vectored) {
		lengths |= sqe->len;
		memory = (uintptr_t)sqe->buf;
	} else {
		for (uint64_t i = 0; i < sqe->len; i++) {
			const struct iovec iov = uaio_sqe_iov(sqe, i);

			lengths |= iov.iov_len;
			memory |= (uintptr_t)iov.iov_base;
		}
	}
	return !(lengths & (alignment->offset - 1)) &&
	       !(memory & (alignment->memory - 1));
}
