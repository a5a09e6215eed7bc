/* SPDX-License-Identifier: MIT */
/*
 * The client's operations on provided buffers, with the kernel's errors in the kernel's
 * order
 *
 * Requests select a buffer, or fill lists of buffers; io_uring_register() makes arrays.
 *
 * Tested by test-uring-pbuf.c.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/sys.h"
#include "base/uaddr.h"
#include "file/file.h"
#include "op/op.h"
#include "op/sock.h"
#include "check/check.h"
#include "issue/submit.h"
#include "uring/calls.h"
#include "uring/cancel.h"
#include "uring/kbuf.h"
#include "uring/note.h"
#include "uring/opdef.h"
#include "uring/ring.h"
#include "uring/sq.h"
#include "uring/table.h"

enum {
	/* limit of buffers in a group: identifiers have 16 bits */
	NR_MAX = 65536,
	NR_RESERVED = 5, /* reserved words in struct io_uring_buf_reg */
};

/*
 * Requests that select a buffer
 */

int uaio_uring_prep_select(struct uaio_uring_entry *entry)
{
	struct uaio_uring_note *note = uaio_uring_note_for(entry);

	if (!note)
		return -ENOMEM;
	note->kind = UAIO_URING_NOTE_CHOICE;
	note->choice = (struct uaio_uring_choice){
		.ring = entry->ring,
		.group = entry->raw.buf_group,
		.state = UAIO_URING_NOT_CHOSEN,
		.nr_had = 1,
	};
	entry->sqe.by_door = true;
	return 0;
}

/* Return: whether the file does not support multishot reads. */
static bool has_no_shots(const struct uaio_uring_entry *entry,
			 struct uaio_file *file)
{
	bool is_fixed = entry->raw.flags & IOSQE_FIXED_FILE, has_none;

	if (uaio_file_kind(file) != UAIO_KIND_DEVICE)
		return uaio_file_kind(file) < UAIO_KIND_STREAM;
	has_none = !uaio_poll_is_possible(is_fixed ? uaio_file_use(file)
						   : entry->sqe.fd);
	if (is_fixed)
		uaio_file_unuse(file);
	return has_none;
}

/*
 * Select a buffer, to find out whether the group has one. The request gives the buffer
 * back, unless it owns its buffer from the first attempt on (keeps_from_first() in
 * kbuf.c).
 * Return: 0; -ENOBUFS or -ENOENT: there is none; -EFAULT: its address is bad.
 */
static int look_for_room(const struct uaio_sqe *sqe)
{
	struct iovec iov;
	int ret = uaio_uring_pick(sqe, sqe->len, false, &iov);

	if (ret == 0)
		uaio_uring_picked(sqe, -EAGAIN);
	return ret;
}

/*
 * Select buffers for a bundle, to find out whether the group has any, and give them
 * back. Not inlined, because this function uses much stack.
 * Return: 0; -ENOBUFS or -ENOENT: there is none.
 */
static __attribute__((noinline)) int look_for_pieces(const struct uaio_sqe *sqe)
{
	struct uaio_pieces pieces;
	int ret = (int)uaio_uring_pick_pieces(sqe, 0, false, &pieces);

	if (ret == 0)
		(void)uaio_uring_picked_pieces(sqe, &pieces, -EAGAIN, false);
	return ret;
}

int uaio_uring_room_first(const struct uaio_sqe *sqe,
			  const struct uaio_file *file)
{
	bool begins_at_once = !sqe->is_async && !sqe->polls_first &&
			      !(sqe->call_flags & MSG_DONTWAIT) &&
			      uaio_file_has(file, UAIO_FILE_F_SOCKET);

	if (!begins_at_once)
		return 0;
	return sqe->call_flags & UAIO_MSG_PIECES ? look_for_pieces(sqe)
						 : look_for_room(sqe);
}

/* Return: 0, or the error with which a multishot read of the file fails. */
static int check_shots(struct uaio_batch *batch,
		       const struct uaio_uring_entry *entry,
		       struct uaio_file **file)
{
	int ret;

	if (!has_no_shots(entry, *file))
		return 0;
	if (entry->raw.flags & IOSQE_FIXED_FILE)
		return -EBADFD;
	ret = uaio_batch_look_again(batch, entry->sqe.fd, file);
	if (ret < 0)
		return ret;
	return has_no_shots(entry, *file) ? -EBADFD : 0;
}

int uaio_uring_select_first(struct uaio_batch *batch,
			    struct uaio_uring_entry *entry,
			    struct uaio_file **file)
{
	struct uaio_sqe *sqe = &entry->sqe;
	int ret = uaio_rw_check_ioprio(sqe->ioprio);

	if (ret == 0 && unlikely(sqe->is_multishot))
		ret = check_shots(batch, entry, file);
	if (ret < 0)
		return ret;
	sqe->word = (uintptr_t)entry->note;
	if (uaio_file_kind(*file) < UAIO_KIND_STREAM)
		return uaio_rw_select(sqe);
	return sqe->polls_first ? 0 : look_for_room(sqe);
}

/*
 * Requests that provide and remove buffers
 */

static int call_on_buffers(struct uaio_uring_entry *entry,
			   const struct uaio_uring_choice *what,
			   enum uaio_uring_call call)
{
	if (!uaio_uring_note_for(entry))
		return -ENOMEM;
	entry->note->kind = UAIO_URING_NOTE_BUFFERS;
	entry->note->choice = *what;
	uaio_uring_call_door(entry, call);
	entry->looks_up = true;
	return 0;
}

int uaio_uring_prep_provide(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	const uint64_t nr = (uint64_t)raw->fd;
	const struct uaio_uring_choice what = {
		.ring = entry->ring,
		.group = raw->buf_group,
		.bid = (uint16_t)raw->off,
		.len = raw->len,
		.nr = (uint32_t)nr,
		.addr = raw->addr,
	};
	uint64_t end;

	if (raw->rw_flags || raw->splice_fd_in)
		return -EINVAL;
	if (!nr || nr > NR_MAX)
		return -E2BIG;
	if (!raw->len)
		return -EINVAL;
	if (__builtin_add_overflow(raw->addr, nr * raw->len, &end))
		return -EOVERFLOW;
	if (!uaio_is_user_range(raw->addr, nr * raw->len))
		return -EFAULT;
	if (raw->off > UINT16_MAX)
		return -E2BIG;
	if (raw->off + nr > NR_MAX)
		return -EINVAL;
	return call_on_buffers(entry, &what, UAIO_URING_PROVIDE);
}

int uaio_uring_prep_remove(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	const struct uaio_uring_choice what = {
		.ring = entry->ring,
		.group = raw->buf_group,
		.nr = (uint32_t)raw->fd,
	};

	if (raw->rw_flags || raw->addr || raw->len || raw->off ||
	    raw->splice_fd_in)
		return -EINVAL;
	if (raw->fd <= 0 || raw->fd > NR_MAX)
		return -EINVAL;
	return call_on_buffers(entry, &what, UAIO_URING_REMOVE);
}

/*
 * Arrays
 */

/* Return: whether one of the last nr reserved words is not 0. */
static bool has_reserved(const struct io_uring_buf_reg *reg, unsigned nr)
{
	uint32_t bits = 0;

	for (unsigned i = NR_RESERVED - nr; i < NR_RESERVED; i++)
		bits |= reg->resv[i];
	return bits;
}

static size_t array_bytes(const struct io_uring_buf_reg *reg)
{
	const size_t page = uaio_page_bytes();

	return (reg->ring_entries * sizeof(struct io_uring_buf) + page - 1) /
	       page * page;
}

/* Return: 0, or the error if an array of `bytes` bytes cannot be at addr. */
static int check_memory(uint64_t addr, uint64_t bytes)
{
	uint64_t end;

	if (!addr)
		return -EFAULT;
	if (addr % uaio_page_bytes())
		return -EINVAL;
	if (__builtin_add_overflow(addr, bytes, &end))
		return -EOVERFLOW;
	return uaio_is_accessible(addr, bytes) && uaio_can_write(addr, bytes)
		       ? 0
		       : -EFAULT;
}

/*
 * Return: whether an array of `bytes` bytes, which the client maps, would overlap
 * another group's array in the ring's file. Such an array is refused. In the kernel,
 * arrays have separate memory.
 */
static bool is_in_the_way(const struct uaio_uring *ring, uint16_t id,
			  size_t bytes)
{
	for (const struct uaio_uring_group *group = ring->groups.first; group;
	     group = group->next) {
		int apart = (group->id - id) * (1 << IORING_OFF_PBUF_SHIFT);

		if (group->own_bytes && apart < (int)bytes &&
		    -apart < (int)group->own_bytes)
			return true;
	}
	return false;
}

/*
 * Find or map the memory of an array. Return: 0, or the error of check_memory();
 * -ENOMEM: the memory cannot be mapped.
 */
static int find_memory(struct uaio_uring *ring,
		       const struct io_uring_buf_reg *reg,
		       struct io_uring_buf_ring **ret_array)
{
	const size_t bytes = array_bytes(reg);
	int fd;

	*ret_array = (struct io_uring_buf_ring *)(uintptr_t)reg->ring_addr;
	if (!(reg->flags & IOU_PBUF_RING_MMAP))
		return check_memory(reg->ring_addr, bytes);
	fd = uaio_uring_tab_number(ring);
	if (fd < 0 || reg->bgid >= UAIO_URING_MMAP_GROUPS ||
	    is_in_the_way(ring, reg->bgid, bytes))
		return -ENOMEM;
	*ret_array = uaio_uring_mem_map_array(&ring->mem, fd, reg->bgid, bytes);
	return *ret_array ? 0 : -ENOMEM;
}

/* Make the array, unless the group already has an array, or buffers in a list. */
static int put_array(struct uaio_uring *ring,
		     const struct io_uring_buf_reg *reg)
{
	struct uaio_uring_group *group = uaio_uring_group_find(ring, reg->bgid);
	struct io_uring_buf_ring *array;
	int ret;

	if (group && (group->array || group->first))
		return -EEXIST;
	/*
	 * The group is an empty list: free it. As in the kernel, it is gone even if the
	 * array cannot be made.
	 */
	if (group)
		uaio_uring_group_free(ring, group);
	ret = find_memory(ring, reg, &array);
	if (ret < 0)
		return ret;
	group = uaio_uring_group_new(ring, reg->bgid);
	if (!group) {
		if (reg->flags & IOU_PBUF_RING_MMAP)
			(void)sys_munmap(array, array_bytes(reg));
		return -ENOMEM;
	}
	uaio_check_shared(array, array_bytes(reg));
	group->array = array;
	group->own_bytes =
		reg->flags & IOU_PBUF_RING_MMAP ? array_bytes(reg) : 0;
	group->mask = (uint16_t)(reg->ring_entries - 1);
	group->head = 0;
	group->is_incremental = reg->flags & IOU_PBUF_RING_INC;
	group->min_left = reg->min_left;
	return 0;
}

/*
 * Return: whether reg->flags has an unsupported flag: a flag of newer kernels; or
 * IOU_PBUF_RING_MMAP if the ring's file is too small for arrays.
 */
static bool has_bad_flags(const struct uaio_uring *ring,
			  const struct io_uring_buf_reg *reg)
{
	return reg->flags & ~(IOU_PBUF_RING_INC |
			      (ring->mem.has_arrays ? IOU_PBUF_RING_MMAP : 0));
}

long uaio_uring_register_array(struct uaio_uring *ring, const void *arg,
			       uint32_t nr)
{
	struct io_uring_buf_reg reg;
	long ret;

	if (!arg || nr != 1)
		return -EINVAL;
	if (uaio_uring_copy_in(&reg, (uintptr_t)arg, sizeof(reg)) < 0)
		return -EFAULT;
	if (has_reserved(&reg, NR_RESERVED) || has_bad_flags(ring, &reg))
		return -EINVAL;
	if (!reg.ring_entries || reg.ring_entries & (reg.ring_entries - 1) ||
	    reg.ring_entries >= NR_MAX)
		return -EINVAL;
	if (reg.min_left && !(reg.flags & IOU_PBUF_RING_INC))
		return -EINVAL;
	uaio_uring_groups_lock(ring);
	ret = put_array(ring, &reg);
	uaio_uring_groups_unlock(ring);
	return ret;
}

/* Return: 0 with the array's group; -ENOENT: no such group; -EINVAL: it is a list. */
static int find_array(struct uaio_uring *ring, uint32_t id,
		      struct uaio_uring_group **ret_group)
{
	*ret_group = uaio_uring_group_find(ring, id);
	if (!*ret_group)
		return -ENOENT;
	return (*ret_group)->array ? 0 : -EINVAL;
}

long uaio_uring_unregister_array(struct uaio_uring *ring, const void *arg,
				 uint32_t nr)
{
	struct uaio_uring_group *group;
	struct io_uring_buf_reg reg;
	int ret;

	if (!arg || nr != 1)
		return -EINVAL;
	if (uaio_uring_copy_in(&reg, (uintptr_t)arg, sizeof(reg)) < 0)
		return -EFAULT;
	/* In this call the kernel ignores min_left and the first reserved word. */
	if (has_reserved(&reg, NR_RESERVED - 1) || reg.flags)
		return -EINVAL;
	uaio_uring_groups_lock(ring);
	ret = find_array(ring, reg.bgid, &group);
	if (ret == 0)
		uaio_uring_group_free(ring, group);
	uaio_uring_groups_unlock(ring);
	return ret;
}

long uaio_uring_array_status(struct uaio_uring *ring, const void *arg,
			     uint32_t nr)
{
	struct io_uring_buf_status status;
	struct uaio_uring_group *group;
	int ret;

	if (!arg || nr != 1)
		return -EINVAL;
	if (uaio_uring_copy_in(&status, (uintptr_t)arg, sizeof(status)) < 0)
		return -EFAULT;
	for (unsigned i = 0; i < sizeof(status.resv) / sizeof(status.resv[0]);
	     i++)
		if (status.resv[i])
			return -EINVAL;
	uaio_uring_groups_lock(ring);
	ret = find_array(ring, status.buf_group, &group);
	if (ret == 0)
		status.head = group->head;
	uaio_uring_groups_unlock(ring);
	return ret ? ret
		   : uaio_uring_copy_out((uintptr_t)arg, &status,
					 sizeof(status));
}
