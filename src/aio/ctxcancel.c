/* SPDX-License-Identifier: MIT */
/*
 * Cancels requests of a context, which it finds by the context's handle; flow/cancel.h
 * does the cancelling. Tested by src/flow/test-cancel.c and test/conform/rows-cancel.c.
 */
#include <errno.h>

#include "flow/cancel.h"
#include "aio/ctx.h"
#include "aio/handle.h"

int uaio_ctx_cancel(uint64_t handle, uint64_t obj)
{
	/*
	 * As in the kernel, EINPROGRESS means that the request was cancelled. EINVAL
	 * stands for all other results.
	 */
	return uaio_ctx_cancel_one(handle, obj) == 0 ? -EINPROGRESS : -EINVAL;
}

int uaio_ctx_cancel_one(uint64_t handle, uint64_t obj)
{
	struct uaio_ctx *ctx = uaio_ctx_use(handle);
	int ret;

	if (!ctx)
		return -EINVAL;
	ret = uaio_queue_cancel_one(&ctx->queue, obj);
	uaio_ctx_unuse(ctx);
	return ret;
}

int uaio_ctx_cancel_fd(uint64_t handle, int fd)
{
	struct uaio_ctx *ctx = uaio_ctx_use(handle);
	int ret;

	if (!ctx)
		return -EINVAL;
	ret = uaio_queue_cancel_fd(&ctx->queue, fd);
	uaio_ctx_unuse(ctx);
	return ret;
}

int uaio_ctx_cancel_all(uint64_t handle)
{
	struct uaio_ctx *ctx = uaio_ctx_use(handle);
	int ret;

	if (!ctx)
		return -EINVAL;
	ret = uaio_queue_cancel_all(&ctx->queue);
	uaio_ctx_unuse(ctx);
	return ret;
}
