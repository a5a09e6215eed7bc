/* SPDX-License-Identifier: MIT */
#include "issue/extent.h"

#include <linux/fs.h>

#include "base/check.h"
#include "file/inspect.h"
#include "split/bounce.h"

/*
 * If *end is 0 (not queried yet), make it the file's size plus 1.
 * Return: false if the size cannot be queried; *end is then still 0.
 */
static bool find_end(const struct uaio_file *file, const struct uaio_sqe *sqe,
		     uint64_t *end)
{
	uint64_t size;

	if (*end)
		return true;
	if (uaio_size_of(file, sqe->fd, &size) < 0)
		return false;
	*end = size + 1;
	return true;
}

bool uaio_is_extending(const struct uaio_file *file, const struct uaio_sqe *sqe,
		       uint64_t *end, struct uaio_range *ret_range)
{
	bool appends = uaio_file_has(file, UAIO_FILE_F_APPEND) ||
		       sqe->rw_flags & RWF_APPEND;
	uint64_t size;

	*ret_range = (struct uaio_range){
		.begin = (uint64_t)sqe->off,
		.end = (uint64_t)sqe->off + uaio_sqe_bytes(sqe),
	};
	if (uaio_file_has(file, UAIO_FILE_F_BLOCKDEV))
		return false;
	if (!find_end(file, sqe, end)) {
		*ret_range = (struct uaio_range){ 0, UINT64_MAX };
		return appends;
	}
	size = *end - 1;
	if (appends)
		*ret_range = (struct uaio_range){ size, UINT64_MAX };
	if (ret_range->end <= size)
		return false;
	if (ret_range->begin > size)
		ret_range->begin = size;
	return true;
}

/*
 * A request at the file position, even a read, moves the position for the next request.
 * A resize may change what any read finds. So such a request excludes all others: order
 * it like a write of the whole file.
 */
static enum uaio_order order_as_write(struct uaio_range *ret_range)
{
	*ret_range = (struct uaio_range){ 0, UINT64_MAX };
	return UAIO_ORDER_WRITE;
}

/*
 * The kernel executes reads inside io_submit, except O_DIRECT reads: io_submit only submits
 * an O_DIRECT read to the device. So even in the kernel, a later O_DIRECT write that does
 * not extend the file may overtake an O_DIRECT read (order.h, I5).
 */
static enum uaio_order order_of_read(const struct uaio_file *file,
				     const struct uaio_sqe *sqe,
				     struct uaio_range *ret_range)
{
	if (unlikely(sqe->off == UAIO_OFF_POSITION))
		return order_as_write(ret_range);
	*ret_range = (struct uaio_range){
		.begin = (uint64_t)sqe->off,
		.end = (uint64_t)sqe->off + uaio_sqe_bytes(sqe),
	};
	return file->kind == UAIO_KIND_DIRECT ? UAIO_ORDER_READ_DIRECT
					      : UAIO_ORDER_READ;
}

/*
 * Return: how the write sqe is ordered (uaio_order_of()). Querying the file's size is a
 * system call, so do it only if this write or another request of the inode depends on the
 * size.
 */
static enum uaio_order order_of_write(struct uaio_file *file,
				      const struct uaio_sqe *sqe, uint64_t end,
				      struct uaio_range *ret_range)
{
	bool is_direct = file->kind == UAIO_KIND_DIRECT;
	bool extends = false;

	if (unlikely(sqe->off == UAIO_OFF_POSITION))
		return order_as_write(ret_range);
	*ret_range = (struct uaio_range){ 0 };
	if (is_direct || uaio_inode_minds_writes(file->inode))
		extends = uaio_is_extending(file, sqe, &end, ret_range);
	if (unlikely(uaio_bounces_exclusively(file, sqe)))
		return UAIO_ORDER_WRITE_EXCLUSIVE;
	return is_direct && !extends ? UAIO_ORDER_WRITE_INPLACE
				     : UAIO_ORDER_WRITE;
}

enum uaio_order uaio_order_of(struct uaio_file *file,
			      const struct uaio_sqe *sqe, uint64_t end,
			      struct uaio_range *ret_range)
{
	enum uaio_op_class class = uaio_optab[sqe->op].class;

	/*
	 * With has_no_order (io_uring) only three kinds of requests are ordered: writes,
	 * because they would wait for the inode's lock anyway; resizes, because writes
	 * that must run alone (bounce.h) depend on the size; requests at the file
	 * position, because they move it.
	 */
	if (uaio_sqe_rules(sqe)->has_no_order && class != UAIO_CLASS_WRITE &&
	    class != UAIO_CLASS_RESIZE && sqe->off != UAIO_OFF_POSITION)
		return UAIO_ORDER_NONE;
	switch (class) {
	case UAIO_CLASS_SYNC: return UAIO_ORDER_SYNC;
	case UAIO_CLASS_RESIZE: return order_as_write(ret_range);
	/*
	 * A request for attributes or advice waits for ordered writes, but no request waits
	 * for it.
	 */
	case UAIO_CLASS_ABOUT: return UAIO_ORDER_NONE;
	case UAIO_CLASS_WRITE: return order_of_write(file, sqe, end, ret_range);
	default: return order_of_read(file, sqe, ret_range);
	}
}

/*
 * Return: whether this request must wait until the system call of some earlier request of
 * the inode has returned.
 */
static bool is_awaited(struct uaio_file *file, const struct uaio_sqe *sqe)
{
	struct uaio_range range;
	enum uaio_order order;
	bool is_awaited = false;

	/* Without a reference to the file, its inode might be freed during the check. */
	if (!uaio_file_try_get(file))
		return false;
	if (file->inode) {
		order = uaio_order_of(file, sqe, 0, &range);
		is_awaited =
			uaio_inode_is_range_awaited(file->inode, order, &range);
	}
	uaio_file_put(file);
	return is_awaited;
}

bool uaio_is_held_up(struct uaio_file *file, const struct uaio_inode *inode,
		     const struct uaio_sqe *sqe)
{
	bool is_minded = uaio_optab[sqe->op].class == UAIO_CLASS_WRITE
				 ? uaio_inode_minds_writes(inode)
				 : uaio_inode_has_direct(inode);

	return unlikely(is_minded) && is_awaited(file, sqe);
}

bool uaio_begin_inline(struct uaio_file *file, struct uaio_inode *inode,
		       const struct uaio_sqe *sqe)
{
	return !uaio_is_held_up(file, inode, sqe) &&
	       uaio_inode_begin_inline(inode);
}
