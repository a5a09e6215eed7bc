/* SPDX-License-Identifier: MIT */
#include "engine/extent.h"

#include <linux/fs.h>

#include "base/check.h"
#include "engine/bounce.h"
#include "engine/identity.h"

bool uaio_is_extending(const struct uaio_file *file, const struct uaio_sqe *sqe,
		       struct uaio_range *ret_range)
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
	if (uaio_size_of(file, sqe->fd, &size) < 0) {
		*ret_range = (struct uaio_range){ 0, UINT64_MAX };
		return appends;
	}
	if (appends)
		*ret_range = (struct uaio_range){ size, UINT64_MAX };
	if (ret_range->end <= size)
		return false;
	if (ret_range->begin > size)
		ret_range->begin = size;
	return true;
}

/*
 * Return: whether a read that was accepted before, and is not made yet, must not
 * see this write.
 */
static bool is_awaited_by_read(struct uaio_file *file,
			       const struct uaio_sqe *sqe)
{
	struct uaio_range range;
	bool is_read;

	/* The inode may go with the entry. */
	if (!uaio_file_try_get(file))
		return false;
	(void)uaio_is_extending(file, sqe, &range);
	is_read = file->inode && uaio_inode_is_range_read(file->inode, &range);
	uaio_file_put(file);
	return is_read;
}

static bool begin_write(struct uaio_file *file, struct uaio_inode *inode,
			const struct uaio_sqe *sqe)
{
	if (unlikely(uaio_inode_is_read(inode)) &&
	    is_awaited_by_read(file, sqe))
		return false;
	return uaio_inode_begin_inline(inode);
}

bool uaio_begin_inline(struct uaio_file *file, struct uaio_inode *inode,
		       const struct uaio_sqe *sqe)
{
	return uaio_optab[sqe->op].class == UAIO_CLASS_WRITE
		       ? begin_write(file, inode, sqe)
		       : uaio_inode_begin_inline(inode);
}

/*
 * The kernel makes a direct read when the device does, so later writes may come
 * before it; all others it makes inside io_submit.
 */
static enum uaio_order order_of_read(const struct uaio_file *file,
				     const struct uaio_sqe *sqe,
				     struct uaio_range *ret_range)
{
	*ret_range = (struct uaio_range){
		.begin = (uint64_t)sqe->off,
		.end = (uint64_t)sqe->off + uaio_sqe_bytes(sqe),
	};
	return file->kind == UAIO_KIND_DIRECT ? UAIO_ORDER_READ_DIRECT
					      : UAIO_ORDER_READ;
}

/* Where a file ends is asked only where somebody minds. */
static enum uaio_order order_of_write(struct uaio_file *file,
				      const struct uaio_sqe *sqe,
				      struct uaio_range *ret_range)
{
	bool is_direct = file->kind == UAIO_KIND_DIRECT;
	bool extends = false;

	*ret_range = (struct uaio_range){ 0 };
	if (is_direct || uaio_inode_is_read(file->inode))
		extends = uaio_is_extending(file, sqe, ret_range);
	if (unlikely(uaio_bounces_alone(file, sqe)))
		return UAIO_ORDER_WRITE_ALONE;
	return is_direct && !extends ? UAIO_ORDER_WRITE_INPLACE
				     : UAIO_ORDER_WRITE;
}

enum uaio_order uaio_order_of(struct uaio_file *file,
			      const struct uaio_sqe *sqe,
			      struct uaio_range *ret_range)
{
	switch (uaio_optab[sqe->op].class) {
	case UAIO_CLASS_SYNC: return UAIO_ORDER_SYNC;
	case UAIO_CLASS_WRITE: return order_of_write(file, sqe, ret_range);
	default: return order_of_read(file, sqe, ret_range);
	}
}
