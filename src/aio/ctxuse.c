/* SPDX-License-Identifier: MIT */
/*
 * Keeping a context for a call that takes no ticket (ctx.h)
 *
 * Tested by test-ctx.c and test/conform/rows-cancel.c.
 */
#include "aio/ctx.h"
#include "aio/handle.h"

struct uaio_ctx *uaio_ctx_use(uint64_t handle)
{
	struct uaio_ctx *ctx = uaio_ctx_find(handle);

	if (!ctx)
		return NULL;
	uaio_lock(&ctx->reap_lock, UAIO_RANK_REAP);
	if (load_relaxed(&ctx->handle) == handle)
		ctx->nr_users++;
	else
		handle = 0;
	uaio_unlock(&ctx->reap_lock, UAIO_RANK_REAP);
	return handle ? ctx : NULL;
}

void uaio_ctx_unuse(struct uaio_ctx *ctx)
{
	uaio_lock(&ctx->reap_lock, UAIO_RANK_REAP);
	ctx->nr_users--;
	uaio_unlock(&ctx->reap_lock, UAIO_RANK_REAP);
	/* relaxed: ordered by the lock, see is_drained() in ctx.c */
	if (load_relaxed(&ctx->tickets) & UAIO_TICKETS_DEAD)
		uaio_ctx_wake_destroyer(ctx);
}

bool uaio_ctx_is_empty(uint64_t handle)
{
	struct uaio_ctx *ctx = uaio_ctx_use(handle);
	bool is_empty;

	if (!ctx)
		return false;
	is_empty = uaio_ring_unread(&ctx->ring) == 0;
	uaio_ctx_unuse(ctx);
	return is_empty;
}
