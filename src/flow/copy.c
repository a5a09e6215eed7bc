/* SPDX-License-Identifier: MIT */
#include "flow/copy.h"

#include <string.h>

#include "base/check.h"
#include "base/slab.h"

enum {
	/* Two sizes of copies of arguments: 1 KiB, and IOV_MAX vectors. */
	COPY_SMALL = 1024,
	COPY_MAX = 1024 * sizeof(struct iovec),
};

static struct {
	struct uaio_slab small;
	struct uaio_slab max;
} slabs;

void uaio_copies_init(void)
{
	uaio_slab_init(&slabs.small, COPY_SMALL, 65536);
	uaio_slab_init(&slabs.max, COPY_MAX, 65536);
}

static struct uaio_slab *slab_for(size_t bytes)
{
	return bytes <= COPY_SMALL ? &slabs.small : &slabs.max;
}

void *uaio_copy_new(const struct uaio_sqe *sqe, size_t bytes)
{
	void *copy;

	UAIO_CHECK(bytes <= COPY_MAX);
	copy = uaio_slab_get(slab_for(bytes));
	if (copy)
		memcpy(copy, sqe->buf, bytes);
	return copy;
}

void uaio_copy_free(void *copy, size_t bytes)
{
	uaio_slab_put(slab_for(bytes), copy);
}

void uaio_copy_use(struct uaio_req *req)
{
	if (uaio_optab[req->sqe.op].is_vectored)
		uaio_iovs_cut(req->iov, req->sqe.len);
	else
		((char *)req->copy)[req->sqe.len - 1] = '\0';
	req->sqe.buf = req->copy;
}
