/* SPDX-License-Identifier: MIT */
/*
 * What a request reads of its file or changes there, and so what it waits for
 */
#ifndef UAIO_ENGINE_EXTENT_H
#define UAIO_ENGINE_EXTENT_H

#include <stdbool.h>

#include "file/file.h"
#include "engine/opdef.h"
#include "engine/order.h"

/*
 * What a write changes: its bytes, and of what is longer for it, everything from
 * the old end on, of which a read that came before says where the file ended.
 * Return: whether it makes the file longer.
 */
bool uaio_is_extending(const struct uaio_file *file, const struct uaio_sqe *sqe,
		       struct uaio_range *ret_range);

/*
 * Return: how the request is ordered against others of its inode, of which
 * ret_range is what it reads, or changes. The caller has a reference to the file.
 */
enum uaio_order uaio_order_of(struct uaio_file *file,
			      const struct uaio_sqe *sqe,
			      struct uaio_range *ret_range);

/*
 * Return: whether a request has to queue behind some that read or change the same
 * bytes (order.h, I4 and I5). inode is the file's, borrowed under I2 of file.h.
 */
bool uaio_is_held_up(struct uaio_file *file, const struct uaio_inode *inode,
		     const struct uaio_sqe *sqe);

/*
 * Return: whether a request may be made inline, as far as others of its inode are
 * concerned; uaio_inode_end_inline() is its end then. Else it has to queue. inode
 * as above.
 */
bool uaio_begin_inline(struct uaio_file *file, struct uaio_inode *inode,
		       const struct uaio_sqe *sqe);

#endif /* UAIO_ENGINE_EXTENT_H */
