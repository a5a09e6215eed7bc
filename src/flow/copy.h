/* SPDX-License-Identifier: MIT */
/*
 * Copies of what a request's arguments point to: vectors, a path, or more (args.h)
 *
 * The client may change these as soon as the submitting call returns. What fits
 * is copied into the request itself, the rest to memory from three slabs.
 *
 * Tested by src/op/test-open.c, src/op/test-args.c and test-ready.c.
 */
#ifndef UAIO_FLOW_COPY_H
#define UAIO_FLOW_COPY_H

#include "req/req.h"

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_copies_init(void);

/*
 * Copy the arguments of sqe, of so many bytes, which do not fit into a request.
 * Return: NULL if memory is refused.
 */
void *uaio_copy_new(const struct uaio_sqe *sqe, size_t bytes);
void uaio_copy_free(const struct uaio_sqe *sqe, void *copy);

/* From now on the request uses its copy, which the client cannot change. */
void uaio_copy_use(struct uaio_req *req);

/* For uaio_copy_drop(). */
void uaio_copy_drop_ends(struct uaio_req *req);

/* The request is complete. */
static inline void uaio_copy_put(struct uaio_req *req)
{
	if (req->copy && req->copy != req->inline_iov)
		uaio_copy_free(&req->sqe, req->copy);
	req->copy = NULL;
}

/*
 * The same for one that is in its group still: while it has a copy, a canceller may
 * look at that (cancel.c, I5). The group's lock is not held.
 */
static inline void uaio_copy_drop(struct uaio_req *req)
{
	if (unlikely(uaio_optab[req->sqe.op].has_ends))
		uaio_copy_drop_ends(req);
	else
		uaio_copy_put(req);
}

#endif /* UAIO_FLOW_COPY_H */
