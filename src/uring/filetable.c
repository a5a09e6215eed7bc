/* SPDX-License-Identifier: MIT */
/*
 * Registering files with a ring by their descriptors
 *
 * Tested by test-uring-register.c and test-uring-direct.c.
 */
#include <errno.h>
#include <sys/resource.h>

#include "base/sys.h"
#include "file/file.h"
#include "uring/calls.h"
#include "uring/cancel.h"
#include "uring/note.h"
#include "uring/opdef.h"
#include "uring/ring.h"
#include "uring/rsrc.h"
#include "uring/sq.h"
#include "uring/table.h"

/* Registering by descriptor */

/*
 * Find the file of descriptor fd, in order to register it.
 * Return: 0; -EBADF: fd is not open, or is a ring; -EMFILE: no descriptor is left for a
 * duplicate; -ENOMEM.
 */
static int fix(int fd, struct uaio_file **ret_file)
{
	/* Refuse all rings: a ring registered with itself would never be freed. */
	if (fd >= 0 && uaio_uring_is_ring(fd))
		return -EBADF;
	return uaio_file_fix(fd, ret_file);
}

int uaio_uring_put_file(struct uaio_uring *ring, uint32_t place,
			struct uaio_file *file, uint64_t tag)
{
	int ret = uaio_uring_table_put_file(ring, place, file, tag);

	if (ret < 0)
		uaio_file_put(file);
	return ret;
}

/*
 * Put the file of descriptor fd into a slot.
 * Return: the result of uaio_uring_table_put_file(), or the error of fix().
 */
static int put_file(struct uaio_uring *ring, uint32_t place, int fd,
		    uint64_t tag)
{
	struct uaio_file *file;
	int ret = fix(fd, &file);

	return ret < 0 ? ret : uaio_uring_put_file(ring, place, file, tag);
}

static uint64_t fds_limit(void)
{
	struct rlimit limit;

	return sys_getrlimit(RLIMIT_NOFILE, &limit) < 0 ? UINT64_MAX
							: limit.rlim_cur;
}

static int register_file(struct uaio_uring *ring, uint32_t place, int fd,
			 uint64_t tag)
{
	if (fd == -1)
		return tag ? -EINVAL : 0;
	return put_file(ring, place, fd, tag);
}

long uaio_uring_register_files(struct uaio_uring *ring, uint64_t fds,
			       uint32_t nr, uint64_t tags)
{
	int ret;

	if (ring->files.nr)
		return -EBUSY;
	if (!nr)
		return -EINVAL;
	if (nr > UAIO_URING_FILES_MAX || nr > fds_limit())
		return -EMFILE;
	ret = uaio_uring_table_new(ring, &ring->files, nr);
	for (uint32_t i = 0; i < nr && ret == 0; i++) {
		uint64_t tag = 0;
		int fd = -1;

		ret = uaio_uring_read_one(tags, i, &tag, sizeof(tag));
		if (ret == 0)
			ret = uaio_uring_read_one(fds, i, &fd, sizeof(fd));
		if (ret == 0)
			ret = register_file(ring, i, fd, tag);
	}
	if (ret == 0)
		return uaio_uring_table_limit(ring, &ring->files, 0, nr);
	uaio_uring_table_abandon(ring, &ring->files);
	return ret;
}

static int update_file(struct uaio_uring *ring, uint32_t place, int fd,
		       uint64_t tag)
{
	int ret;

	if ((fd == IORING_REGISTER_FILES_SKIP || fd == -1) && tag)
		return -EINVAL;
	if (fd == IORING_REGISTER_FILES_SKIP)
		return 0;
	ret = uaio_uring_table_empty(ring, &ring->files, place);
	if (ret < 0 && ret != -EBADF)
		return ret;
	return fd == -1 ? 0 : put_file(ring, place, fd, tag);
}

long uaio_uring_update_files(struct uaio_uring *ring,
			     const struct io_uring_rsrc_update2 *update,
			     uint32_t nr)
{
	int ret = uaio_uring_check_places(
		uaio_uring_table_size(ring, &ring->files), update->offset, nr);
	uint32_t done = 0;

	while (ret == 0 && done < nr) {
		uint64_t tag = 0;
		int fd = -1;

		ret = uaio_uring_read_one(update->tags, done, &tag,
					  sizeof(tag));
		if (ret == 0)
			ret = uaio_uring_copy_in(
				&fd, update->data + done * sizeof(fd),
				sizeof(fd));
		if (ret == 0)
			ret = update_file(ring, update->offset + done, fd, tag);
		done += ret == 0;
	}
	return done ? (long)done : ret;
}

long uaio_uring_limit_places(struct uaio_uring *ring, const void *arg,
			     uint32_t nr)
{
	struct io_uring_file_index_range range;
	uint32_t end;

	if (!arg || nr)
		return -EINVAL;
	if (uaio_uring_copy_in(&range, (uintptr_t)arg, sizeof(range)) < 0)
		return -EFAULT;
	if (__builtin_add_overflow(range.off, range.len, &end))
		return -EOVERFLOW;
	if (range.resv)
		return -EINVAL;
	return uaio_uring_table_limit(ring, &ring->files, range.off, end);
}

/* Requests that register files */

int uaio_uring_prep_files_update(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->flags & IOSQE_FIXED_FILE || raw->rw_flags ||
	    raw->splice_fd_in || !raw->len)
		return -EINVAL;
	if (!uaio_uring_note_for(entry))
		return -ENOMEM;
	entry->note->kind = UAIO_URING_NOTE_LANDING;
	entry->note->landing = (struct uaio_uring_landing){
		.ring = entry->ring,
		.descriptors = raw->addr,
	};
	/*
	 * The offset is the number of the first slot. The kernel uses only its lower 32
	 * bits.
	 */
	entry->sqe.off = (uint32_t)raw->off;
	entry->sqe.len = raw->len;
	uaio_uring_set_shares_files(entry->ring);
	uaio_uring_call_door(entry, UAIO_URING_UPDATE_PLACES);
	return 0;
}

/* Put a file into a free slot, and store the slot's number in the client's memory. */
static int put_anywhere(struct uaio_uring *ring, uint64_t at)
{
	int fd, ret;

	if (uaio_uring_copy_in(&fd, at, sizeof(fd)) < 0)
		return -EFAULT;
	ret = put_file(ring, UAIO_URING_ANY_PLACE, fd, 0);
	if (ret < 0)
		return ret;
	if (uaio_uring_copy_out(at, &ret, sizeof(ret)) == 0)
		return 0;
	(void)uaio_uring_table_empty(ring, &ring->files, (uint32_t)ret);
	return -EFAULT;
}

static int64_t put_all_anywhere(struct uaio_uring *ring, uint64_t fds,
				uint32_t nr)
{
	uint32_t done = 0;
	int ret = 0;

	if (!uaio_uring_table_size(ring, &ring->files))
		return -ENXIO;
	while (done < nr &&
	       (ret = put_anywhere(ring, fds + done * sizeof(int))) == 0)
		done++;
	return done ? (int64_t)done : ret;
}

int64_t uaio_uring_update_places(struct uaio_uring *ring,
				 const struct uaio_sqe *sqe)
{
	const uint64_t fds = uaio_uring_note_of(sqe->word)->landing.descriptors;
	const struct io_uring_rsrc_update2 update = {
		.offset = (uint32_t)sqe->off,
		.data = fds,
	};

	if (update.offset == IORING_FILE_INDEX_ALLOC)
		return put_all_anywhere(ring, fds, (uint32_t)sqe->len);
	return uaio_uring_update_files(ring, &update, (uint32_t)sqe->len);
}
