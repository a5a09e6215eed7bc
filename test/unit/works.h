/* SPDX-License-Identifier: MIT */
/*
 * Works of the tests' own, for the queue itself: no requests, no files
 *
 * The engine is brought up and its queue taken over, so threads are the real
 * ones. A work counts how often it has ended, which has to be once, and may be
 * held at a gate while it runs. A short work is completed by its worker's
 * flush, with others of its batch, as the queue allows.
 */
#ifndef WORKS_H
#define WORKS_H

#include "base/atomic.h"
#include "wq/wq.h"
#include "unit.h"

struct works_gate {
	uint32_t nr_held; /* atomic: works at it, or past it */
	uint32_t is_open; /* atomic, a futex */
};

struct works_item {
	struct uaio_work work;
	enum uaio_account account;
	struct works_gate *gate; /* to be held at, or NULL */
	/* Called by run() first of all, or NULL. */
	void (*act)(struct works_item *item, struct uaio_worker *worker);

	/* atomic */
	uint32_t nr_begun;     /* by a worker */
	uint32_t nr_run;       /* made to the end, by whoever */
	uint32_t nr_refused;   /* given back, and not made */
	uint32_t nr_cancelled; /* taken back, and not made */
};

/*
 * Bring the engine up with a queue that runs items, the hook being works_stay().
 * So many workers are allowed for bounded works: few enough to hold all of them.
 * Return: 0, or -1.
 */
enum { WORKS_WORKERS = 32 };
int works_start(void);

/* Threads of the library that may still be created; UINT32_MAX: any number. */
void works_allow_threads(uint32_t nr);
/* Return: how many were refused. */
uint32_t works_nr_refused_threads(void);
/* Return: how many came into being, those that have gone included. */
uint32_t works_nr_started_threads(void);

/* Queue n items with one kick; bounded ones that come back are made here. */
void works_queue(struct works_item *items, unsigned n);

/* Return: whether it was queued, and is the caller's now. */
bool works_cancel(struct works_item *item);

/* Return once n items have been run, refused or cancelled. */
void works_await_end(struct works_item *items, unsigned n);
/* Return: whether each of them was run once and not refused. */
bool works_ran_once(const struct works_item *items, unsigned n);

void works_gate_await(struct works_gate *gate, unsigned nr);
void works_gate_open(struct works_gate *gate);

/* Set fixed workers and what their lists take; ends the process if refused. */
void works_set_fixed(enum uaio_account account, int nr, int max_works);
/*
 * Bring so many fixed workers of the bounded account into being, and no others,
 * and return once they sleep.
 */
void works_start_fixed(unsigned nr, int max_works);
void works_set_placement(enum uaio_wq_placement placement);

struct uaio_wq_counters works_count(enum uaio_account account);

/*
 * Look at an account under its lock, at any moment.
 * Return: what is not as wq.h promises (I2), or NULL. That the watcher is told
 * is promised only where it can be had, and to uaio_wq_take() where it is there.
 */
const char *works_find_breach(enum uaio_account account, bool has_watcher);

/* For unit_await(): whether the watcher has nothing to do for bounded works. */
bool works_nobody_watches(void *unused);

/* Return once all workers sleep, nothing is queued, and the counts say so. */
void works_await_rest(void);

/*
 * For unit_hook(): idle threads stay, however long nothing comes for them. On a
 * machine that stands still their time may be over at any moment.
 */
bool works_stay(long nr, const long args[6], long *ret_res);
/* For unit_hook(): they find that their time is over. */
bool works_hurry(long nr, const long args[6], long *ret_res);
/* Under that hook, return once the watcher has left. */
void works_hurry_watcher(void);

#endif /* WORKS_H */
