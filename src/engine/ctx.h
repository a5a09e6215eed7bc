/* SPDX-License-Identifier: MIT */
/*
 * Contexts
 *
 * What io_setup makes: a queue (queue.h), whose completions become events in a
 * ring.
 *
 *   I1  A slot of the ring is owned from submit to reap: tickets taken, less
 *       those that came to nothing, less events reaped, never exceed capacity.
 *       So completing never finds the ring full.
 *   I2  Every ticket taken ends once, in nr_done. A context whose tickets are
 *       not all done is not freed; taking one is therefore also the reference
 *       that io_submit holds.
 *   I3  Contexts are never unmapped (slab.h). Whoever found one through the
 *       table takes a ticket, a lock or a use first, and compares the handle
 *       after; so it never works on another context than it was asked to.
 *   I4  handle is changed only under reap_lock; it is 0 from the moment
 *       destroy has claimed the context until the next setup publishes it.
 *   I5  Nothing the client can write (the whole ring) decides how long a
 *       context lives: only tickets, nr_done and nr_users do.
 *
 * Life: setup publishes last of all. Destroy claims (sets DEAD, empties the
 * slot, under the table's lock: one winner), returns the quota, clears the
 * handle, closes the queue, waits for nr_done and nr_users, and only then frees.
 *
 * Lock order: table, reap_lock, the queue's.
 */
#ifndef UAIO_ENGINE_CTX_H
#define UAIO_ENGINE_CTX_H

#include <errno.h>
#include <stdint.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/slab.h"
#include "engine/queue.h"
#include "engine/ring.h"
#include "engine/vain.h"

enum { UAIO_CACHE_LINE = 64 };

/* tickets: the low bit is DEAD, the number taken is above it */
#define UAIO_TICKETS_DEAD 1ull
#define UAIO_TICKET 2ull

struct uaio_ctx {
	struct uaio_slab_node node;

	/* immutable while published */
	uint32_t id;       /* slot of the table */
	uint32_t max_reqs; /* what the client asked for: charged to the quota */
	uint32_t
		capacity; /* atomic: requests in flight and events unread at most */

	/* atomic, written under reap_lock (I4) */
	uint64_t handle;

	struct uaio_ring ring; /* see there */

	/* submitters */
	uint64_t tickets __attribute__((aligned(UAIO_CACHE_LINE)));

	/* its generations begin under reap_lock, too */
	struct uaio_queue queue __attribute__((aligned(UAIO_CACHE_LINE)));
	/* atomic, written under the queue's lock: tickets that have ended */
	uint64_t nr_done;

	/* reapers */
	struct uaio_lock reap_lock __attribute__((aligned(UAIO_CACHE_LINE)));
	uint32_t nr_users; /* calls inside that hold no ticket; none sleeps */
	uint32_t drain;    /* atomic: destroy sleeps on it */
	struct uaio_vain vain; /* see there */
};

/* Find by handle, unverified (I3), or NULL: any value may be passed. */
struct uaio_ctx *uaio_ctx_find(uint64_t handle);

/*
 * Take up to nr tickets of the context that handle names.
 * Return: how many, 0 if it is full, or -EINVAL.
 */
static inline long uaio_ctx_take_tickets(struct uaio_ctx *ctx, uint64_t handle,
					 long nr);

/*
 * Keep the context that handle names from being freed, for a call that takes
 * no ticket. Return: it, verified, or NULL.
 */
struct uaio_ctx *uaio_ctx_use(uint64_t handle);
void uaio_ctx_unuse(struct uaio_ctx *ctx);

/* nr tickets came to nothing. */
void uaio_ctx_return_tickets(struct uaio_ctx *ctx, unsigned nr);

/* Whoever waits for the context to drain is to look again. */
void uaio_ctx_wake_destroyer(struct uaio_ctx *ctx);

/*
 * Room for how many more requests, from a snapshot taken after tickets was
 * read. Too low a count is possible, too high a one is not, as long as tickets
 * has not changed when the result is used:
 * nr_done is read first, so what it misses counts as in flight; head is read
 * before tail, so what is reaped between counts as unread.
 */
static inline long uaio_ctx_room(const struct uaio_ctx *ctx, uint64_t tickets)
{
	/*
	 * [MB:done] acquire: the tail that goes with it. Pairs with take_in()
	 * of ctx.c.
	 */
	uint64_t done = load_acquire(&ctx->nr_done);
	uint64_t in_flight = tickets / UAIO_TICKET - done;

	return (long)load_relaxed(&ctx->capacity) - (long)in_flight -
	       (long)uaio_ring_unread(&ctx->ring);
}

static inline long uaio_ctx_take_tickets(struct uaio_ctx *ctx, uint64_t handle,
					 long nr)
{
	/*
	 * [MB:tickets] acquire: the members of the generation that the number
	 * belongs to: each begins with a number of its own. Pairs with
	 * the release in publish() of ctx.c.
	 */
	uint64_t tickets = load_acquire(&ctx->tickets);
	long take;

	for (;;) {
		uint64_t done = load_relaxed(&ctx->nr_done), seen = tickets;
		long room;

		if (tickets & UAIO_TICKETS_DEAD)
			return -EINVAL;
		room = uaio_ctx_room(ctx, tickets);
		if (unlikely(room <= 0)) {
			/*
			 * What completed between the looks was counted twice.
			 * [MB:tickets] acquire: as above.
			 */
			tickets = load_acquire(&ctx->tickets);
			if (tickets != seen ||
			    load_relaxed(&ctx->nr_done) != done)
				continue;
			return load_relaxed(&ctx->handle) == handle ? 0
								    : -EINVAL;
		}
		take = nr < room ? nr : room;
		/*
		 * [MB:tickets] acquire: as above. Success also says that no
		 * ticket was taken since the count was made: the number only
		 * grows.
		 */
		if (likely(cas_acquire(&ctx->tickets, &tickets,
				       tickets + (uint64_t)take * UAIO_TICKET)))
			break;
	}

	/* relaxed: stable now, the ticket keeps the context (I2) */
	if (unlikely(load_relaxed(&ctx->handle) != handle)) {
		uaio_ctx_return_tickets(ctx, (unsigned)take);
		return -EINVAL;
	}
	return take;
}

#endif /* UAIO_ENGINE_CTX_H */
