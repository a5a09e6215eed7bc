/* SPDX-License-Identifier: MIT */
/*
 * Work items of the tests' own, to test the work queue without requests or
 * files
 *
 * The engine is brought up and its queue taken over, so the threads are real.
 * An item counts how often it has ended, which has to be once, and may be held
 * at a gate while it runs. Short items are completed by their worker's flush,
 * together with others of the batch.
 */
#ifndef ITEMS_H
#define ITEMS_H

#include "base/atomic.h"
#include "wq/wq.h"
#include "unit.h"

struct item_gate {
	uint32_t nr_held; /* atomic: items that have come to it */
	uint32_t is_open; /* atomic, a futex */
};

struct item {
	struct uaio_work work;
	enum uaio_account account;
	struct item_gate *gate; /* where it is held while it runs, or NULL */
	/* What run() calls first, or NULL. */
	void (*act)(struct item *item, struct uaio_worker *worker);
	/* What flush() calls first, or NULL; of a short item. */
	void (*end)(struct item *item, struct uaio_worker *worker);

	/* atomic */
	uint32_t nr_begun;     /* a worker has begun to run it */
	uint32_t nr_run;       /* it was run to the end, by any thread */
	uint32_t nr_refused;   /* it was refused, and not run */
	uint32_t nr_cancelled; /* it was cancelled, and not run */
};

/*
 * Bring the engine up, with a queue that runs items, and set the hook
 * items_stay(). ITEMS_WORKERS are allowed for bounded items: few enough to hold
 * all of them. Return: 0, or -1.
 */
enum { ITEMS_WORKERS = 32 };
int items_start(void);

/*
 * Queue n items with one handover; bounded ones that come back are made here.
 */
void items_queue(struct item *items, unsigned n);

/* Return: whether it was queued; then it belongs to the caller now. */
bool items_cancel(struct item *item);

/* Return once n items have been run, refused or cancelled. */
void items_await_end(struct item *items, unsigned n);
/* Return: whether each of them was run once and not refused. */
bool items_ran_once(const struct item *items, unsigned n);

void item_gate_await(struct item_gate *gate, unsigned nr);
void item_gate_open(struct item_gate *gate);

/* Set the fixed workers and the length of their lists; abort if refused. */
void items_set_fixed(enum uaio_account account, int nr, int max_items);
/*
 * Have nr fixed workers created in the bounded account, and no others; return
 * once they sleep.
 */
void items_start_fixed(unsigned nr, int max_items);
void items_set_placement(enum uaio_wq_placement placement);

struct uaio_wq_counters items_count(enum uaio_account account);

/*
 * Look at an account, under its lock; at any moment.
 * Return: what is not as wq.h promises (I2), or NULL. The promise that the
 * manager is told holds only if it can be created; and after uaio_wq_take(), if
 * it exists.
 */
const char *items_find_breach(enum uaio_account account, bool has_manager);

/*
 * For unit_await(): whether the manager has nothing to do for bounded items.
 */
bool items_manager_rests(void *unused);

/* Return once all workers sleep, nothing is queued, and the counts say so. */
void items_await_rest(void);

/*
 * For unit_hook(): idle threads do not end, however long they have nothing to
 * do. (Otherwise they might at any moment, on a machine that stands still.)
 */
bool items_stay(long nr, const long args[6], long *ret_res);
/* For unit_hook(): idle threads end as soon as they sleep. */
bool items_hurry(long nr, const long args[6], long *ret_res);
/* With that hook set: return once the manager has ended. */
void items_hurry_manager(void);

#endif /* ITEMS_H */
