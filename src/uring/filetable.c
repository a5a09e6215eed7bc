/* SPDX-License-Identifier: MIT */
#include "uring/filetable.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

#include "base/asked.h"
#include "base/sys.h"
#include "file/file.h"
#include "op/op.h"
#include "uring/calls.h"
#include "uring/cancel.h"
#include "uring/note.h"
#include "uring/register.h"
#include "uring/ring.h"
#include "uring/sq.h"
#include "uring/table.h"

/*
 * Registered by their descriptors
 */

/* Return: 0 with a file to register; -EBADF; -EMFILE, -ENOMEM. */
static int fix(int fd, struct uaio_file **ret_file)
{
	/* A ring that kept itself would never end. */
	if (fd >= 0 && uaio_uring_is_ring(fd))
		return -EBADF;
	return uaio_file_fix(fd, ret_file);
}

/* file is given away. Return: as uaio_uring_table_put_file(). */
static int give(struct uaio_uring *ring, uint32_t place, struct uaio_file *file,
		uint64_t tag)
{
	int ret = uaio_uring_table_put_file(ring, place, file, tag);

	if (ret < 0)
		uaio_file_put(file);
	return ret;
}

/* Put the file that fd is in a place. Return: as uaio_uring_table_put_file(). */
static int put_file(struct uaio_uring *ring, uint32_t place, int fd,
		    uint64_t tag)
{
	struct uaio_file *file;
	int ret = fix(fd, &file);

	return ret < 0 ? ret : give(ring, place, file, tag);
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

/* A request that changes places is about to be given to the core (rsrc.h, I4). */
static void share_files(struct uaio_uring *ring)
{
	/* relaxed: it is this thread that looks */
	store_relaxed(&ring->shares_files, 1);
}

/*
 * Opened straight into the table
 */

/* Note which place the submission names. Return: 0, -EINVAL, -ENOMEM. */
static int note_place(struct uaio_uring_entry *entry, uint64_t open_flags)
{
	struct uaio_uring_note *note;

	if (open_flags & O_CLOEXEC)
		return -EINVAL;
	note = uaio_uring_note_for(entry);
	if (!note)
		return -ENOMEM;
	note->ring = entry->ring;
	note->place = entry->raw.file_index == IORING_FILE_INDEX_ALLOC
			      ? UAIO_URING_ANY_PLACE
			      : entry->raw.file_index - 1;
	share_files(entry->ring);
	return 0;
}

int uaio_uring_prep_land(struct uaio_uring_entry *entry, uint64_t open_flags)
{
	entry->sqe.by_door = entry->raw.file_index;
	return entry->raw.file_index ? note_place(entry, open_flags) : 0;
}

/* The same as put_file(), of what was opened just now: nothing is noted of fd. */
static int put_opened(struct uaio_uring *ring, uint32_t place, int fd)
{
	struct uaio_file *file;
	int ret = uaio_file_fix(fd, &file);

	if (ret < 0)
		return ret;
	/* By its name in /proc. */
	if (!uaio_file_has(file, UAIO_FILE_F_RING))
		return give(ring, place, file, 0);
	uaio_file_put(file);
	return -EBADF;
}

int64_t uaio_uring_land(const struct uaio_sqe *sqe, int fd)
{
	const struct uaio_uring_note *note = uaio_uring_note_of(sqe->word);
	int ret = put_opened(note->ring, note->place, fd);

	/* Nobody knows of it, so there is nothing to wait for. */
	(void)uaio_op_close(fd, true);
	return ret;
}

/*
 * Requests that open nothing
 */

static void call_for(struct uaio_uring_entry *entry, enum uaio_uring_call call)
{
	entry->sqe.called = &entry->ring->called;
	entry->sqe.open_flags = call;
}

int uaio_uring_prep_close_place(struct uaio_uring_entry *entry)
{
	entry->sqe.len = entry->raw.file_index - 1;
	share_files(entry->ring);
	call_for(entry, UAIO_URING_CLOSE_PLACE);
	entry->sqe.op = UAIO_OP_CALLED;
	return 0;
}

int uaio_uring_prep_files_update(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->flags & IOSQE_FIXED_FILE || raw->rw_flags ||
	    raw->splice_fd_in || !raw->len)
		return -EINVAL;
	if (!uaio_uring_note_for(entry))
		return -ENOMEM;
	entry->note->descriptors = raw->addr;
	/* An offset has 32 bits. */
	entry->sqe.off = (uint32_t)raw->off;
	entry->sqe.len = raw->len;
	share_files(entry->ring);
	call_for(entry, UAIO_URING_UPDATE_PLACES);
	return 0;
}

int uaio_uring_prep_install(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->off || raw->addr || raw->len || raw->buf_index ||
	    raw->splice_fd_in || raw->addr3)
		return -EINVAL;
	if (!(raw->flags & IOSQE_FIXED_FILE))
		return -EBADF;
	if (raw->rw_flags & ~(int)IORING_FIXED_FD_NO_CLOEXEC)
		return -EINVAL;
	/* A descriptor is the process's, and never another identity's. */
	if (raw->personality)
		return -EPERM;
	entry->sqe.len = (uint32_t)raw->fd;
	entry->sqe.off = raw->rw_flags & IORING_FIXED_FD_NO_CLOEXEC
				 ? F_DUPFD
				 : F_DUPFD_CLOEXEC;
	call_for(entry, UAIO_URING_INSTALL);
	return 0;
}

int uaio_uring_prep_pipe_places(struct uaio_uring_entry *entry)
{
	const uint32_t flags = (uint32_t)entry->raw.rw_flags;
	int ret = note_place(entry, flags);

	if (ret < 0)
		return ret;
	entry->note->descriptors = entry->raw.addr;
	entry->sqe.off = flags | O_CLOEXEC;
	entry->sqe.op = UAIO_OP_CALLED;
	call_for(entry, UAIO_URING_PIPE_PLACES);
	return 0;
}

/* Put a file in a place that is free, and tell the client which that is. */
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

static int64_t update_places(struct uaio_uring *ring, uint64_t fds,
			     const struct uaio_sqe *sqe)
{
	const struct io_uring_rsrc_update2 update = {
		.offset = (uint32_t)sqe->off,
		.data = fds,
	};

	if (update.offset == IORING_FILE_INDEX_ALLOC)
		return put_all_anywhere(ring, fds, (uint32_t)sqe->len);
	return uaio_uring_update_files(ring, &update, (uint32_t)sqe->len);
}

/* Give a file of the table a number of the program's. */
static int64_t install(struct uaio_uring *ring, int place, int how)
{
	struct uaio_file *file = uaio_uring_get_fixed(&ring->queue, place);
	int fd;

	if (!file)
		return -EBADF;
	fd = sys_fcntl(uaio_file_use(file), how, 0);
	uaio_file_unuse(file);
	uaio_file_put(file);
	return fd;
}

/*
 * Put both ends of a pipe in places, of which the second is the next one, unless they
 * are chosen. Return: 0, and the number of those that are there; or -errno.
 */
static int put_ends(struct uaio_uring *ring, uint32_t place, const int ends[2],
		    uint32_t ret_places[2], unsigned *ret_nr)
{
	for (*ret_nr = 0; *ret_nr < 2; (*ret_nr)++) {
		bool is_any = place == UAIO_URING_ANY_PLACE;
		uint32_t next = is_any ? place : place + *ret_nr;
		int ret = put_opened(ring, next, ends[*ret_nr]);

		if (ret < 0)
			return ret;
		ret_places[*ret_nr] = is_any ? (uint32_t)ret : next;
	}
	return 0;
}

static int64_t make_pipe(struct uaio_uring *ring,
			 const struct uaio_uring_note *note, int flags)
{
	uint32_t places[2];
	unsigned nr;
	int ends[2], ret = sys_pipe2(ends, flags);

	if (ret < 0)
		return ret;
	ret = put_ends(ring, note->place, ends, places, &nr);
	for (unsigned i = 0; i < 2; i++)
		(void)uaio_op_close(ends[i], true);
	if (ret == 0)
		ret = uaio_uring_copy_out(note->descriptors, places,
					  sizeof(places));
	for (unsigned i = 0; i < nr && ret < 0; i++)
		(void)uaio_uring_table_empty(ring, &ring->files, places[i]);
	return ret;
}

int64_t uaio_uring_call_on_files(struct uaio_uring *ring,
				 const struct uaio_sqe *sqe)
{
	const struct uaio_uring_note *note = uaio_uring_note_of(sqe->word);

	switch ((enum uaio_uring_call)sqe->open_flags) {
	case UAIO_URING_CLOSE_PLACE:
		return uaio_uring_table_empty(ring, &ring->files,
					      (uint32_t)sqe->len);
	case UAIO_URING_INSTALL:
		return install(ring, (int)sqe->len, (int)sqe->off);
	case UAIO_URING_PIPE_PLACES:
		return make_pipe(ring, note, (int)sqe->off);
	default: return update_places(ring, note->descriptors, sqe);
	}
}
