/* SPDX-License-Identifier: MIT */
/*
 * Reads and writes
 *
 * Tested by test-uring-ops.c and test-uring-regbuf.c.
 */
#include <errno.h>
#include <limits.h>
#include <linux/fs.h>
#include <string.h>

#include "base/check.h"
#include "base/uaddr.h"
#include "uring/calls.h"
#include "uring/kbuf.h"
#include "uring/note.h"
#include "uring/opdef.h"
#include "uring/ring.h"
#include "uring/sq.h"

/* The flags RWF_* of Linux 6.18, except RWF_ATOMIC, which not all files support. */
enum { KNOWN_FLAGS = 0x1ff & ~0x40 };

/* The kernel allocates at most 4 MiB for an array of vectors. */
enum { VECTORS_ALLOCATED_MAX = (4 << 20) / sizeof(struct iovec) };

/* All checks below are in the order in which the kernel makes them. */

/*
 * Translate what all reads and writes have in common.
 * Return: 0, or the error of an invalid member; -ENOMEM.
 */
static int prep_any(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_sqe *sqe = &entry->sqe;

	/*
	 * In newer kernels this member is attr_type_mask: it selects attributes of the
	 * request, such as protection information. The library supports none.
	 */
	if (unlikely(raw->__pad2[0]))
		return -EINVAL;
	sqe->buf = (void *)(uintptr_t)raw->addr;
	sqe->len = raw->len;
	sqe->off = (int64_t)raw->off;
	sqe->rw_flags = (uint32_t)raw->rw_flags;
	sqe->ioprio = raw->ioprio;
	if (unlikely(raw->ioprio)) {
		int ret = uaio_rw_check_ioprio(raw->ioprio);

		if (ret < 0)
			return ret;
	}
	if (unlikely(raw->flags & IOSQE_BUFFER_SELECT)) {
		sqe->op = UAIO_OP_READ_SELECT;
		sqe->buf = NULL;
		if (uaio_uring_prep_select(entry) < 0)
			return -ENOMEM;
	}
	/* RWF_HIPRI is valid only in rings with IORING_SETUP_IOPOLL. */
	if (unlikely(raw->rw_flags & RWF_HIPRI) &&
	    !(raw->rw_flags & ~KNOWN_FLAGS) &&
	    !(entry->ring->setup & IORING_SETUP_IOPOLL))
		entry->late_error = -EINVAL;
	if (unlikely(raw->flags & IOSQE_CQE_SKIP_SUCCESS) &&
	    uaio_uring_note_for(entry))
		entry->note->expected = raw->len;
	return 0;
}

/*
 * Prepare a read or write. As in the kernel, an address that cannot be user memory is
 * refused before the file is looked up.
 */
int uaio_uring_prep_rw(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	int ret = prep_any(entry);

	return ret < 0 || unlikely(raw->flags & IOSQE_BUFFER_SELECT)
		       ? ret
		       : uaio_uring_check_range(raw->addr, raw->len);
}

/*
 * READ_MULTISHOT: read whenever the file has data, each time into another provided
 * buffer.
 */
int uaio_uring_prep_read_multishot(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	int ret = raw->flags & IOSQE_BUFFER_SELECT ? prep_any(entry) : -EINVAL;

	if (ret == 0 && (raw->addr || raw->len))
		return -EINVAL;
	entry->sqe.is_multishot = true;
	/*
	 * In the kernel, a worker that starts this request polls the file before it
	 * reads.
	 */
	if (unlikely(uaio_uring_begins_aside(entry)))
		entry->sqe.is_async = entry->sqe.polls_first = true;
	return ret;
}

static int prep_any_rwv(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	bool selects = raw->flags & IOSQE_BUFFER_SELECT;
	struct iovec iov;
	int ret = raw->len > (selects ? 1 : IOV_MAX) || (selects && !raw->len)
			  ? -EINVAL
			  : prep_any(entry);

	if (ret == 0 && selects) {
		ret = uaio_uring_copy_in(&iov, raw->addr, sizeof(iov));
		/* The kernel uses only 32 bits of the length. */
		if (ret == 0)
			entry->sqe.len = (uint32_t)iov.iov_len;
		return ret;
	}
	if (ret == 0 && raw->len &&
	    !uaio_uring_may_read(raw->addr, raw->len * sizeof(struct iovec)))
		return -EFAULT;
	if (ret == 0 && entry->note)
		entry->note->expected = (uint32_t)uaio_sqe_bytes(&entry->sqe);
	return ret;
}

int uaio_uring_prep_rwv(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	int ret = prep_any_rwv(entry);

	return ret < 0 || raw->flags & IOSQE_BUFFER_SELECT
		       ? ret
		       : uaio_uring_check_vectors(entry->sqe.iov, raw->len);
}

/* Return: 0; -EFAULT: the memory is not inside the registered buffer. */
static int check_buffer(const struct uaio_uring_rsrc *buffer, uint64_t addr,
			uint64_t bytes)
{
	uint64_t end;

	if (!buffer || __builtin_add_overflow(addr, bytes, &end))
		return -EFAULT;
	return addr < buffer->base || end > buffer->base + buffer->bytes
		       ? -EFAULT
		       : 0;
}

/*
 * Let the request use its registered buffer. error: why it cannot use the buffer, or 0.
 * As in the kernel, this error replaces an earlier late_error (sq.h).
 */
static int use_buffer(struct uaio_uring_entry *entry,
		      struct uaio_uring_rsrc *buffer, int error)
{
	if (error)
		entry->late_error = error;
	if (entry->late_error || !buffer->tag)
		return 0;
	if (!uaio_uring_note_for(entry))
		return -ENOMEM;
	uaio_uring_note_use(entry->note, buffer);
	return 0;
}

int uaio_uring_use_buffer(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_uring_rsrc *buffer =
		uaio_uring_table_at(&entry->ring->buffers, raw->buf_index);

	return use_buffer(entry, buffer,
			  check_buffer(buffer, raw->addr, raw->len));
}

int uaio_uring_prep_rw_fixed(struct uaio_uring_entry *entry)
{
	int ret = prep_any(entry);

	return ret < 0 ? ret : uaio_uring_use_buffer(entry);
}

/*
 * Return: 0; -EINVAL: a vector is too long. *ret_error: 0; -EFAULT: a vector is empty
 * or outside the buffer, or there is no buffer.
 */
static int check_vectors(const struct iovec *iovs, uint64_t nr,
			 const struct uaio_uring_rsrc *buffer, int *ret_error)
{
	*ret_error = buffer ? 0 : -EFAULT;
	for (uint64_t i = 0; i < nr; i++) {
		struct iovec iov;

		/* The client's array of vectors may be unaligned. */
		uaio_copy_once(&iov, (const char *)iovs + i * sizeof(iov),
			       sizeof(iov));
		if (iov.iov_len > SSIZE_MAX)
			return -EINVAL;
		if (!iov.iov_len ||
		    check_buffer(buffer, (uintptr_t)iov.iov_base, iov.iov_len) <
			    0)
			*ret_error = -EFAULT;
	}
	return 0;
}

int uaio_uring_use_buffer_by(struct uaio_uring_entry *entry,
			     const struct iovec *iovs, uint64_t nr)
{
	struct uaio_uring_rsrc *buffer = uaio_uring_table_at(
		&entry->ring->buffers, entry->raw.buf_index);
	int error, ret = check_vectors(iovs, nr, buffer, &error);

	return ret < 0 ? ret : use_buffer(entry, buffer, error);
}

int uaio_uring_prep_rwv_fixed(struct uaio_uring_entry *entry)
{
	int ret;

	/*
	 * The kernel returns ENOMEM here, because it allocates the vectors before it
	 * checks their number.
	 */
	if (entry->raw.len > VECTORS_ALLOCATED_MAX) {
		ret = prep_any(entry);
		return ret < 0 ? ret : -ENOMEM;
	}
	ret = prep_any_rwv(entry);
	return ret < 0 ? ret
		       : uaio_uring_use_buffer_by(entry, entry->sqe.iov,
						  entry->sqe.len);
}
