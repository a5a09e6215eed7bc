/* SPDX-License-Identifier: MIT */
#include "engine/attend.h"

#include "base/check.h"
#include "engine/ctx.h"
#include "engine/engine.h"
#include "engine/entry.h"
#include "engine/lead.h"
#include "engine/lost.h"
#include "engine/ready.h"
#include "engine/wait.h"

/* Rounds of what is ready before a sleep; what is left then goes to others. */
enum { ROUNDS = 16 };

void uaio_attend_note(const struct uaio_ctx *ctx)
{
	uaio_attended = ctx->id + 1;
}

/* Return: whether it leads, with a pin. */
static bool lead(struct uaio_ctx *ctx, struct uaio_waiter *waiter)
{
	bool leads;

	uaio_lock(&ctx->group.lock, UAIO_RANK_GROUP);
	/* relaxed: who ends the life wakes who leads, under this lock */
	leads = !(load_relaxed(&ctx->tickets) & UAIO_TICKETS_DEAD) &&
		uaio_lead_locked(ctx, waiter);
	uaio_unlock(&ctx->group.lock, UAIO_RANK_GROUP);
	return leads;
}

/* Return: whether the epoll tells from here on what gets ready. */
static bool prepare(struct uaio_group *group)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		if (uaio_ready_run(group, UAIO_RUN_BY_LEADER))
			continue;
		/* What the epoll does not take is the standby thread's. */
		if (!uaio_ready_arm(group))
			return false;
		if (!uaio_ready_has_kicked(&group->ready))
			return true;
	}
	return false;
}

/* Return: false if it does not lead, and holds no pin. */
static bool begin(struct uaio_attend *attend)
{
	struct uaio_group *group = &attend->ctx->group;
	struct uaio_poller *poller = &group->ready.poller;
	bool is_ready;

	if (!lead(attend->ctx, attend->waiter))
		return false;
	attend->life = uaio_poller_life(poller);
	is_ready = prepare(group);
	if (is_ready)
		uaio_ready_count_sleep();
	uaio_ready_unpin(&group->ready);
	/* A context that ends from here on wakes who is counted as waiting. */
	if (is_ready)
		attend->fd = uaio_poller_enter(poller, attend->life,
					       &attend->serial);
	if (is_ready && attend->fd >= 0)
		return true;
	uaio_lead_stop(attend->ctx, attend->waiter);
	return false;
}

bool uaio_attend_begin(struct uaio_attend *ret)
{
	struct uaio_ctx *ctx;
	bool has_begun;

	/* In a child of fork() the id is of the parent's, until it has its own. */
	if (!uaio_engine_is_here() || !uaio_enter())
		return false;
	uaio_lead_forget();
	ctx = uaio_ctx_of_id(uaio_attended - 1);
	/* relaxed: what others park is theirs to see to, or we are told */
	has_begun = ctx && load_relaxed(&ctx->group.ready.nr_parked) &&
		    !load_relaxed(&ctx->group.ready.is_led) &&
		    uaio_lost_watch() && (ret->waiter = uaio_waiter_new(ctx));
	if (has_begun) {
		ret->ctx = ctx;
		has_begun = begin(ret);
		if (!has_begun)
			uaio_waiter_put(ret->waiter);
	}
	uaio_leave();
	return has_begun;
}

/* With a pin. */
static void run(const struct uaio_attend *attend)
{
	enum { NR = 64 };
	struct uaio_group *group = &attend->ctx->group;
	struct epoll_event events[NR];
	int nr = uaio_poller_collect(&group->ready.poller, attend->life, events,
				     NR);

	if (nr > 0)
		uaio_ready_kick_events(group, events, nr);
	(void)uaio_ready_run(group, UAIO_RUN_BY_LEADER);
}

void uaio_attend_end(const struct uaio_attend *attend, bool is_ready)
{
	struct uaio_ctx *ctx = attend->ctx;

	/* A handler may have forked: its child has no engine. */
	if (!uaio_engine_is_here() || !uaio_enter())
		return;
	uaio_poller_leave(attend->serial);
	if (uaio_lead_pin_again(ctx, attend->waiter)) {
		if (is_ready)
			run(attend);
		uaio_ready_unpin(&ctx->group.ready);
		uaio_lead_stop(ctx, attend->waiter);
	}
	uaio_waiter_put(attend->waiter);
	uaio_leave();
}
