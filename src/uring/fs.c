/* SPDX-License-Identifier: MIT */
/*
 * Operations on files and paths: sizes, syncs, advice, names, attributes and splices
 *
 * Tested by test-uring-calls.c and test-uring-ops.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>

#include "file/file.h"
#include "issue/submit.h"
#include "uring/calls.h"
#include "uring/note.h"
#include "uring/opdef.h"
#include "uring/ring.h"
#include "uring/sq.h"
#include "uring/table.h"

/* All checks below are in the order in which the kernel makes them. */

/*
 * Check the members that operations on paths do not use.
 * Return: 0; -EINVAL: such a member is not 0; -EBADF: the submission names a
 * registered file.
 */
static int check_path(const struct io_uring_sqe *raw)
{
	if (raw->buf_index || raw->splice_fd_in)
		return -EINVAL;
	return raw->flags & IOSQE_FIXED_FILE ? -EBADF : 0;
}

/*
 * Open files
 */

int uaio_uring_prep_fsync(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->addr || raw->buf_index || raw->splice_fd_in ||
	    raw->fsync_flags & ~IORING_FSYNC_DATASYNC || (int64_t)raw->off < 0)
		return -EINVAL;
	if (raw->fsync_flags & IORING_FSYNC_DATASYNC)
		entry->sqe.op = UAIO_OP_FDSYNC;
	return 0;
}

int uaio_uring_prep_fallocate(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->buf_index || raw->rw_flags || raw->splice_fd_in)
		return -EINVAL;
	entry->sqe.off = (int64_t)raw->off;
	entry->sqe.len = raw->addr;
	entry->sqe.call_flags = raw->len;
	return 0;
}

int uaio_uring_prep_ftruncate(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->rw_flags || raw->addr || raw->len || raw->buf_index ||
	    raw->splice_fd_in || raw->addr3)
		return -EINVAL;
	entry->sqe.off = (int64_t)raw->off;
	return 0;
}

int uaio_uring_prep_sync_range(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->addr || raw->buf_index || raw->splice_fd_in)
		return -EINVAL;
	entry->sqe.off = (int64_t)raw->off;
	entry->sqe.len = raw->len;
	entry->sqe.call_flags = raw->sync_range_flags;
	return 0;
}

int uaio_uring_prep_fadvise(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->buf_index || raw->splice_fd_in)
		return -EINVAL;
	entry->sqe.off = (int64_t)raw->off;
	entry->sqe.len = raw->addr ? raw->addr : raw->len;
	entry->sqe.call_flags = raw->fadvise_advice;
	return 0;
}

int uaio_uring_prep_madvise(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->buf_index || raw->splice_fd_in)
		return -EINVAL;
	entry->sqe.buf = uaio_uring_pointer(raw->addr);
	entry->sqe.len = raw->off ? raw->off : raw->len;
	entry->sqe.call_flags = raw->fadvise_advice;
	return 0;
}

/*
 * Paths
 */

int uaio_uring_take_path(struct uaio_uring_entry *entry)
{
	uint32_t bytes;
	int ret;

	entry->sqe.path = uaio_uring_pointer(entry->raw.addr);
	ret = uaio_path_measure(entry->sqe.path, false, &bytes);
	entry->sqe.len = bytes;
	return ret;
}

int uaio_uring_prep_statx(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_args *args = uaio_uring_args_of(entry);

	entry->sqe.call_flags = raw->statx_flags;
	args->path = uaio_uring_pointer(raw->addr);
	args->what = raw->len;
	args->out = uaio_uring_pointer(raw->addr2);
	return check_path(raw);
}

static int prep_two_paths(struct uaio_uring_entry *entry, uint32_t flags)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_args *args = uaio_uring_args_of(entry);

	entry->sqe.call_flags = flags;
	args->path = uaio_uring_pointer(raw->addr);
	args->name = uaio_uring_pointer(raw->addr2);
	args->fd = (int)raw->len;
	return check_path(raw);
}

int uaio_uring_prep_renameat(struct uaio_uring_entry *entry)
{
	return prep_two_paths(entry, entry->raw.rename_flags);
}

int uaio_uring_prep_linkat(struct uaio_uring_entry *entry)
{
	return prep_two_paths(entry, entry->raw.hardlink_flags);
}

int uaio_uring_prep_symlinkat(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_args *args = uaio_uring_args_of(entry);

	if (raw->len || raw->rw_flags)
		return -EINVAL;
	args->path = uaio_uring_pointer(raw->addr);
	args->name = uaio_uring_pointer(raw->addr2);
	args->fd = raw->fd;
	return check_path(raw);
}

int uaio_uring_prep_unlinkat(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	int ret = raw->off || raw->len ? -EINVAL : check_path(raw);

	entry->sqe.call_flags = raw->unlink_flags;
	return ret < 0 ? ret : uaio_uring_take_path(entry);
}

int uaio_uring_prep_mkdirat(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	int ret = raw->off || raw->rw_flags ? -EINVAL : check_path(raw);

	entry->sqe.mode = raw->len;
	return ret < 0 ? ret : uaio_uring_take_path(entry);
}

/*
 * Attributes
 */

int uaio_uring_prep_fgetxattr(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_args *args = uaio_uring_args_of(entry);

	args->name = uaio_uring_pointer(raw->addr);
	args->out = uaio_uring_pointer(raw->addr2);
	args->out_bytes = raw->len;
	if (raw->xattr_flags)
		return -EINVAL;
	return uaio_uring_may_read(raw->addr, 1) ? 0 : -EFAULT;
}

int uaio_uring_prep_fsetxattr(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_args *args = uaio_uring_args_of(entry);

	args->name = uaio_uring_pointer(raw->addr);
	args->in = uaio_uring_pointer(raw->addr2);
	args->in_bytes = raw->len;
	entry->sqe.call_flags = raw->xattr_flags;
	if (raw->xattr_flags & ~(uint32_t)(XATTR_CREATE | XATTR_REPLACE))
		return -EINVAL;
	return uaio_uring_may_read(raw->addr, 1) ? 0 : -EFAULT;
}

static int with_path(struct uaio_uring_entry *entry, uaio_uring_prep_fn *prep)
{
	int ret = entry->raw.flags & IOSQE_FIXED_FILE ? -EBADF : prep(entry);

	entry->args.path = uaio_uring_pointer(entry->raw.addr3);
	return ret;
}

int uaio_uring_prep_getxattr(struct uaio_uring_entry *entry)
{
	return with_path(entry, uaio_uring_prep_fgetxattr);
}

int uaio_uring_prep_setxattr(struct uaio_uring_entry *entry)
{
	return with_path(entry, uaio_uring_prep_fsetxattr);
}

/*
 * Operations on two descriptors
 */

/*
 * One end of a splice is a registered file, which is looked up when the request starts.
 * If the slot's entry has a tag (rsrc.h), keep this entry until the request completes.
 * Return: 0 or -ENOMEM.
 */
static int use_fixed(struct uaio_uring_entry *entry, enum uaio_end end, int fd)
{
	struct uaio_uring *ring = entry->ring;
	struct uaio_uring_rsrc *rsrc =
		uaio_uring_table_get(ring, &ring->files, (uint32_t)fd);
	int ret = 0;

	entry->args.is_place[end] = true;
	if (!rsrc)
		return 0;
	if (rsrc->tag && !uaio_uring_note_for(entry))
		ret = -ENOMEM;
	else if (rsrc->tag)
		uaio_uring_note_use(entry->note, rsrc);
	uaio_uring_rsrc_put(rsrc);
	return ret;
}

static int prep_ends(struct uaio_uring_entry *entry)
{
	const uint32_t known = SPLICE_F_MOVE | SPLICE_F_NONBLOCK |
			       SPLICE_F_MORE | SPLICE_F_GIFT |
			       SPLICE_F_FD_IN_FIXED;
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_args *args = uaio_uring_args_of(entry);
	int ret = 0;

	if (raw->splice_flags & ~known)
		return -EINVAL;
	args->fd = raw->splice_fd_in;
	args->off = (int64_t)raw->splice_off_in;
	entry->sqe.off = (int64_t)raw->off;
	entry->sqe.len = raw->len;
	entry->sqe.call_flags = raw->splice_flags & ~SPLICE_F_FD_IN_FIXED;
	if (raw->splice_flags & SPLICE_F_FD_IN_FIXED)
		ret = use_fixed(entry, UAIO_END_IN, raw->splice_fd_in);
	if (ret == 0 && raw->flags & IOSQE_FIXED_FILE)
		ret = use_fixed(entry, UAIO_END_OUT, raw->fd);
	/*
	 * With IOSQE_CQE_SKIP_SUCCESS, a splice that moves fewer bytes than requested
	 * counts as failed, and posts its completion.
	 */
	if (ret == 0 && raw->flags & IOSQE_CQE_SKIP_SUCCESS) {
		if (!uaio_uring_note_for(entry))
			return -ENOMEM;
		entry->note->expected = raw->len;
	}
	return ret;
}

static bool is_ring(int fd)
{
	struct uaio_file *file;

	return uaio_look_up(fd, &file) == 0 &&
	       uaio_file_has(file, UAIO_FILE_F_RING);
}

int uaio_uring_prep_splice(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	int ret = prep_ends(entry);

	/*
	 * Refuse rings. A ring cannot be a registered file, so check only descriptors.
	 */
	if (ret == 0 && raw->len && !entry->late_error &&
	    ((!(raw->flags & IOSQE_FIXED_FILE) && is_ring(raw->fd)) ||
	     (!(raw->splice_flags & SPLICE_F_FD_IN_FIXED) &&
	      is_ring(raw->splice_fd_in))))
		entry->late_error = -EINVAL;
	return ret;
}

int uaio_uring_prep_tee(struct uaio_uring_entry *entry)
{
	if (entry->raw.splice_off_in || entry->raw.off)
		return -EINVAL;
	return prep_ends(entry);
}
