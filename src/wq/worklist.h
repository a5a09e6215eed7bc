/* SPDX-License-Identifier: MIT */
/*
 * Private list: work items that one fixed worker (wq.h) runs before any others
 *
 * The list is a ring of slots. A thread that puts items in holds the account's lock. A
 * thread that takes items out (the owner, or another worker that steals) holds no lock.
 * An item stays in the list until a thread takes it to run it. So other threads can
 * take the items that a busy owner has not started.
 *
 *   I1  A thread empties a slot by an exchange or a compare-and-swap. The thread that
 *       succeeds is the item's only owner.
 *   I2  head <= tail <= head + limit. All slots outside of [head, tail) are empty: head
 *       passes a slot only after an exchange has left the slot empty. tail passes a slot
 *       only after an item was put there.
 *   I3  A thread may be delayed between reading head and the exchange. Meanwhile other
 *       threads may empty the slot at this head, and fill it again. The delayed thread
 *       then gets a younger item, which does no harm.
 *
 * Threads take the oldest item first, but no caller relies on this order. Items that
 * must run in order are never in the queue at the same time (wq.h).
 */
#ifndef UAIO_WQ_WORKLIST_H
#define UAIO_WQ_WORKLIST_H

#include <stdalign.h>
#include <stddef.h>
#include <string.h>

#include "base/atomic.h"

struct uaio_work;

/* The number of slots is a power of two. */
enum { UAIO_WORKLIST_SLOTS = 1024 };

struct uaio_worklist {
	/* atomic: moved by threads that take items */
	alignas(64) uint64_t head;

	/* atomic: written under the account's lock */
	alignas(64) uint64_t tail;

	/*
	 * seen_head and seen_ns, under the account's lock: by these, is_stale_locked()
	 * (wq.c) finds out whether the owner runs
	 */
	/* value of `head` when the list was last inspected */
	uint64_t seen_head;
	/* since when `head` has had the value seen_head */
	int64_t seen_ns;

	alignas(64) struct uaio_work *slots[UAIO_WORKLIST_SLOTS]; /* atomic */
};

static inline struct uaio_work **uaio_worklist_slot(struct uaio_worklist *list,
						    uint64_t index)
{
	return &list->slots[index % UAIO_WORKLIST_SLOTS];
}

/* Empty the list, whatever its memory held. Context: no other thread uses the list. */
static inline void uaio_worklist_init(struct uaio_worklist *list)
{
	memset(list, 0, sizeof(*list));
}

/*
 * Return: at least the number of items in the list. A cancelled item counts until
 * `head` has passed its slot.
 */
static inline uint64_t uaio_worklist_count(const struct uaio_worklist *list)
{
	/*
	 * relaxed: if the account's lock is held, no item is added. Then the count is
	 * exact, unless a thread takes an item meanwhile
	 */
	uint64_t head = load_relaxed(&list->head);

	return load_relaxed(&list->tail) - head;
}

/*
 * Put the item `work` in the list. The caller knows that the list has room. *ret_slot
 * is set before the item is in the slot, since another thread may take the item at
 * once. Context: the account's lock is held.
 */
static inline void uaio_worklist_put(struct uaio_worklist *list,
				     struct uaio_work *work,
				     struct uaio_work ***ret_slot)
{
	uint64_t tail = load_relaxed(&list->tail);
	struct uaio_work **slot = uaio_worklist_slot(list, tail);

	/*
	 * [MB:worklist] release, both stores: publish the item's contents. A thread
	 * that was delayed between reading head and the exchange may take this item
	 * before tail has passed its slot (I3). Pairs with uaio_worklist_take().
	 * [step: ADD_PUT]
	 */
	*ret_slot = slot;
	store_release(slot, work);
	store_release(&list->tail, tail + 1);
}

/* Return: the oldest item, now owned by the caller; or NULL. */
static inline struct uaio_work *uaio_worklist_take(struct uaio_worklist *list)
{
	for (;;) {
		/*
		 * [MB:worklist] acquire: this thread also sees that all slots which
		 * head has passed are empty. Pairs with the compare-and-swap below.
		 */
		uint64_t head = load_acquire(&list->head);
		struct uaio_work *work;

		/*
		 * [MB:worklist] acquire: this thread sees the items in the slots before
		 * tail. Pairs with uaio_worklist_put().
		 */
		if (head == load_acquire(&list->tail))
			return NULL;
		/* [step: TAKE_EXCHANGE] */
		work = xchg_acqrel(uaio_worklist_slot(list, head), NULL);
		/*
		 * [step: TAKE_PASS] If the swap fails, another thread has advanced head.
		 * [MB:worklist] release: the slot is empty. Pairs with
		 * uaio_worklist_has_room() and with the acquire of head above.
		 */
		(void)cas_release(&list->head, &head, head + 1);
		if (work)
			return work;
	}
}

/*
 * Return: whether the list has fewer than `limit` items.
 * Context: the account's lock is held.
 */
static inline bool uaio_worklist_has_room(const struct uaio_worklist *list,
					  uint64_t limit)
{
	/*
	 * [MB:worklist] acquire: the slots that head has passed are empty.
	 * Pairs with uaio_worklist_take().
	 */
	return load_relaxed(&list->tail) - load_acquire(&list->head) < limit;
}

/*
 * Remove the item `work` from the slot.
 * Return: whether it was still there; if so, the caller owns the item.
 */
static inline bool uaio_worklist_remove(struct uaio_work **slot,
					struct uaio_work *work)
{
	/*
	 * [step: CANCEL_SLOT] relaxed: the swap only decides which thread owns the item
	 */
	return cas_relaxed(slot, &work, NULL);
}

#endif /* UAIO_WQ_WORKLIST_H */
