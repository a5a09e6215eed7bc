/* SPDX-License-Identifier: MIT */
/*
 * The bytes that a request reads or changes, which decide what requests it waits for
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
 * ret_range: the bytes that a write changes. If the write extends the file, these are all
 * bytes from the old end on, as an earlier read of those must find the old end. end: 1 more
 * than the file's size; or 0, and the size is queried and stored there.
 * Return: whether the write extends the file.
 */
bool uaio_is_extending(const struct uaio_file *file, const struct uaio_sqe *sqe,
		       uint64_t *end, struct uaio_range *ret_range);

/*
 * Return: how the request is ordered among the requests of its inode; ret_range: as in
 * place.h. end: as in uaio_is_extending(); the policy may just have queried the size. The
 * caller has a reference to the file.
 */
enum uaio_order uaio_order_of(struct uaio_file *file,
			      const struct uaio_sqe *sqe, uint64_t end,
			      struct uaio_range *ret_range);

/*
 * Return: whether a request, with the order that uaio_order_of() returned, waits for other
 * requests of its inode, or they for it.
 */
static inline bool uaio_has_order(const struct uaio_req *req)
{
	return req->order != UAIO_ORDER_NONE ||
	       !uaio_sqe_rules(&req->sqe)->has_no_order;
}

/*
 * Return: whether a request has to wait for earlier requests that read or change the same
 * bytes (order.h, I4 and I5). inode is the file's, borrowed under I2 of file.h.
 */
bool uaio_is_held_up(struct uaio_file *file, const struct uaio_inode *inode,
		     const struct uaio_sqe *sqe);

/*
 * Return: whether other requests on the inode permit this one to be inline. If so, the caller
 * ends it with uaio_inode_end_inline(); otherwise the request has to be queued. inode is the
 * file's, borrowed under I2 of file.h.
 */
bool uaio_begin_inline(struct uaio_file *file, struct uaio_inode *inode,
		       const struct uaio_sqe *sqe);

#endif /* UAIO_ISSUE_EXTENT_H */
