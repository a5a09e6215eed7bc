/* SPDX-License-Identifier: MIT */
/*
 * IORING_REGISTER_CLONE_BUFFERS: buffers of one ring registered with another
 *
 * A buffer is an address and a length, so a clone is one more entry for the same
 * memory. Tags stay with the ring that has them.
 *
 * The ring that gets the buffers is held. The other one is used (ring.h, I4), and its
 * table is read under its queue's lock: two threads that clone from each other's ring
 * wait for nothing.
 *
 * Tested by test-uring-regbuf.c.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "proc/entry.h"
#include "uring/calls.h"
#include "uring/register.h"
#include "uring/ring.h"
#include "uring/table.h"

/* What the client gives; older headers lack it. */
struct clone {
	uint32_t src_fd;
	uint32_t flags;
	uint32_t src_off;
	uint32_t dst_off;
	uint32_t nr;
	uint32_t pad[3];
};

/* A copy of an entry; bytes is 0 if the place is empty. */
struct buffer {
	uint64_t base, bytes;
};

static int check_ends(const struct clone *what, uint32_t nr_there)
{
	uint32_t end;

	if (!nr_there)
		return -ENXIO;
	if (what->nr > nr_there)
		return -EINVAL;
	if (__builtin_add_overflow(what->nr, what->src_off, &end) ||
	    end > nr_there)
		return -EOVERFLOW;
	if (__builtin_add_overflow(what->nr, what->dst_off, &end))
		return -EOVERFLOW;
	return end > UAIO_URING_BUFFERS_MAX ? -EINVAL : 0;
}

/* Copy what is to be cloned, with nr filled in. Return: 0; why that cannot be. */
static int copy_buffers(struct uaio_uring *from, struct clone *what,
			struct buffer *ret_buffers)
{
	const struct uaio_uring_table *table = &from->buffers;
	int ret;

	uaio_queue_lock(&from->queue);
	if (!what->nr)
		what->nr = table->nr;
	ret = check_ends(what, table->nr);
	for (uint32_t i = 0; i < what->nr && ret == 0; i++) {
		const struct uaio_uring_rsrc *rsrc =
			uaio_uring_table_at(table, what->src_off + i);

		ret_buffers[i] =
			rsrc ? (struct buffer){ rsrc->base, rsrc->bytes }
			     : (struct buffer){ 0 };
	}
	uaio_queue_unlock(&from->queue);
	return ret;
}

/* If memory is refused, some of them are there. */
static int put_buffers(struct uaio_uring *ring, const struct clone *what,
		       const struct buffer *buffers)
{
	uint32_t size = what->dst_off + what->nr;
	int ret = 0;

	if (!ring->buffers.nr)
		ret = uaio_uring_table_new(ring, &ring->buffers, size);
	else if (ring->buffers.nr < size)
		ret = uaio_uring_table_grow(ring, &ring->buffers, size);
	for (uint32_t i = 0; i < what->nr && ret == 0; i++) {
		uint32_t place = what->dst_off + i;

		if (buffers[i].bytes)
			ret = uaio_uring_table_put_buffer(ring, place,
							  buffers[i].base,
							  buffers[i].bytes, 0);
		else
			(void)uaio_uring_table_empty(ring, &ring->buffers,
						     place);
	}
	return ret;
}

static long clone_from(struct uaio_uring *ring, struct uaio_uring *from,
		       struct clone *what)
{
	const size_t bytes = UAIO_URING_BUFFERS_MAX * sizeof(struct buffer);
	const void *owner = load_relaxed(&from->owner);
	struct buffer *buffers;
	int ret;

	if (owner && owner != &uaio_entry)
		return -EEXIST;
	if (!what->nr && (what->src_off || what->dst_off))
		return -EINVAL;
	buffers = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS);
	if (sys_is_map_error(buffers))
		return -ENOMEM;
	ret = copy_buffers(from, what, buffers);
	if (ret == 0)
		ret = put_buffers(ring, what, buffers);
	(void)sys_munmap(buffers, bytes);
	return ret;
}

long uaio_uring_clone_buffers(struct uaio_uring *ring, const void *arg,
			      uint32_t nr)
{
	static const uint32_t zero[3];
	struct uaio_uring *from;
	struct clone what;
	bool is_registered;
	long ret;

	if (!arg || nr != 1)
		return -EINVAL;
	if (uaio_uring_copy_in(&what, (uintptr_t)arg, sizeof(what)) < 0)
		return -EFAULT;
	if (what.flags &
	    ~(IORING_REGISTER_SRC_REGISTERED | IORING_REGISTER_DST_REPLACE))
		return -EINVAL;
	if (!(what.flags & IORING_REGISTER_DST_REPLACE) && ring->buffers.nr)
		return -EBUSY;
	if (memcmp(what.pad, zero, sizeof(zero)))
		return -EINVAL;
	is_registered = what.flags & IORING_REGISTER_SRC_REGISTERED;
	from = uaio_uring_named(what.src_fd, is_registered, &ret);
	if (!from)
		return ret;
	if (!uaio_uring_use(from))
		return -EBADF;
	ret = is_registered || uaio_uring_is_still(what.src_fd, from)
		      ? clone_from(ring, from, &what)
		      : -EBADF;
	uaio_uring_unuse(from);
	return ret;
}
