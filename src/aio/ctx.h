/* SPDX-License-Identifier: MIT */
/*
 * Contexts
 *
 * io_setup creates a context: a queue (queue.h) whose completions become events in a ring.
 *
 *   I1  From its submission until its event is reaped, a request owns one slot of the
 *       ring. io_submit takes one ticket for each such slot. The tickets taken, minus the
 *       tickets returned unused and the events reaped, never exceed capacity. So a
 *       completion always finds room in the ring.
 *   I2  Each ticket ends exactly once: it is returned, or its request completes. nr_done
 *       counts the tickets that have ended. A context is not freed before all its tickets
 *       have ended, so io_submit needs no other reference.
 *   I3  Contexts are never unmapped (slab.h). A thread that finds a context through the
 *       table first takes a ticket or a lock, or counts itself in nr_users, and only then
 *       compares the context's handle with the handle that it looked for. So it never
 *       uses a context with another handle.
 *   I4  `handle` changes only under reap_lock. io_destroy sets `handle` to 0 after it has
 *       claimed the context. `handle` stays 0 until an io_setup publishes the context
 *       again.
 *   I5  The client can write the whole ring, so nothing in the ring decides how long a
 *       context lives; only tickets, nr_done and nr_users do.
 *
 * Life cycle: io_setup publishes the context as its last step. io_destroy claims the
 * context under the table's lock: it sets DEAD and empties the table's slot, so only one
 * thread succeeds. That thread then gives back its quota, clears the handle, and closes
 * the queue. It waits until all tickets have ended (nr_done) and no call uses the context
 * (nr_users), and frees the context.
 *
 * The locks are taken in this order: the table's lock, reap_lock, the queue's lock.
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

/*
 * Values of the member `tickets`: the lowest bit is DEAD (the context is being
 * destroyed); the bits above count the tickets taken
 */
#define UAIO_TICKETS_DEAD 1ull
#define UAIO_TICKET 2ull

struct uaio_ctx {
	struct uaio_slab_node node;

	/* immutable while published */
	uint32_t id; /* index of the context's slot in the table */
	/* nr_events of io_setup, which counts against the quota (aio-max-nr) */
	uint32_t max_reqs;
	/* atomic: upper limit of requests in flight plus unread events */
	uint32_t capacity;

	/* atomic; written only under reap_lock (I4) */
	uint64_t handle;

	struct uaio_ring ring; /* see ring.h */

	/*
	 * Written by the client's threads. Usually one thread both submits and reaps,
	 * so these members share a cache line.
	 */
	uint64_t tickets __attribute__((aligned(UAIO_CACHE_LINE)));
	struct uaio_lock reap_lock;
	/*
	 * how many calls have no ticket, but still keep the context from being freed
	 */
	uint32_t nr_users;
	/* atomic: a futex, on which the destroying thread sleeps */
	uint32_t drain;
	/* polls of this context that found no event (vain.c) */
	struct uaio_vain vain;

	/*
	 * io_setup opens the queue under reap_lock and the queue's lock, so a thread with
	 * either lock may read the queue's generation
	 */
	struct uaio_queue queue __attribute__((aligned(UAIO_CACHE_LINE)));
	/* atomic: how many tickets have ended; written only under the queue's lock */
	uint64_t nr_done;
};

/*
 * Find a context by a handle, which may be any value.
 * Return: NULL, or a context whose handle the caller must compare (I3).
 */
struct uaio_ctx *uaio_ctx_find(uint64_t handle);

/* The lock of the table of contexts. */
void uaio_ctxs_lock(void);
void uaio_ctxs_unlock(void);

/* moved.c: rings that a client has moved by mremap() */

struct uaio_moved;

void uaio_moved_init(void);

/*
 * Return: the context whose ring a client has moved to the address `handle`, or NULL.
 * The caller must compare the context's handle (I3).
 */
struct uaio_ctx *uaio_moved_find(uint64_t handle);

/*
 * If the ring of a context was moved to the address `handle`, remove the ring from the
 * list of moved rings. The caller holds the table's lock.
 * Return: the context, or NULL. *ret_moved: the argument for uaio_moved_bring_home(),
 * or NULL.
 */
struct uaio_ctx *uaio_moved_take_locked(uint64_t handle,
					struct uaio_moved **ret_moved);

/*
 * Move the ring of ctx back to its original memory. The memory to which the client had
 * moved the ring stays mapped, but from now on contains zeros.
 */
void uaio_moved_bring_home(struct uaio_ctx *ctx, struct uaio_moved *moved);

/* ctx.c */

/*
 * Take up to nr tickets of ctx, and verify that ctx has this handle.
 * Return: the number of tickets taken, 0 if the ring is full; -EINVAL if ctx has
 * another handle, or is being destroyed.
 */
static inline long uaio_ctx_take_tickets(struct uaio_ctx *ctx, uint64_t handle,
					 long nr);

/*
 * Find a context, verify its handle, and keep the context from being freed until
 * uaio_ctx_unuse(). The caller takes no ticket, and does not sleep before
 * uaio_ctx_unuse(), for which io_destroy waits.
 * Return: the context, or NULL.
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
 * Return: the number of these requests for which the ring has room, or -EINVAL. The
 * caller calls uaio_submission_end() only if the result is positive.
 */
long uaio_submission_begin(struct uaio_submission *submission, uint64_t handle,
			   long nr);

/*
 * End the batch, to which nr_accepted requests were added, and return the unused tickets.
 * Until then the unused tickets keep the context from being freed. The ticket of an
 * accepted request ends when the request's event is posted.
 */
void uaio_submission_end(struct uaio_submission *submission,
			 uint32_t nr_accepted);

/* Return nr unused tickets. */
void uaio_ctx_return_tickets(struct uaio_ctx *ctx, unsigned nr);

/*
 * Wake the thread that is destroying the context. That thread then checks again whether
 * it may free the context.
 */
void uaio_ctx_wake_destroyer(struct uaio_ctx *ctx);

/*
 * Return: for how many more requests the ring has room. tickets: the value of
 * ctx->tickets, which the caller has read before. If other threads complete or reap
 * meanwhile, the result may be too low. The result is never too high while ctx->tickets
 * keeps this value, because of the order of the reads. nr_done is read first: a request
 * that completes afterwards counts as in flight. The ring's head is read before its tail:
 * an event that is reaped in between counts as unread.
 */
static inline long uaio_ctx_room(const struct uaio_ctx *ctx, uint64_t tickets)
{
	/*
	 * [MB:done] acquire: this thread sees the tail that was written before nr_done.
	 * Pairs with take_in() of ctx.c.
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
	 * [MB:tickets] acquire: this thread sees the members of the context as it was last
	 * published. Publishing gives `tickets` a new value. Pairs with the release in
	 * publish() of ctx.c.
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
			 * If a request completed between the reads of nr_done and of the
			 * ring's tail, uaio_ctx_room() counted it twice: in flight, and
			 * as an unread event. So try again if nr_done or `tickets` has
			 * changed.
			 * [MB:tickets] acquire: as for the first load of `tickets`.
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
		 * [MB:tickets] acquire: as for the first load. `tickets` only grows. So
		 * if the exchange succeeds, no other thread has taken a ticket since
		 * uaio_ctx_room() was called.
		 */
		if (likely(cas_acquire(&ctx->tickets, &tickets,
				       tickets + (uint64_t)take * UAIO_TICKET)))
			break;
	}

	/* relaxed: `handle` does not change now, as the ticket keeps the context (I2) */
	if (unlikely(load_relaxed(&ctx->handle) != handle)) {
		uaio_ctx_return_tickets(ctx, (unsigned)take);
		return -EINVAL;
	}
	return take;
}

#endif /* UAIO_AIO_CTX_H */
