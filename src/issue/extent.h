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
 * bytes from the old end of the file on. So the write waits for earlier reads of these
 * bytes, which must find the old end. *end: the file's size plus 1; 0: not known yet, so
 * the function queries the size and stores it there.
 * Return: whether the write extends the file.
 */
bool uaio_is_extending(const struct uaio_file *file, const struct uaio_sqe *sqe,
		       uint64_t *end, struct uaio_range *ret_range);

/*
 * Return: how the request is ordered among the requests of its inode. ret_range: the
 * bytes that it reads or changes (struct uaio_range, req/place.h). end: as in
 * uaio_is_extending(); not 0 if the policy has just queried the size. The caller has a
 * reference to the file.
 */
enum uaio_order uaio_order_of(struct uaio_file *file,
			      const struct uaio_sqe *sqe, uint64_t end,
			      struct uaio_range *ret_range);

/*
 * uaio_order_of() has been called for the request.
 * Return: whether the request waits for other requests of its inode, or other requests may
 * have to wait for it.
 */
static inline bool uaio_has_order(const struct uaio_req *req)
{
	return req->order != UAIO_ORDER_NONE ||
	       !uaio_sqe_rules(&req->sqe)->has_no_order;
}

/*
 * Return: whether a request has to wait for earlier requests that read or change the
 * same bytes (order.h, I4 and I5). inode: the inode of file, borrowed (file.h, I2).
 */
bool uaio_is_held_up(struct uaio_file *file, const struct uaio_inode *inode,
		     const struct uaio_sqe *sqe);

/*
 * Return: true if the request may be executed inline (inside the submitting call); the
 * caller then calls uaio_inode_end_inline() after the execution. false if the request
 * has to be queued because of other requests on the inode. inode: the inode of file,
 * borrowed (file.h, I2).
 */
bool uaio_begin_inline(struct uaio_file *file, struct uaio_inode *inode,
		       const struct uaio_sqe *sqe);

#endif /* UAIO_ISSUE_EXTENT_H */
