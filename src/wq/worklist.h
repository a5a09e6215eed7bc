/* SPDX-License-Identifier: MIT */
/*
 * Private list: the works one fixed worker runs before any others
 *
 * A ring of slots. Who puts works in holds the account's lock; who takes them
 * out, the owner or a thief, holds none. What is in a slot stays within reach
 * of all until it is taken, so a worker that runs the whole list as one batch
 * never hides what it has not started.
 *
 *   I1  A slot is emptied by an exchange or a compare-and-swap, and whoever
 *       gets the work by it, and nobody else, has it.
 *   I2  head <= tail <= head + limit. All slots outside of [head, tail) are
 *       empty: head passes a slot only after an exchange has left it empty,
 *       and tail passes it after the work was put there.
 *   I3  A taker that was delayed and exchanges a slot of a later turn of the
 *       ring takes a later work than it meant to; that is a take like any.
 *
 * Order: oldest first, as a habit. What must be in order is never in the queue
 * at the same time (wq.h).
 */
#ifndef UAIO_WQ_WORKLIST_H
#define UAIO_WQ_WORKLIST_H

#include <stdalign.h>
#include <stddef.h>
#include <string.h>

#include "base/atomic.h"

struct uaio_work;

enum { UAIO_WORKLIST_SLOTS = 1024 }; /* a power of two */

struct uaio_worklist {
	/* atomic: written by takers */
	alignas(64) uint64_t head;

	/* atomic: written under the account's lock */
	alignas(64) uint64_t tail;

	/* under the account's lock */
	uint64_t seen_head; /* the oldest work that was there when looked at, */
	int64_t seen_ns;    /* and since when it has been */

	alignas(64) struct uaio_work *slots[UAIO_WORKLIST_SLOTS]; /* atomic */
};

static inline struct uaio_work **uaio_worklist_slot(struct uaio_worklist *list,
						    uint64_t index)
{
	return &list->slots[index % UAIO_WORKLIST_SLOTS];
}

/* Empty, whatever was in it; nobody may be at it. */
static inline void uaio_worklist_init(struct uaio_worklist *list)
{
	memset(list, 0, sizeof(*list));
}

/* Return: works at most in it; those that were cancelled count, until passed. */
static inline uint64_t uaio_worklist_count(const struct uaio_worklist *list)
{
	/* relaxed: exact for who holds the lock while nobody takes */
	uint64_t head = load_relaxed(&list->head);

	return load_relaxed(&list->tail) - head;
}

/*
 * Under the account's lock; there is room. *ret_slot is where the work can be
 * found, told first: once it is there it may be gone at any time.
 */
static inline void uaio_worklist_put(struct uaio_worklist *list,
				     struct uaio_work *work,
				     struct uaio_work ***ret_slot)
{
	uint64_t tail = load_relaxed(&list->tail);
	struct uaio_work **slot = uaio_worklist_slot(list, tail);

	/*
	 * [MB:worklist] release, both: the work, which a delayed taker may find
	 * before tail says so (I3). Pairs with uaio_worklist_take().
	 * [step: ADD_PUT]
	 */
	*ret_slot = slot;
	store_release(slot, work);
	store_release(&list->tail, tail + 1);
}

/* Return: the oldest work, the caller's; NULL if there is none. */
static inline struct uaio_work *uaio_worklist_take(struct uaio_worklist *list)
{
	for (;;) {
		/*
		 * [MB:worklist] acquire: what is outside of [head, tail) is
		 * empty for us, too. Pairs with the release below.
		 */
		uint64_t head = load_acquire(&list->head);
		struct uaio_work *work;

		/* [MB:worklist] acquire: pairs with uaio_worklist_put(). */
		if (head == load_acquire(&list->tail))
			return NULL;
		/* [step: TAKE_EXCHANGE] */
		work = xchg_acqrel(uaio_worklist_slot(list, head), NULL);
		/*
		 * [step: TAKE_PASS] Failure: somebody else has passed it.
		 * [MB:worklist] release: the slot is empty. Pairs with
		 * uaio_worklist_has_room() and the acquire above.
		 */
		(void)cas_release(&list->head, &head, head + 1);
		if (work)
			return work;
	}
}

/* Under the account's lock. Return: whether one more may be put. */
static inline bool uaio_worklist_has_room(const struct uaio_worklist *list,
					  uint64_t limit)
{
	/*
	 * [MB:worklist] acquire: the slots that head has passed are empty.
	 * Pairs with uaio_worklist_take().
	 */
	return load_relaxed(&list->tail) - load_acquire(&list->head) < limit;
}

/* Return: true if work was still in slot, and is the caller's now. */
static inline bool uaio_worklist_remove(struct uaio_work **slot,
					struct uaio_work *work)
{
	/* [step: CANCEL_SLOT] relaxed: nothing but whose it is */
	return cas_relaxed(slot, &work, NULL);
}

#endif /* UAIO_WQ_WORKLIST_H */
