/* SPDX-License-Identifier: MIT */
/*
 * Work items of the tests' own, which test the work queue without requests or
 * files
 *
 * items_start() starts the engine and takes over its queue, so the threads are real. An
 * item counts how often it has ended, which must be once. A gate may hold it while it runs.
 * A worker completes short items together, in its flush() of a batch.
 */
#ifndef ITEMS_H
#define ITEMS_H

#include "base/atomic.h"
#include "wq/wq.h"
#include "unit.h"

struct item_gate {
	uint32_t nr_held; /* atomic: items that have arrived at the gate */
	uint32_t is_open; /* atomic, a futex */
};

struct item {
	struct uaio_work work;
	enum uaio_account account;
	/* the gate (a point at which tests hold it) while it runs, or NULL */
	struct item_gate *gate;
	/* A function that run() calls first, or NULL. */
	void (*act)(struct item *item, struct uaio_worker *worker);
	/* A function that flush() calls first for a short item, or NULL. */
	void (*end)(struct item *item, struct uaio_worker *worker);

	/* atomic */
	uint32_t nr_begun;     /* a worker has begun to run it */
	uint32_t nr_run;       /* a thread has run it to its end */
	uint32_t nr_refused;   /* it was refused, and not run */
	uint32_t nr_cancelled; /* it was cancelled, and not run */
};

/*
 * Starts the engine with a queue that runs items, and sets the hook
 * items_stay(). At most ITEMS_WORKERS workers run bounded items, so that a gate
 * can hold all workers. Return: 0, or -1.
 */
enum { ITEMS_WORKERS = 32 };
int items_start(void);

/*
 * Queues n items with one call. Items of the bounded account that are given back are run
 * here.
 */
void items_queue(struct item *items, unsigned n);

/* Return: whether the item was queued. Then the caller owns it now. */
bool items_cancel(struct item *item);

/* Returns once n items have been run, refused or cancelled. */
void items_await_end(struct item *items, unsigned n);
/* Return: whether each item was run once and not refused. */
bool items_ran_once(const struct item *items, unsigned n);

void item_gate_await(struct item_gate *gate, unsigned nr);
void item_gate_open(struct item_gate *gate);

/* Sets the number of fixed (permanent) workers and the length of their lists, or aborts. */
void items_set_fixed(enum uaio_account account, int nr, int max_items);
/* Starts only nr fixed (permanent) bounded workers. Returns once they sleep. */
void items_start_fixed(unsigned nr, int max_items);
void items_set_placement(enum uaio_wq_placement placement);

struct uaio_wq_counters items_count(enum uaio_account account);

/*
 * Checks an account under its lock, at any moment. Return: how the account
 * breaks invariant I2 of wq.h, or NULL. Set has_manager only if the manager can
 * be created and, after uaio_wq_take(), exists: only then must the queue have
 * told it of missing workers.
 */
const char *items_find_breach(enum uaio_account account, bool has_manager);

/* For unit_await(): whether the manager has no bounded items to handle. */
bool items_manager_rests(void *unused);

/*
 * Returns once all workers sleep and nothing is queued, and the account's counts show that.
 */
void items_await_rest(void);

/*
 * For unit_hook(): idle threads never end. Otherwise they might, on a machine that is
 * stalled.
 */
bool items_stay(long nr, const long args[6], long *ret_res);
/* For unit_hook(): idle threads end as soon as they sleep. */
bool items_hurry(long nr, const long args[6], long *ret_res);
/* Returns once the manager has ended. The hook items_hurry() must be set. */
void items_hurry_manager(void);

#endif /* ITEMS_H */
