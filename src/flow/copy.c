/* SPDX-License-Identifier: MIT */
#include "flow/copy.h"

#include <assert.h>
#include <string.h>

#include "base/check.h"
#include "base/slab.h"
#include "proc/endable.h"
#include "op/args.h"
#include "req/queue.h"

enum {
	/*
	 * A copy gets memory of one of three sizes: 1 KiB; room for IOV_MAX vectors; room
	 * for the largest value of an extended attribute.
	 */
	COPY_SMALL = 1024,
	COPY_LARGE = 1024 * sizeof(struct iovec),
	COPY_MAX = 72 << 10,
};

static_assert(sizeof(struct uaio_args) >
		      UAIO_REQ_INLINE_IOVS * sizeof(struct iovec),
	      "uaio_args_copy() makes each copy of these");
static_assert((int)COPY_MAX >= (int)UAIO_ARGS_BYTES_MAX, "any copy fits");

static struct {
	struct uaio_slab small;
	struct uaio_slab large;
	struct uaio_slab max;
} slabs;

void uaio_copies_init(void)
{
	uaio_slab_init(&slabs.small, COPY_SMALL, 65536);
	uaio_slab_init(&slabs.large, COPY_LARGE, 65536);
	uaio_slab_init(&slabs.max, COPY_MAX, COPY_MAX);
}

static struct uaio_slab *slab_for(size_t bytes)
{
	return bytes <= COPY_SMALL   ? &slabs.small
	       : bytes <= COPY_LARGE ? &slabs.large
				     : &slabs.max;
}

void *uaio_copy_new(const struct uaio_sqe *sqe, size_t bytes)
{
	void *copy;

	UAIO_CHECK(bytes <= COPY_MAX);
	copy = uaio_slab_get(slab_for(bytes));
	if (!copy)
		return NULL;
	if (uaio_optab[sqe->op].copies == UAIO_COPIES_ARGS)
		uaio_args_copy(sqe->args, copy);
	else
		memcpy(copy, sqe->buf, bytes);
	if (unlikely(uaio_optab[sqe->op].has_ends))
		((struct uaio_args *)copy)->endable = uaio_endable_get();
	return copy;
}

void uaio_copy_free(const struct uaio_sqe *sqe, void *copy)
{
	size_t bytes = uaio_sqe_copied_bytes(sqe);

	if (uaio_optab[sqe->op].copies == UAIO_COPIES_ARGS)
		uaio_args_release(copy);
	uaio_slab_put(slab_for(bytes), copy);
}

void uaio_copy_use(struct uaio_req *req)
{
	if (uaio_optab[req->sqe.op].is_vectored)
		uaio_iovs_cut(req->iov, req->sqe.len);
	else if (uaio_optab[req->sqe.op].copies == UAIO_COPIES_PATH)
		((char *)req->copy)[req->sqe.len - 1] = '\0';
	req->sqe.buf = req->copy;
}

void uaio_copy_drop_ends(struct uaio_req *req)
{
	void *copy = req->copy;

	uaio_lock(&req->group->lock, UAIO_RANK_GROUP);
	req->copy = NULL;
	uaio_unlock(&req->group->lock, UAIO_RANK_GROUP);
	if (copy)
		uaio_copy_free(&req->sqe, copy);
}
