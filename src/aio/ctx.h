/* SPDX-License-Identifier: MIT */
/*
 * Contexts
 *
 * A context is what io_setup creates: a queue (queue.h) whose completions
 * become events in a ring.
 *
 *   I1  A request owns a slot of the ring from its submission until its event
 *       is reaped. Its ticket stands for the slot: tickets taken, less tickets
 *       given back unused, less events reaped, never exceed capacity. So a
 *       completion always finds room in the ring.
 *   I2  Every ticket that is taken ends exactly once, counted in nr_done. A
 *       context is not freed before all its tickets have ended, so io_submit
 *       needs no reference but its tickets.
 *   I3  Contexts are never unmapped (slab.h). A thread that finds a context
 *       through the table first takes a ticket, a lock or a use, and then
 *       compares the handle; so it never works on another context than the one
 *       it was given.
 *   I4  handle changes only under reap_lock. Destroy sets it to 0 after it has
 *       claimed the context, and it stays 0 until a setup publishes the context
 *       again.
 *   I5  Nothing that the client can write (which is the whole ring) decides how
 *       long a context lives; only tickets, nr_done and nr_users do.
 *
 * Life cycle: setup publishes the context as its last step. Destroy claims it
 * under the table's lock (sets DEAD and empties the table's slot, so one thread
 * wins), returns its quota, clears the handle, closes the queue, waits for
 * nr_done and nr_users, and then frees it.
 *
 * Lock order: the table's lock, reap_lock, the queue's lock.
 */
#ifndef UAIO_AIO_CTX_H
#define UAIO_AIO_CTX_H

#include <errno.h>
#include <stdint.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/slab.h"
#include "req/queue.h"
#include "ready/waiter.h"
#include "issue/submit.h"
#include "aio/ring.h"

enum { UAIO_CACHE_LINE = 64 };

/* tickets: the lowest bit is DEAD, the bits above count the tickets taken */
#define UAIO_TICKETS_DEAD 1ull
#define UAIO_TICKET 2ull

struct uaio_ctx {
	struct uaio_slab_node node;

	/* immutable while published */
	uint32_t id;       /* slot in the table */
	uint32_t max_reqs; /* nr_events of io_setup: charged to the quota */
	uint32_t
		capacity; /* atomic: limit of requests in flight + unread events */

	/* atomic, written under reap_lock (I4) */
	uint64_t handle;

	struct uaio_ring ring; /* its own rules: ring.h */

	/*
	 * What the client's threads write: nearly always one thread submits and
	 * reaps, so both have one line.
	 */
	uint64_t tickets __attribute__((aligned(UAIO_CACHE_LINE)));
	struct uaio_lock reap_lock;
	uint32_t nr_users; /* calls that keep the context without a ticket */
	uint32_t drain;    /* atomic: destroy sleeps on it */
	struct uaio_vain vain; /* its own rules: vain.c */

	/* its generations begin under reap_lock too */
	struct uaio_queue queue __attribute__((aligned(UAIO_CACHE_LINE)));
	/* atomic, written under the queue's lock: tickets that have ended */
	uint64_t nr_done;
};

/*
 * Find a context by a handle, which may be any value.
 * Return: the context, which the caller must verify (I3), or NULL.
 */
struct uaio_ctx *uaio_ctx_find(uint64_t handle);

/* The lock of the table of contexts. */
void uaio_ctxs_lock(void);
void uaio_ctxs_unlock(void);

/* moved.c: rings that their client has moved elsewhere with mremap() */

struct uaio_moved;

void uaio_moved_init(void);

/* Return: the context whose ring was moved to handle, as uaio_ctx_find() does. */
struct uaio_ctx *uaio_moved_find(uint64_t handle);

/*
 * The table's lock is held. Return: the context whose ring was moved to handle, which is
 * found there no more; or NULL. *ret_moved: for uaio_moved_bring_home(), or NULL.
 */
struct uaio_ctx *uaio_moved_take_locked(uint64_t handle,
					struct uaio_moved **ret_moved);

/* Put a moved ring back. Where it was moved to stays mapped, but empty. */
void uaio_moved_bring_home(struct uaio_ctx *ctx, struct uaio_moved *moved);

/* ctx.c */

/*
 * Take up to nr tickets of ctx, and verify that handle is its handle.
 * Return: the number taken, 0 if the ring is full, or -EINVAL.
 */
static inline long uaio_ctx_take_tickets(struct uaio_ctx *ctx, uint64_t handle,
					 long nr);

/*
 * Find a context and keep it from being freed, for a call that takes no ticket
 * and does not sleep.
 * Return: the context, verified, or NULL.
 */
struct uaio_ctx *uaio_ctx_use(uint64_t handle);
void uaio_ctx_unuse(struct uaio_ctx *ctx);

/* One call of io_submit: a batch, and tickets for its requests. */
struct uaio_submission {
	struct uaio_ctx *ctx;
	uint32_t nr_tickets;
	struct uaio_batch batch;
};

/*
 * Begin a submission of up to nr requests.
 * Return: the number of requests that there is room for, 0 if there is none, or
 * -EINVAL. Only if it is positive must the submission be ended.
 */
long uaio_submission_begin(struct uaio_submission *submission, uint64_t handle,
			   long nr);

/*
 * End the batch, to which nr_accepted requests were added, and give back the
 * tickets that were not used. Until then the unused tickets keep the context;
 * the used ones keep it only until their events are posted.
 */
void uaio_submission_end(struct uaio_submission *submission,
			 uint32_t nr_accepted);

/* Give back nr tickets that were not used for a request. */
void uaio_ctx_return_tickets(struct uaio_ctx *ctx, unsigned nr);

/* Make destroy, if it waits for the context to drain, look again. */
void uaio_ctx_wake_destroyer(struct uaio_ctx *ctx);

/*
 * Return: how many more requests there is room for. tickets was read before.
 * The result may be too low; it is not too high if tickets is still the same
 * when the result is used. This is so because of the order of the reads:
 * nr_done comes first, so a request that completes after it counts as in
 * flight; head comes before tail, so an event that is reaped in between counts
 * as unread.
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
	 * belongs to, since each generation begins with a new number. Pairs
	 * with the release in publish() of ctx.c.
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
			 * A request that completed between the reads was
			 * counted twice, so look again if one did. [MB:tickets]
			 * acquire: as above.
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
		 * [MB:tickets] acquire: as above. Success also means that no
		 * ticket was taken since the room was computed, because the
		 * number only grows.
		 */
		if (likely(cas_acquire(&ctx->tickets, &tickets,
				       tickets + (uint64_t)take * UAIO_TICKET)))
			break;
	}

	/* relaxed: stable now, as the ticket keeps the context (I2) */
	if (unlikely(load_relaxed(&ctx->handle) != handle)) {
		uaio_ctx_return_tickets(ctx, (unsigned)take);
		return -EINVAL;
	}
	return take;
}

#endif /* UAIO_AIO_CTX_H */
