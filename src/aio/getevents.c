/* SPDX-License-Identifier: MIT */
/*
 * io_getevents: moving events from the ring to the client (ctx.h, ring.h). Tested by
 * test-ring.c, src/ready/test-waiter.c and test/conform/rows-getevents.c.
 */
#include <errno.h>

#include "base/check.h"
#include "base/sleep.h"
#include "base/uaddr.h"
#include "options/config.h"
#include "check/check.h"
#include "wait/page.h"
#include "ready/waiter.h"
#include "aio/ctx.h"
#include "aio/handle.h"

/*
 * Return: whether io_destroy has claimed the context (ctx.h) since this io_getevents
 * began. generation: the generation of the context's queue (queue.h) when io_getevents
 * began. The caller holds reap_lock.
 */
static bool is_over_locked(const struct uaio_ctx *ctx, uint64_t generation)
{
	/*
	 * relaxed: io_destroy sets DEAD, then acquires reap_lock to clear the handle. So
	 * if this load misses DEAD, io_destroy has not acquired reap_lock yet. The
	 * context is then still valid for the caller, which holds reap_lock.
	 */
	return load_relaxed(&ctx->queue.generation) != generation ||
	       load_relaxed(&ctx->tickets) & UAIO_TICKETS_DEAD;
}

/*
 * If the client's memory cannot be written, fail only if there are events to store. In
 * that case the events stay in the ring.
 */
static long pop_locked(struct uaio_ctx *ctx, struct uaio_event *events,
		       long got, const struct uaio_getevents *call)
{
	long nr = call->nr - got;

	if (unlikely(!events || call->is_strict)) {
		long left = uaio_ring_poppable(&ctx->ring,
					       uaio_ring_head(&ctx->ring));

		if (nr > left)
			nr = left;
		if (nr &&
		    (!events || !uaio_can_write((uintptr_t)(events + got),
						(size_t)nr * sizeof(*events))))
			return -EFAULT;
	}
	return uaio_ring_pop(&ctx->ring, events + got, nr);
}

static long pop(struct uaio_ctx *ctx, uint64_t generation,
		struct uaio_event *events, long got,
		const struct uaio_getevents *call)
{
	long ret = -EINVAL;

	uaio_lock(&ctx->reap_lock, UAIO_RANK_REAP);
	if (!is_over_locked(ctx, generation))
		ret = pop_locked(ctx, events, got, call);
	uaio_unlock(&ctx->reap_lock, UAIO_RANK_REAP);
	return ret;
}

/* Wait for more events. `got` events, fewer than min_nr, are already stored. */
static long wait_more(struct uaio_ctx *ctx, uint64_t generation,
		      struct uaio_event *events, long got,
		      const struct uaio_getevents *call)
{
	for (;;) {
		uint32_t capacity = load_relaxed(&ctx->capacity);
		long need = call->min_nr - got;
		long more;
		int ret;

		if (need > capacity)
			need = capacity;
		ret = uaio_queue_wait(&ctx->queue, generation, (uint64_t)need,
				      &call->wait);
		more = pop(ctx, generation, events, got, call);
		if (more < 0)
			return got ? got : more;
		got += more;
		if (got >= call->min_nr)
			return got;
		if (ret < 0)
			return got || ret == -ETIMEDOUT ? got : ret;
	}
}

/*
 * Deliver the pending signals that the call's signal mask unblocks. The kernel delivers
 * them even if the call does not wait.
 * Return: got; -EINTR if got is 0 and a signal handler has run.
 */
static long let_signals_in(const struct uaio_getevents *call, long got)
{
	return uaio_wait_let_signals_in(&call->wait) && got == 0 ? -EINTR : got;
}

static bool is_in_flight(const struct uaio_ctx *ctx)
{
	/*
	 * relaxed: the result only decides whether an io_getevents that found no event
	 * may sleep for a moment, so a guess suffices
	 */
	return load_relaxed(&ctx->tickets) / UAIO_TICKET !=
	       load_relaxed(&ctx->nr_done);
}

/*
 * The client has polled an empty ring for too long (vain.c): sleep for a moment.
 * Return: how many events were found afterwards; or the error of pop().
 */
static long doze(struct uaio_ctx *ctx, uint64_t generation,
		 struct uaio_event *events, const struct uaio_getevents *call)
{
	struct uaio_wait nap = call->wait;
	long got;

	nap.deadline_ns = uaio_now_ns() + UAIO_DOZE_NS;
	(void)uaio_queue_sleep(&ctx->queue, generation, 1, &nap);
	got = pop(ctx, generation, events, 0, call);
	uaio_vain_has_dozed(&ctx->vain, got > 0);
	return got;
}

/*
 * The ring had fewer than min_nr events, or none: execute requests that have become
 * ready, and pop again. Then wait, if the call may wait.
 */
static long get_more(struct uaio_ctx *ctx, uint64_t generation,
		     struct uaio_event *events, long got, bool is_pinned,
		     const struct uaio_getevents *call)
{
	long more;

	if (is_pinned)
		uaio_queue_run_parked(&ctx->queue, call->wait.deadline_ns);
	if (likely(!call->wait.sleeps_only))
		uaio_page_try_group(&ctx->queue.group);
	more = pop(ctx, generation, events, got, call);
	if (more < 0)
		return got ? got : more;
	got += more;
	if (!got && call->nr && !call->wait.deadline_ns && is_in_flight(ctx) &&
	    uaio_vain_must_doze(&ctx->vain, load_relaxed(&ctx->nr_done)))
		return doze(ctx, generation, events, call);
	if (got >= call->min_nr || call->wait.deadline_ns == 0)
		return unlikely(call->wait.mask) ? let_signals_in(call, got)
						 : got;
	return wait_more(ctx, generation, events, got, call);
}

/*
 * Return: whether to call get_more(). If there is no event, get_more() is called even
 * if min_nr is 0, because a parked request may have become ready.
 */
static bool are_too_few(long got, const struct uaio_getevents *call)
{
	return got < call->min_nr || (got == 0 && call->nr > 0);
}

static long getevents(uint64_t handle, struct uaio_event *ret_events,
		      const struct uaio_getevents *call)
{
	struct uaio_ctx *ctx = uaio_ctx_find(handle);
	bool is_pinned = false;
	long got = -EINVAL;
	uint64_t generation = 0;

	if (!ctx)
		return -EINVAL;
	uaio_lock(&ctx->reap_lock, UAIO_RANK_REAP);
	if (load_relaxed(&ctx->handle) == handle) {
		got = pop_locked(ctx, ret_events, 0, call);
		generation = load_relaxed(&ctx->queue.generation);
		is_pinned = got >= 0 && are_too_few(got, call) &&
			    !call->wait.sleeps_only &&
			    uaio_queue_pin_parked(&ctx->queue);
	}
	uaio_unlock(&ctx->reap_lock, UAIO_RANK_REAP);
	if (got < 0)
		return got;
	if (are_too_few(got, call))
		return get_more(ctx, generation, ret_events, got, is_pinned,
				call);
	return unlikely(call->wait.mask) ? let_signals_in(call, got) : got;
}

long uaio_ctx_getevents(uint64_t handle, struct uaio_event *ret_events,
			const struct uaio_getevents *call)
{
	long ret;

	if (likely(!uaio_config.is_examined))
		return getevents(handle, ret_events, call);
	/*
	 * Under `uaio check`, look for requests whose memory is in a stack frame that has
	 * ended. Do so here, because getevents() does so only if it waits.
	 */
	uaio_check_look_at_stack();
	ret = getevents(handle, ret_events, call);
	if (ret > 0)
		uaio_check_written((uintptr_t)ret_events,
				   (size_t)ret * sizeof(*ret_events));
	return ret;
}
