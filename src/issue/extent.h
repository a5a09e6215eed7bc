/* SPDX-License-Identifier: MIT */
/*
 * The bytes that a request reads or changes, and so which requests it waits for
 *
 * Tested by src/wait/test-order-reads.c and test-order-direct.c.
 */
#ifndef UAIO_ISSUE_EXTENT_H
#define UAIO_ISSUE_EXTENT_H

#include <stdbool.h>

#include "file/file.h"
#include "op/op.h"
#include "req/req.h"
#include "wait/order.h"

/*
 * ret_range is what a write changes: its bytes, and if it extends the file, all
 * bytes from the old end on; an earlier read of those has to find the old end.
 * end: 1 more than the file's size; or 0, and it is asked for, and stored.
 * Return: whether it extends the file.
 */
bool uaio_is_extending(const struct uaio_file *file, const struct uaio_sqe *sqe,
		       uint64_t *end, struct uaio_range *ret_range);

/*
 * end: as above, of this file; the policy may have asked for it just now.
 * Return: the request's place in the order of its inode; ret_range as in place.h.
 * The caller has a reference to the file.
 */
enum uaio_order uaio_order_of(struct uaio_file *file,
			      const struct uaio_sqe *sqe, uint64_t end,
			      struct uaio_range *ret_range);

/*
 * Return: whether a request with the place that uaio_order_of() has given it waits for
 * others of its inode, or they for it.
 */
static inline bool uaio_has_order(const struct uaio_req *req)
{
	return req->order != UAIO_ORDER_NONE ||
	       !uaio_sqe_rules(&req->sqe)->has_no_order;
}

/*
 * Return: whether a request has to queue behind some that read or change the same
 * bytes (order.h, I4 and I5). inode is the file's, borrowed under I2 of file.h.
 */
bool uaio_is_held_up(struct uaio_file *file, const struct uaio_inode *inode,
		     const struct uaio_sqe *sqe);

/*
 * Return: whether a request may be inline as far as other requests on its inode
 * are concerned. If so, the caller ends it with uaio_inode_end_inline(); otherwise
 * it has to be queued. inode as above.
 */
bool uaio_begin_inline(struct uaio_file *file, struct uaio_inode *inode,
		       const struct uaio_sqe *sqe);

#endif /* UAIO_ISSUE_EXTENT_H */
