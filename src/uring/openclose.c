/* SPDX-License-Identifier: MIT */
/*
 * Opening and closing: descriptors, and slots in the table of registered files
 *
 * A request that opens a file, and names a slot, first gets a descriptor from the
 * kernel. The program could close this descriptor. So the library makes a private
 * duplicate (uaio_file_fix()), puts the duplicate into the table, and closes the
 * descriptor.
 *
 * Tested by test-uring-calls.c and test-uring-direct.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/asked.h"
#include "base/sys.h"
#include "file/file.h"
#include "op/op.h"
#include "uring/calls.h"
#include "uring/cancel.h"
#include "uring/note.h"
#include "uring/opdef.h"
#include "uring/ring.h"
#include "uring/rsrc.h"
#include "uring/sq.h"
#include "uring/table.h"

/* All checks below are in the order in which the kernel makes them. */

/* Opening into the table */

/*
 * Record in a note (note.h) the slot that the submission names.
 * Return: 0; -EINVAL: O_CLOEXEC with a slot; -ENOMEM.
 */
static int note_place(struct uaio_uring_entry *entry, uint64_t open_flags)
{
	struct uaio_uring_note *note;

	if (open_flags & O_CLOEXEC)
		return -EINVAL;
	note = uaio_uring_note_for(entry);
	if (!note)
		return -ENOMEM;
	note->kind = UAIO_URING_NOTE_LANDING;
	note->landing = (struct uaio_uring_landing){
		.ring = entry->ring,
		.place = entry->raw.file_index == IORING_FILE_INDEX_ALLOC
				 ? UAIO_URING_ANY_PLACE
				 : entry->raw.file_index - 1,
	};
	uaio_uring_set_shares_files(entry->ring);
	return 0;
}

int uaio_uring_prep_land(struct uaio_uring_entry *entry, uint64_t open_flags)
{
	entry->sqe.by_door = entry->raw.file_index;
	return entry->raw.file_index ? note_place(entry, open_flags) : 0;
}

/* Put the file of fd, a descriptor that was just opened, into a slot. */
static int put_opened(struct uaio_uring *ring, uint32_t place, int fd)
{
	struct uaio_file *file;
	int ret = uaio_file_fix(fd, &file);

	if (ret < 0)
		return ret;
	/* A path in /proc may lead to a ring, which cannot be registered. */
	if (!uaio_file_has(file, UAIO_FILE_F_RING))
		return uaio_uring_put_file(ring, place, file, 0);
	uaio_file_put(file);
	return -EBADF;
}

int64_t uaio_uring_land(const struct uaio_sqe *sqe, int fd)
{
	const struct uaio_uring_landing *landing =
		&uaio_uring_note_of(sqe->word)->landing;
	int ret = put_opened(landing->ring, landing->place, fd);

	/*
	 * This close waits for no request: the program does not know the descriptor, so
	 * no request uses it.
	 */
	(void)uaio_op_close(fd, true);
	return ret;
}

/*
 * Opening
 */

static int check_open(const struct io_uring_sqe *raw)
{
	if (raw->buf_index)
		return -EINVAL;
	return raw->flags & IOSQE_FIXED_FILE ? -EBADF : 0;
}

int uaio_uring_prep_openat(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	int ret = check_open(raw);

	entry->sqe.open_flags = raw->open_flags;
	entry->sqe.mode = raw->len;
	if (ret == 0)
		ret = uaio_uring_take_path(entry);
	return ret < 0 ? ret : uaio_uring_prep_land(entry, raw->open_flags);
}

/*
 * Like uaio_uring_prep_land(), for OPENAT2; but report errors in the client's struct
 * open_how or path before errors of the slot.
 */
static int prep_land2(struct uaio_uring_entry *entry)
{
	struct uaio_args *args = &entry->args;
	uint64_t open_flags;
	int ret;

	ret = uaio_optab[UAIO_OP_OPENAT2].prep(&entry->sqe, NULL);
	if (ret < 0)
		return ret;
	memcpy(&open_flags, args->in, sizeof(open_flags));
	return uaio_uring_prep_land(entry, open_flags);
}

int uaio_uring_prep_openat2(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_args *args = uaio_uring_args_of(entry);
	int ret;

	args->path = uaio_uring_pointer(raw->addr);
	args->in = uaio_uring_pointer(raw->addr2);
	args->in_bytes = raw->len;
	ret = check_open(raw);
	return ret < 0 || !raw->file_index ? ret : prep_land2(entry);
}

/*
 * Closing
 */

static int prep_close_place(struct uaio_uring_entry *entry)
{
	entry->sqe.len = entry->raw.file_index - 1;
	uaio_uring_set_shares_files(entry->ring);
	uaio_uring_call_door(entry, UAIO_URING_CLOSE_PLACE);
	entry->sqe.op = UAIO_OP_CALLED;
	return 0;
}

int uaio_uring_prep_close(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->off || raw->addr || raw->len || raw->rw_flags ||
	    raw->buf_index)
		return -EINVAL;
	if (raw->flags & IOSQE_FIXED_FILE)
		return -EBADF;
	if (raw->file_index)
		return raw->fd ? -EINVAL : prep_close_place(entry);
	/* As in the kernel, no request can close a ring. */
	if (raw->fd >= 0 && uaio_uring_is_ring(raw->fd))
		entry->late_error = -EBADF;
	return 0;
}

/* Installing a registered file as a descriptor */

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
	/*
	 * As in the kernel, a request with a personality must not install a descriptor.
	 */
	if (raw->personality)
		return -EPERM;
	entry->sqe.len = (uint32_t)raw->fd;
	entry->sqe.off = raw->rw_flags & IORING_FIXED_FD_NO_CLOEXEC
				 ? F_DUPFD
				 : F_DUPFD_CLOEXEC;
	uaio_uring_call_door(entry, UAIO_URING_INSTALL);
	return 0;
}

/* Duplicate a registered file to a new descriptor of the program. */
int64_t uaio_uring_install(struct uaio_uring *ring, const struct uaio_sqe *sqe)
{
	struct uaio_file *file =
		uaio_uring_get_fixed(&ring->queue, (int)sqe->len);
	int fd;

	if (!file)
		return -EBADF;
	fd = sys_fcntl(uaio_file_use(file), (int)sqe->off, 0);
	uaio_file_unuse(file);
	uaio_file_put(file);
	return fd;
}

/*
 * Pipes
 */

static int prep_pipe_places(struct uaio_uring_entry *entry)
{
	const uint32_t flags = (uint32_t)entry->raw.rw_flags;
	int ret = note_place(entry, flags);

	if (ret < 0)
		return ret;
	entry->note->landing.descriptors = entry->raw.addr;
	entry->sqe.off = flags | O_CLOEXEC;
	entry->sqe.op = UAIO_OP_CALLED;
	uaio_uring_call_door(entry, UAIO_URING_PIPE_PLACES);
	return 0;
}

int uaio_uring_prep_pipe(struct uaio_uring_entry *entry)
{
	const int flags = O_CLOEXEC | O_NONBLOCK | O_DIRECT |
			  O_EXCL /* O_NOTIFICATION_PIPE */;
	const struct io_uring_sqe *raw = &entry->raw;

	if (raw->fd || raw->off || raw->addr3 || raw->rw_flags & ~flags)
		return -EINVAL;
	if (raw->file_index)
		return prep_pipe_places(entry);
	entry->sqe.buf = uaio_uring_pointer(raw->addr);
	entry->sqe.call_flags = (uint32_t)raw->rw_flags;
	return 0;
}

/*
 * Put both ends of a pipe into slots: into slot `place` and the next slot, or into two
 * free slots.
 * Return: 0; -errno if an end gets no slot. *ret_nr: how many ends are in slots.
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

int64_t uaio_uring_make_pipe(struct uaio_uring *ring,
			     const struct uaio_sqe *sqe)
{
	const struct uaio_uring_landing *landing =
		&uaio_uring_note_of(sqe->word)->landing;
	uint32_t places[2];
	unsigned nr;
	int ends[2], ret = sys_pipe2(ends, (int)sqe->off);

	if (ret < 0)
		return ret;
	ret = put_ends(ring, landing->place, ends, places, &nr);
	for (unsigned i = 0; i < 2; i++)
		(void)uaio_op_close(ends[i], true);
	if (ret == 0)
		ret = uaio_uring_copy_out(landing->descriptors, places,
					  sizeof(places));
	for (unsigned i = 0; i < nr && ret < 0; i++)
		(void)uaio_uring_table_empty(ring, &ring->files, places[i]);
	return ret;
}
