/* SPDX-License-Identifier: MIT */
/*
 * Contexts
 *
 * io_setup creates a context: a queue (queue.h) whose completions become events in a ring.
 *
 *   I1  A request owns a slot of the ring from its submission until its event is reaped. A
 *       ticket represents that slot: the number of tickets taken, less those returned unused,
 *       less events reaped, never exceeds capacity. So a completion always finds room in the
 *       ring.
 *   I2  Each ticket ends exactly once: it is returned, or its request completes. nr_done
 *       counts the tickets that have ended. A context is not freed before all its tickets have
 *       ended, so io_submit needs no other reference.
 *   I3  Contexts are never unmapped (slab.h). A thread that finds a context through the table
 *       first takes a ticket or a lock, or counts itself in nr_users, and only then compares
 *       the handle. So it never uses a context with another handle.
 *   I4  handle changes only under reap_lock. Destroy sets it to 0 after it has claimed the
 *       context. handle stays 0 until a setup publishes the context again.
 *   I5  The client can write the whole ring, so nothing in it decides how long a context
 *       lives; only tickets, nr_done and nr_users do.
 *
 * Life cycle: setup publishes the context as its last step. Destroy claims the context under
 * the table's lock: it sets DEAD and empties the table's slot, so only one thread succeeds.
 * Destroy then returns the quota, clears the handle, closes the queue, waits for nr_done and
 * nr_users, and frees the context.
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
	uint32_t id; /* slot in the table */
	/* nr_events of io_setup, which counts against the quota (aio-max-nr) */
	uint32_t max_reqs;
	/* atomic: the most requests in flight plus unread events */
	uint32_t capacity;

	/* atomic, written under reap_lock (I4) */
	uint64_t handle;

	struct uaio_ring ring; /* see ring.h */

	/*
	 * Written by the client's threads. Usually one thread both submits and reaps, so these
	 * members share a cache line.
	 */
	uint64_t tickets __attribute__((aligned(UAIO_CACHE_LINE)));
	struct uaio_lock reap_lock;
	/* number of calls that keep the context without a ticket */
	uint32_t nr_users;
	/* atomic: futex on which the destroying thread sleeps */
	uint32_t drain;
	struct uaio_vain vain; /* see vain.c */

	/* its generations begin under reap_lock and the queue's lock */
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

/* moved.c: rings that a client has moved by mremap() */

struct uaio_moved;

void uaio_moved_init(void);

/* Return: the context whose ring was moved to handle, as uaio_ctx_find() does. */
struct uaio_ctx *uaio_moved_find(uint64_t handle);

/*
 * Remove the context whose ring was moved to handle from the list of moved rings. The table's
 * lock is held.
 * Return: the context, or NULL. *ret_moved: the argument for uaio_moved_bring_home(), or NULL.
 */
struct uaio_ctx *uaio_moved_take_locked(uint64_t handle,
					struct uaio_moved **ret_moved);

/*
 * Move the ring of ctx back to its original memory. The memory to which the client had moved
 * it stays mapped, but empty.
 */
void uaio_moved_bring_home(struct uaio_ctx *ctx, struct uaio_moved *moved);

/* ctx.c */

/*
 * Take up to nr tickets of ctx, and verify that handle is its handle.
 * Return: the number taken, 0 if the ring is full, or -EINVAL.
 */
static inline long uaio_ctx_take_tickets(struct uaio_ctx *ctx, uint64_t handle,
					 long nr);

/*
 * Find a context and keep it from being freed, for a function that takes no ticket and does
 * not sleep.
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
 * Return: for how many requests the ring has room, or -EINVAL. The caller calls
 * uaio_submission_end() only if the result is positive.
 */
long uaio_submission_begin(struct uaio_submission *submission, uint64_t handle,
			   long nr);

/*
 * End the batch, to which nr_accepted requests were added, and return the unused tickets.
 * Until then the unused tickets keep the context; each used ticket keeps it only until its
 * event is posted.
 */
void uaio_submission_end(struct uaio_submission *submission,
			 uint32_t nr_accepted);

/* Return nr unused tickets. */
void uaio_ctx_return_tickets(struct uaio_ctx *ctx, unsigned nr);

/*
 * Wake the thread that destroys the context and waits until no ticket is left; that thread
 * checks again.
 */
void uaio_ctx_wake_destroyer(struct uaio_ctx *ctx);

/*
 * Return: for how many more requests the ring has room. tickets: the value of ctx->tickets,
 * which the caller has read before. The result may be too low; it is not too high if tickets
 * is unchanged when the result is used, because of the order of the reads. nr_done is read
 * first, so a request that completes afterwards counts as in flight. head is read before tail,
 * so an event that is reaped in between counts as unread.
 */
static inline long uaio_ctx_room(const struct uaio_ctx *ctx, uint64_t tickets)
{
	/* [MB:done] acquire: see the tail written before. Pairs with take_in() of ctx.c. */
	uint64_t done = load_acquire(&ctx->nr_done);
	uint64_t in_flight = tickets / UAIO_TICKET - done;

	return (long)load_relaxed(&ctx->capacity) - (long)in_flight -
	       (long)uaio_ring_unread(&ctx->ring);
}

static inline long uaio_ctx_take_tickets(struct uaio_ctx *ctx, uint64_t handle,
					 long nr)
{
	/*
	 * [MB:tickets] acquire: see the members of the context's present generation; each
	 * generation begins with a new value of tickets. Pairs with the release in publish()
	 * of ctx.c.
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
			 * A request that completed between the reads was counted twice, so
			 * retry if one did.
			 * [MB:tickets] acquire: as at the first load of tickets.
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
		 * [MB:tickets] acquire: as at the first load of tickets. If the exchange
		 * succeeds, no ticket was taken since the room was computed, because tickets
		 * only grows.
		 */
		if (likely(cas_acquire(&ctx->tickets, &tickets,
				       tickets + (uint64_t)take * UAIO_TICKET)))
			break;
	}

	/* relaxed: stable, as the ticket keeps the context (I2) */
	if (unlikely(load_relaxed(&ctx->handle) != handle)) {
		uaio_ctx_return_tickets(ctx, (unsigned)take);
		return -EINVAL;
	}
	return take;
}

#endif /* UAIO_AIO_CTX_H */
