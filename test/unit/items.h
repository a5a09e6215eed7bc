/* SPDX-License-Identifier: MIT */
/*
 * Work items without requests or files, by which tests test the work queue
 *
 * items_start() starts the engine and lets the engine's queue run these items, so the
 * library's own threads run them. An item counts how often it has ended, which must be
 * once. If the item has a gate, a thread that runs the item waits there until the test
 * opens the gate. If items are short (a few microseconds, wq.h), a worker completes
 * several of them together, in flush().
 */
#ifndef ITEMS_H
#define ITEMS_H

#include "base/atomic.h"
#include "wq/wq.h"
#include "unit.h"

struct item_gate {
	uint32_t nr_held; /* atomic: how many items have reached the gate */
	uint32_t is_open; /* atomic, a futex */
};

struct item {
	struct uaio_work work;
	enum uaio_account account;
	/* a thread that runs the item waits here until the gate opens; or NULL */
	struct item_gate *gate;
	/* run() calls this function first; or NULL */
	void (*act)(struct item *item, struct uaio_worker *worker);
	/* flush() calls this function first, if the item is short; or NULL */
	void (*end)(struct item *item, struct uaio_worker *worker);

	/* atomic: */
	/* how often a worker has begun to run the item */
	uint32_t nr_begun;
	/* how often a thread has run the item to its end */
	uint32_t nr_run;
	/* how often the item was refused, and not run */
	uint32_t nr_refused;
	/* how often the item was cancelled, and not run */
	uint32_t nr_cancelled;
};

/*
 * Start the engine with a queue that runs items, and install the hook items_stay(). At
 * most ITEMS_WORKERS workers run bounded items (UAIO_BOUNDED, wq.h), so that a gate can
 * hold all these workers.
 * Return: 0, or -1.
 */
enum { ITEMS_WORKERS = 32 };
int items_start(void);

/*
 * Queue n items by one call. If the queue refuses bounded items (UAIO_BOUNDED), this
 * thread runs them.
 */
void items_queue(struct item *items, unsigned n);

/* Return: whether the item was still queued. If so, the caller owns it now. */
bool items_cancel(struct item *item);

/* Return once each of the n items has been run, refused or cancelled. */
void items_await_end(struct item *items, unsigned n);
/* Return: whether each item was run exactly once, and never refused. */
bool items_ran_once(const struct item *items, unsigned n);

void item_gate_await(struct item_gate *gate, unsigned nr);
void item_gate_open(struct item_gate *gate);

/*
 * Set how many permanent (fixed) workers there are, and how many items each may have in
 * its list. Abort on failure.
 */
void items_set_fixed(enum uaio_account account, int nr, int max_items);
/*
 * Start nr permanent (fixed) workers for UAIO_BOUNDED, and no others. Return once they
 * sleep.
 */
void items_start_fixed(unsigned nr, int max_items);
void items_set_placement(enum uaio_wq_placement placement);

struct uaio_wq_counters items_count(enum uaio_account account);

/*
 * Check an account of the work queue (the workers and items of one kind), under the
 * account's lock. A test may call this function at any moment. has_manager: the creation
 * of the manager thread has not failed, so the queue must have notified the manager of
 * missing workers.
 * Return: how the account violates invariant I2 of wq.h; NULL if it does not.
 */
const char *items_find_breach(enum uaio_account account, bool has_manager);

/*
 * For unit_await().
 * Return: whether the manager has nothing to do for UAIO_BOUNDED.
 */
bool items_manager_rests(void *unused);

/*
 * Return once all workers sleep, nothing is queued, and the counts of the accounts show
 * that.
 */
void items_await_rest(void);

/*
 * For unit_hook(): keep idle threads from ending, which they might do if the machine
 * stalls.
 */
bool items_stay(long nr, const long args[6], long *ret_res);
/* For unit_hook(): let idle threads end as soon as they sleep. */
bool items_hurry(long nr, const long args[6], long *ret_res);
/* Return once the manager has ended. The hook items_hurry() must be set. */
void items_hurry_manager(void);

#endif /* ITEMS_H */
