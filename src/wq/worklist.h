/* SPDX-License-Identifier: MIT */
/*
 * Private list: the work items that one fixed worker runs before any others
 *
 * It is a ring of slots. A thread that puts items in holds the account's lock;
 * a thread that takes them out, the owner or a thief, holds none. An item stays
 * within reach of all threads until it is taken. So a worker that runs the
 * whole list as one batch does not hide the items that it has not started.
 *
 *   I1  A slot is emptied by an exchange or a compare-and-swap. The thread that
 *       gets the item by it owns the item, and no other thread does.
 *   I2  head <= tail <= head + limit. All slots outside of [head, tail) are
 *       empty: head passes a slot only after an exchange has left it empty,
 *       and tail passes it only after an item was put there.
 *   I3  A taker that was delayed may exchange a slot when it belongs to a later
 *       turn of the ring. Then it takes a later item than it meant to; that is
 *       as good as any other.
 *
 * Order: the oldest item is taken first, but nobody relies on that: items that
 * have to be in order are never in the queue at the same time (wq.h).
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
	uint64_t seen_head; /* the oldest item when the list was looked at, */
	int64_t seen_ns;    /* and since when it has been the oldest */

	alignas(64) struct uaio_work *slots[UAIO_WORKLIST_SLOTS]; /* atomic */
};

static inline struct uaio_work **uaio_worklist_slot(struct uaio_worklist *list,
						    uint64_t index)
{
	return &list->slots[index % UAIO_WORKLIST_SLOTS];
}

/* Make the list empty, whatever was in it; no other thread may use it. */
static inline void uaio_worklist_init(struct uaio_worklist *list)
{
	memset(list, 0, sizeof(*list));
}

/*
 * Return: how many items are in it at most: cancelled ones count, until passed.
 */
static inline uint64_t uaio_worklist_count(const struct uaio_worklist *list)
{
	/* relaxed: exact under the lock, as long as no thread takes an item */
	uint64_t head = load_relaxed(&list->head);

	return load_relaxed(&list->tail) - head;
}

/*
 * Put work in. Context: under the account's lock; there is room. *ret_slot is
 * where it can be found; that is set first, since the item may be taken as soon
 * as it is there.
 */
static inline void uaio_worklist_put(struct uaio_worklist *list,
				     struct uaio_work *work,
				     struct uaio_work ***ret_slot)
{
	uint64_t tail = load_relaxed(&list->tail);
	struct uaio_work **slot = uaio_worklist_slot(list, tail);

	/*
	 * [MB:worklist] release, both: the item's contents. A delayed taker may
	 * find the item before tail has passed it (I3). Pairs with
	 * uaio_worklist_take(). [step: ADD_PUT]
	 */
	*ret_slot = slot;
	store_release(slot, work);
	store_release(&list->tail, tail + 1);
}

/* Return: the oldest item, which now belongs to the caller; or NULL. */
static inline struct uaio_work *uaio_worklist_take(struct uaio_worklist *list)
{
	for (;;) {
		/*
		 * [MB:worklist] acquire: this thread, too, finds the slots
		 * outside of [head, tail) empty. Pairs with the release below.
		 */
		uint64_t head = load_acquire(&list->head);
		struct uaio_work *work;

		/* [MB:worklist] acquire: pairs with uaio_worklist_put(). */
		if (head == load_acquire(&list->tail))
			return NULL;
		/* [step: TAKE_EXCHANGE] */
		work = xchg_acqrel(uaio_worklist_slot(list, head), NULL);
		/*
		 * [step: TAKE_PASS] If it fails, another taker has passed it.
		 * [MB:worklist] release: the slot is empty. Pairs with
		 * uaio_worklist_has_room() and the acquire above.
		 */
		(void)cas_release(&list->head, &head, head + 1);
		if (work)
			return work;
	}
}

/* Return: whether there is room for one more. Context: the account's lock. */
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
 * Return: true if work was still in slot; then it has been taken out, and
 * belongs to the caller now.
 */
static inline bool uaio_worklist_remove(struct uaio_work **slot,
					struct uaio_work *work)
{
	/* [step: CANCEL_SLOT] relaxed: it only tells whose work is */
	return cas_relaxed(slot, &work, NULL);
}

#endif /* UAIO_WQ_WORKLIST_H */
