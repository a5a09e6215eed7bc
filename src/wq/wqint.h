/* SPDX-License-Identifier: MIT */
/*
 * Work queue, inside: what wq.c (lists, placement, limits) and worker.c
 * (threads) share. Nobody else includes this.
 *
 * Every worker of an account is in one of these states, and moves under the
 * lock, but for the one step that is marked:
 *
 *   searching	awake, or woken and not yet running; looks at all lists before
 *		anything else that takes long
 *   blocking	inside a call that may block
 *   idle	asleep, to be woken
 *
 *   searching -> blocking	with the work it has taken
 *   blocking -> searching	when the call returns; without the lock: others
 *				may rely on it a moment too late, never too soon
 *   searching -> idle		with nothing to be found (I3)
 *   idle -> searching		by who wakes it: a credit, which the first that
 *				comes awake, or was about to sleep, consumes
 *
 * So who queues a work and sees enough workers searching need wake nobody.
 */
#ifndef UAIO_WQ_WQINT_H
#define UAIO_WQ_WQINT_H

#include "base/eventcount.h"
#include "base/lock.h"
#include "wq/worklist.h"
#include "wq/wq.h"

struct uaio_wq_account {
	const char *thread_name; /* immutable */

	struct uaio_eventcount sleepers;
	uint32_t nr_searching; /* atomic: see above */
	uint32_t nr_public;    /* atomic, written under lock */

	/* atomic, guesses for who might spin */
	uint32_t is_quick; /* the last work taken was short */
	uint32_t has_spinner;
	uint32_t nr_fruitless; /* spins of workers, in a row */
	int64_t wake_ns;       /* what waking one costs; written under lock */

	struct uaio_lock lock; /* rank ACCOUNT */

	/* under lock */
	struct list public;
	unsigned nr_blocking; /* of nr_public, those that may block */
	struct list workers;
	unsigned nr_workers; /* those being created included */
	unsigned nr_idle;
	unsigned nr_credits;
	bool is_watched;
	bool is_helped; /* the watcher is making a work, for want of workers */
	int64_t watched_ns; /* since when */
	int64_t granted_ns; /* the last credit */
	uint32_t nr_sleeps;
	/* see is_surplus_locked() */
	unsigned least_idle; /* at once, since */
	int64_t least_since_ns;
	unsigned nr_surplus; /* idle ones that may leave */

	unsigned max_workers;
	unsigned max_fixed;
	uint64_t max_works;
	unsigned nr_fixed;
	unsigned turn;       /* of round robin */
	unsigned last_index; /* of the list that was put on last */
	struct uaio_worker *owners[UAIO_WQ_FIXED_MAX]; /* or NULL */
	struct uaio_worklist *lists; /* mapped when first wanted, and kept */

	struct uaio_wq_counters counters;
};

extern struct uaio_wq_account uaio_wq_accounts[UAIO_NR_ACCOUNTS];
extern struct uaio_wq_tuning uaio_wq_tuning;
extern const struct uaio_wq_ops *uaio_wq_ops;

enum {
	/* Creating a thread costs 15 to 30 us here, an idle disk answers in 100. */
	UAIO_WQ_PATIENCE_NS = 100000,
	/* A call that has not returned for so long is taken for blocked. */
	UAIO_WQ_SHORT_NS = 5000,
	/* What waits in a list for so long belongs elsewhere. */
	UAIO_WQ_STALE_NS = 50000,
	/*
	 * So many workers, each of whose calls takes no longer than a disk under
	 * load, do all that one takes: 64 000 calls a second. For each that has
	 * been in its call for longer there may be another.
	 */
	UAIO_WQ_ENOUGH = 32,
	UAIO_WQ_SLOW_NS = 500000,
};

/* Calls that are owed once the lock is released. */
struct uaio_wq_calls {
	unsigned nr_wake;
	bool wakes_watcher;
};

void uaio_wq_lock(struct uaio_wq_account *account);
void uaio_wq_unlock(struct uaio_wq_account *account);

/* Return: works beyond those the searching workers come to. */
unsigned uaio_wq_need_locked(struct uaio_wq_account *account);

/* Return: whether another worker is wanted, and may be had. */
bool uaio_wq_lacks_workers_locked(const struct uaio_wq_account *account,
				  unsigned need);

/* See to it that what is queued finds workers (I2). */
void uaio_wq_ensure_locked(struct uaio_wq_account *account,
			   struct uaio_wq_calls *calls);

/*
 * Wake whom uaio_wq_ensure_locked() has found.
 * Return: false if there is no thread at all.
 */
bool uaio_wq_deliver(struct uaio_wq_account *account,
		     const struct uaio_wq_calls *calls);

/*
 * The same where nobody could be given the works back: the account has workers,
 * and who next finds that another is wanted tries again.
 */
void uaio_wq_deliver_from_worker(struct uaio_wq_account *account,
				 const struct uaio_wq_calls *calls);

void uaio_wq_put_public_locked(struct uaio_wq_account *account,
			       struct uaio_work *work);
/* Return: the oldest public work, or NULL. */
struct uaio_work *uaio_wq_pop_public_locked(struct uaio_wq_account *account);

/* Return: the oldest public work if it is short, still there; or NULL. */
struct uaio_work *
uaio_wq_first_short_locked(const struct uaio_wq_account *account);

/* Move what is in the private list to the public one. */
void uaio_wq_spill_locked(struct uaio_wq_account *account, unsigned index);

/* Return: whether others may take from the private list now. */
bool uaio_wq_is_open_locked(const struct uaio_wq_account *account,
			    unsigned index);

/* worker.c: a thread's main function, its argument the account. */
void *uaio_worker_main(void *account);
/* Complete what it has run. */
void uaio_worker_flush(struct uaio_worker *worker);

/* watcher.c */
void uaio_watcher_init(void);
/* Have it look. Return: false if it is not there and cannot be created. */
bool uaio_watcher_call(void);
/* The same, creating none: the caller may be leaving. Return: as above. */
bool uaio_watcher_tell(void);
bool uaio_watcher_is_there(void);

#endif /* UAIO_WQ_WQINT_H */
