/* SPDX-License-Identifier: MIT */
/*
 * Copies of what a request's arguments point to: vectors, a path, or more (args.h)
 *
 * The client may change its memory as soon as the submitting call returns. Small copies are
 * in the request itself, others in memory from three slabs.
 *
 * Tested by src/op/test-open.c, src/op/test-args.c and test-ready.c.
 */
#ifndef UAIO_FLOW_COPY_H
#define UAIO_FLOW_COPY_H

#include "req/req.h"

/* Called each time the engine starts, also in a child of fork(): resets all slabs. */
void uaio_copies_init(void);

/*
 * Copy the arguments of sqe, which need `bytes` bytes, too many for the request itself.
 * Return: NULL if memory is refused.
 */
void *uaio_copy_new(const struct uaio_sqe *sqe, size_t bytes);
void uaio_copy_free(const struct uaio_sqe *sqe, void *copy);

/* Let the request use its copy of the arguments instead of the client's memory. */
void uaio_copy_use(struct uaio_req *req);

/*
 * Only for uaio_copy_drop(): free the copy of the arguments of a splice, under the queue's
 * lock, which this function takes.
 */
void uaio_copy_drop_ends(struct uaio_req *req);

/* Free the argument copy of a request that is complete. */
static inline void uaio_copy_put(struct uaio_req *req)
{
	if (req->copy && req->copy != req->inline_iov)
		uaio_copy_free(&req->sqe, req->copy);
	req->copy = NULL;
}

/*
 * Free the argument copy of a request that is still in its group (the requests of its
 * queue). A canceller may read the copy (cancel.c, I5). The queue's lock is not held.
 */
static inline void uaio_copy_drop(struct uaio_req *req)
{
	if (unlikely(uaio_optab[req->sqe.op].has_ends))
		uaio_copy_drop_ends(req);
	else
		uaio_copy_put(req);
}

#endif /* UAIO_FLOW_COPY_H */
