/* SPDX-License-Identifier: MIT */
/*
 * Work queue, inside: what wq.c (lists, placement), worker.c (workers)
 * and manager.c (the thread that creates them) share. No other file includes
 * this.
 *
 * Every worker of an account is in one of these states, and changes its state
 * under the lock, with the one exception below:
 *
 *   searching	awake, or woken and not running yet; it will look at all lists
 *		before it does anything else that takes long
 *   blocking	inside a call that may block
 *   idle	asleep until it is woken
 *
 *   searching -> blocking	when it has taken a work item that may block
 *   blocking -> searching	when the call returns. This is without the lock,
 *				so others may rely on it a moment too late, but
 *				never too soon
 *   searching -> idle		when it has found nothing (I3)
 *   idle -> searching		done by the thread that wakes it, as a credit.
 *   The
 *				first worker that comes awake, or was about to
 *				sleep, uses the credit up
 *
 * So a thread that queues a work item, and sees that enough workers are
 * searching, need not wake any.
 */
#ifndef UAIO_WQ_WQINT_H
#define UAIO_WQ_WQINT_H

#include "base/eventcount.h"
#include "base/lock.h"
#include "wq/worklist.h"
#include "wq/wq.h"

/* So many devices can have a list at once; any others have no limit meanwhile. */
enum { UAIO_WQ_DEVICES_MAX = 16 };

/* The items of a device that occupies as many workers as it may (I7 of wq.h). */
struct uaio_wq_device {
	uint32_t number;
	struct list items; /* empty: this is nobody's list */
};

struct uaio_wq_account {
	const char *thread_name;   /* immutable */
	struct uaio_wq_crew *crew; /* immutable: borrows */

	struct uaio_eventcount sleepers;
	uint32_t nr_searching; /* atomic: workers in that state */
	uint32_t nr_public;    /* atomic, written under lock */

	/* atomic: guesses, for threads that might spin */
	uint32_t is_quick; /* the item that was taken last was short */
	uint32_t has_spinner;
	uint32_t nr_fruitless; /* by how many more spins were in vain */
	int64_t wake_ns;       /* what waking one costs; written under lock */

	struct uaio_lock lock; /* rank ACCOUNT */

	/* under lock */
	struct list public;
	unsigned nr_blocking; /* of nr_public, those that may block */
	struct uaio_wq_device devices[UAIO_WQ_DEVICES_MAX];
	unsigned nr_held; /* items in their lists */
	struct list workers;
	unsigned nr_workers; /* includes those that are being created */
	bool is_refused;     /* the last that was to be created could not be */
	unsigned nr_idle;
	unsigned nr_credits;
	bool is_manager_told; /* that workers may be missing */
	bool is_helped;       /* the manager runs an item for want of workers */
	int64_t told_ns;      /* when the manager was told */
	int64_t granted_ns;   /* when the last credit was given */
	uint32_t nr_sleeps;
	/* see is_surplus_locked() */
	unsigned least_idle; /* the least nr_idle since then */
	int64_t least_since_ns;
	unsigned nr_surplus; /* how many idle workers may end */

	unsigned max_workers;
	unsigned max_fixed;
	uint64_t max_items;
	unsigned nr_fixed;
	unsigned turn;       /* of round robin */
	unsigned last_index; /* of the private list that was put on last */
	struct uaio_worker *owners[UAIO_WQ_FIXED_MAX]; /* or NULL */
	struct uaio_worklist *lists; /* mapped when first needed, and kept */

	struct uaio_wq_counters counters;
};

/* The thread that adds workers to the accounts of a crew (manager.c). */
struct uaio_wq_manager {
	struct uaio_lock lock; /* rank MANAGER */
	bool is_there;         /* under lock */
	bool is_called;        /* under lock */
	struct uaio_eventcount calls;
};

struct uaio_wq_crew {
	struct uaio_wq_account accounts[UAIO_NR_ACCOUNTS];
	struct uaio_wq_manager manager;

	/* atomic: written under the lock of the crews */
	uint32_t identity;
	uint32_t domain;
	uint32_t nr_enlisted; /* requests; crew 0: 1 once it is held */
};

/* Those that were ever used are the first uaio_wq_nr_crews. */
extern struct uaio_wq_crew uaio_wq_crews[UAIO_WQ_CREWS];
extern uint32_t uaio_wq_nr_crews; /* atomic */
extern struct uaio_wq_tuning uaio_wq_tuning;
extern const struct uaio_wq_ops *uaio_wq_ops;

enum {
	/*
	 * How long work waits until a worker is added: to create a thread takes
	 * 15 to 30 us here, and an idle disk answers within 100 us.
	 */
	UAIO_WQ_PATIENCE_NS = 100000,
	/*
	 * A worker whose call has not returned for so long counts as blocked.
	 */
	UAIO_WQ_SHORT_NS = 5000,
	/* What has waited in a private list for so long is moved elsewhere. */
	UAIO_WQ_STALE_NS = 50000,
	/*
	 * So many workers are enough for a disk under load, which answers each
	 * call within SLOW_NS: together they make 64 000 calls a second. For
	 * each worker whose call has taken longer there may be one more.
	 */
	UAIO_WQ_ENOUGH = 32,
	UAIO_WQ_SLOW_NS = 500000,
	/*
	 * Threads of other crews than the process's, and workers beyond
	 * UAIO_WQ_ENOUGH, end when idle for so long.
	 */
	UAIO_WQ_IDLE_OTHER_MS = 500,
};

/* What has to be done once the lock is released. */
struct uaio_wq_calls {
	unsigned nr_wake;
	bool wakes_manager;
};

void uaio_wq_lock(struct uaio_wq_account *account);
void uaio_wq_unlock(struct uaio_wq_account *account);

/* crew.c */
uint32_t uaio_wq_count_crews(void);
/* Return: the crew of the calling thread, or the process's if it has none. */
struct uaio_wq_crew *uaio_wq_my_crew(void);

/* Wake nr of the workers that are asleep. */
void uaio_wq_grant_locked(struct uaio_wq_account *account, unsigned nr,
			  struct uaio_wq_calls *calls);

/* Return: how many more workers it takes than those that are searching. */
unsigned uaio_wq_need_locked(struct uaio_wq_account *account);

/* Return: whether another worker is needed, and the limit allows it. */
bool uaio_wq_lacks_workers_locked(const struct uaio_wq_account *account,
				  unsigned need);

/* See to it that workers come to what is queued (I2). */
void uaio_wq_ensure_locked(struct uaio_wq_account *account,
			   struct uaio_wq_calls *calls);

/*
 * Wake the threads that uaio_wq_ensure_locked() has chosen.
 * Return: false if the manager is one of them, and cannot be created.
 */
bool uaio_wq_deliver(struct uaio_wq_account *account,
		     const struct uaio_wq_calls *calls);

/*
 * The same for a caller that cannot take the work items back. If the manager
 * cannot be created, the account has workers all the same; and the next thread
 * that finds that one more is needed tries again.
 */
void uaio_wq_deliver_from_worker(struct uaio_wq_account *account,
				 const struct uaio_wq_calls *calls);

void uaio_wq_put_public_locked(struct uaio_wq_account *account,
			       struct uaio_work *work);
/* Return: the oldest public item, taken out; or NULL. */
struct uaio_work *uaio_wq_pop_public_locked(struct uaio_wq_account *account);

/*
 * Return: an item that may start, taken out: of a device's list, or the oldest public
 * one; or NULL. Public items that may not start are moved to the lists of their devices.
 */
struct uaio_work *uaio_wq_pop_locked(struct uaio_wq_account *account);

/* Return: the oldest public item if it is short, not taken out; or NULL. */
struct uaio_work *
uaio_wq_first_short_locked(const struct uaio_wq_account *account);

/* Move all items of the private list to the public one. */
void uaio_wq_spill_locked(struct uaio_wq_account *account, unsigned index);

/* Return: whether other threads may take from the private list now. */
bool uaio_wq_is_open_locked(const struct uaio_wq_account *account,
			    unsigned index);

/* device.c: what one device may occupy. */
void uaio_wq_devices_init(struct uaio_wq_account *account);
/* Return: whether a worker may be occupied by work now. */
bool uaio_wq_may_start_locked(const struct uaio_wq_account *account,
			      const struct uaio_work *work);
/* Return: whether work, in no list, is in the list of its device now. */
bool uaio_wq_hold_locked(struct uaio_wq_account *account,
			 struct uaio_work *work);
/* The same, but only if there are such items of its device already. */
bool uaio_wq_hold_behind_locked(struct uaio_wq_account *account,
				struct uaio_work *work);
void uaio_wq_unhold_locked(struct uaio_wq_account *account,
			   struct uaio_work *work);
/* Return: the oldest item of a device's list that may start, not taken out; or NULL. */
struct uaio_work *uaio_wq_held_locked(const struct uaio_wq_account *account);

/* worker.c: the main function of a worker; its argument is the account. */
void *uaio_worker_main(void *account);
/* Complete the items that the worker has run. */
void uaio_worker_flush(struct uaio_worker *worker);

/* manager.c */
/*
 * Have the manager look whether workers are missing. Create it if necessary.
 * Return: false if it does not exist and cannot be created.
 */
bool uaio_manager_call(struct uaio_wq_crew *crew);
/*
 * The same, but do not create it, since the program may be about to end.
 * Return: whether it exists.
 */
bool uaio_manager_tell(struct uaio_wq_crew *crew);
bool uaio_manager_is_there(struct uaio_wq_crew *crew);
/* Create it if it is not there. Return: whether it is there. */
bool uaio_manager_keep(struct uaio_wq_crew *crew);

#endif /* UAIO_WQ_WQINT_H */
