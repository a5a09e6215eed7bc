/* SPDX-License-Identifier: MIT */
/*
 * Work queue, internal: declarations that the files of this module share
 *
 * Each worker of an account is in one of three states:
 *
 *   searching	awake, or woken and not running yet; the worker will look at
 * 		all lists before it does anything that takes long
 *   blocking	in a call that may block
 *   idle		asleep until another thread wakes it
 *
 * A worker changes its state under the account's lock, except from blocking to
 * searching:
 *
 *   searching -> blocking	the worker has taken an item that may block
 *   blocking -> searching	its call has returned. The worker takes no lock, so
 * 			other threads may see this late, but never early
 *   searching -> idle	the worker has found nothing to do (I3)
 *   idle -> searching	another thread grants a credit (a wake-up that one worker
 * 			may use) and wakes the sleepers. The first worker that
 * 			wakes, or that was about to sleep, uses the credit
 *
 * So a thread that queues a work item need not wake a worker if enough workers are
 * searching.
 */
#ifndef UAIO_WQ_WQINT_H
#define UAIO_WQ_WQINT_H

#include "base/eventcount.h"
#include "base/lock.h"
#include "wq/worklist.h"
#include "wq/wq.h"

/*
 * How many devices can have a list of waiting items at the same time. If all lists are
 * in use, other devices may occupy any number of workers.
 */
enum { UAIO_WQ_DEVICES_MAX = 16 };

/*
 * The waiting items of a device that occupies as many workers as one device may (I7 of
 * wq.h).
 */
struct uaio_wq_device {
	uint32_t number;
	/* when the list becomes empty, another device may use this struct */
	struct list items;
};

struct uaio_wq_account {
	const char *thread_name;   /* immutable */
	struct uaio_wq_crew *crew; /* immutable: borrows */

	struct uaio_eventcount sleepers;
	/* atomic: workers in the state searching */
	uint32_t nr_searching;
	/* atomic: length of the list `public`, also for readers without lock */
	uint32_t nr_public;

	/* atomic: estimates for threads that may spin (poll before they sleep) */
	/* the last item that a worker took could not block */
	uint32_t is_quick;
	uint32_t has_spinner;
	/* how many more spins found no work than found work */
	uint32_t nr_fruitless;
	/* how long waking a worker takes; written under lock */
	int64_t wake_ns;

	struct uaio_lock lock; /* rank ACCOUNT */

	/* under lock */
	struct list public;
	/* how many items of the list `public` may block */
	unsigned nr_blocking;
	struct uaio_wq_device devices[UAIO_WQ_DEVICES_MAX];
	/* items in the lists of devices */
	unsigned nr_held;
	struct list workers;
	/* includes workers that are being created */
	unsigned nr_workers;
	/* those of nr_workers that the limit does not count (I9 of wq.h) */
	unsigned nr_patient;
	/* the last attempt to create a worker failed */
	bool is_refused;
	unsigned nr_idle;
	/* wake-ups granted, and not used by a worker yet */
	unsigned nr_credits;
	/* the manager has been called, and checks for missing workers */
	bool is_manager_told;
	/* the manager runs an item itself, as there are no workers */
	bool is_helped;
	/* when is_manager_told was set */
	int64_t told_ns;
	/* when the last credit (wake-up) was granted */
	int64_t granted_ns;
	uint32_t nr_sleeps;
	/* for is_surplus_locked() */
	/* the smallest nr_idle since least_since_ns */
	unsigned least_idle;
	int64_t least_since_ns;
	/* how many more workers may end, because the last period did not need them */
	unsigned nr_surplus;

	unsigned max_workers;
	unsigned max_fixed;
	uint64_t max_items;
	unsigned nr_fixed;
	unsigned turn; /* for UAIO_PLACE_ROUND_ROBIN */
	/* index of the list that got the last private item */
	unsigned last_index;
	struct uaio_worker *owners[UAIO_WQ_FIXED_MAX]; /* NULL: none */
	/* memory mapped on first use, never unmapped */
	struct uaio_worklist *lists;

	struct uaio_wq_counters counters;
};

/* State of the thread that creates the workers of a crew (manager.c) */
struct uaio_wq_manager {
	struct uaio_lock lock; /* rank MANAGER */
	bool is_there;         /* under lock */
	bool is_called;        /* under lock */
	/*
	 * atomic, written under lock: a thread that the manager is to create for a thread
	 * of another identity; or NULL
	 */
	struct uaio_wq_start *start;
	struct uaio_eventcount calls;
};

/* A thread to be created, which runs main(arg). */
struct uaio_wq_start {
	void *(*main)(void *);
	void *arg;
	int ret;          /* the result of uaio_thread_start() */
	uint32_t is_done; /* atomic, futex */
};

struct uaio_wq_crew {
	struct uaio_wq_account accounts[UAIO_NR_ACCOUNTS];
	struct uaio_wq_manager manager;

	/*
	 * atomic: the identity and domain of the crew's threads; they change under
	 * crews_lock (crew.c)
	 */
	uint32_t identity;
	uint32_t domain;
	/*
	 * how many uncompleted requests belong to the crew. Crew 0 does not count
	 * requests: there 1 means that its manager must not end
	 */
	uint32_t nr_enlisted;
	/*
	 * atomic: how many threads the crew has, including those that are being created
	 * or end; crew 0 does not count them. Sinks only under crews_lock (crew.c)
	 */
	uint32_t nr_threads;
};

/* All crews. Only the first uaio_wq_nr_crews of them have ever been used. */
extern struct uaio_wq_crew uaio_wq_crews[UAIO_WQ_CREWS];
extern uint32_t uaio_wq_nr_crews; /* atomic */
extern struct uaio_wq_tuning uaio_wq_tuning;
extern const struct uaio_wq_ops *uaio_wq_ops;

enum {
	/*
	 * How long an item waits before a worker is added. In measurements, the
	 * creation of a thread took 15 to 30 us. An idle disk answers within 100 us.
	 */
	UAIO_WQ_PATIENCE_NS = 100000,
	/* A worker whose call has not returned after this time counts as blocked. */
	UAIO_WQ_SHORT_NS = 5000,
	/*
	 * An item that has waited in a private list for this time moves to the public
	 * list, because the list's owner seems not to run.
	 */
	UAIO_WQ_STALE_NS = 50000,
	/*
	 * This many workers suffice for a busy disk that answers each call within
	 * UAIO_WQ_SLOW_NS: together the workers then make 64 000 calls a second. For
	 * each worker whose call takes longer, one more worker is allowed.
	 */
	UAIO_WQ_ENOUGH = 32,
	UAIO_WQ_SLOW_NS = 500000,
	/*
	 * After this time without work, workers beyond UAIO_WQ_ENOUGH end. So do all
	 * workers and managers of crews other than crew 0.
	 */
	UAIO_WQ_IDLE_OTHER_MS = 500,
};

/*
 * What the caller must do after it releases the lock: wake workers, call the manager
 */
struct uaio_wq_calls {
	unsigned nr_wake;
	bool wakes_manager;
};

void uaio_wq_lock(struct uaio_wq_account *account);
void uaio_wq_unlock(struct uaio_wq_account *account);

/* crew.c */
uint32_t uaio_wq_count_crews(void);
/*
 * atomic, futex: whether a thread changes the ids of all threads (C4). Written under
 * crews_lock
 */
extern uint32_t uaio_wq_ids_change;
/*
 * Return: whether a thread of the crew must end when it has nothing to do (C4). The
 * caller holds the lock under which it decides to sleep.
 */
static inline bool uaio_wq_is_unwanted(const struct uaio_wq_crew *crew)
{
	/*
	 * relaxed: a thread that sets the flag then acquires the caller's lock, before it
	 * wakes the crew's threads
	 */
	return unlikely(load_relaxed(&uaio_wq_ids_change)) &&
	       crew != &uaio_wq_crews[0];
}
/* Start a thread of the crew, which ends by uaio_wq_end_thread(). */
int uaio_wq_start_thread(struct uaio_wq_crew *crew, void *(*main)(void *),
			 void *arg);
/* Called instead of uaio_thread_end(). */
void uaio_wq_end_thread(struct uaio_wq_crew *crew);
/* Return: the crew with the calling thread's identity; NULL if there is none. */
struct uaio_wq_crew *uaio_wq_my_crew(void);

/*
 * Grant nr credits, each of which lets one idle worker wake, and add nr to
 * calls->nr_wake.
 */
void uaio_wq_grant_locked(struct uaio_wq_account *account, unsigned nr,
			  struct uaio_wq_calls *calls);

/*
 * Return: how many workers the queued items need in addition to those that are
 * searching.
 */
unsigned uaio_wq_need_locked(struct uaio_wq_account *account);

/* Return: how many workers the limit counts (I9 of wq.h). */
static inline unsigned
uaio_wq_counted_locked(const struct uaio_wq_account *account)
{
	return account->nr_workers - account->nr_patient;
}

/*
 * Return: whether another worker must be created: `need` is not 0, or fixed workers are
 * missing; and the limit allows one more.
 */
bool uaio_wq_lacks_workers_locked(const struct uaio_wq_account *account,
				  unsigned need);

/*
 * Make sure that workers will take all queued items (I2 of wq.h): grant credits to idle
 * workers. If that is not enough, note in *calls that the manager must be called.
 */
void uaio_wq_ensure_locked(struct uaio_wq_account *account,
			   struct uaio_wq_calls *calls);

/*
 * Wake the threads that uaio_wq_ensure_locked() has chosen.
 * Return: false if the manager was chosen and cannot be created.
 */
bool uaio_wq_deliver(struct uaio_wq_account *account,
		     const struct uaio_wq_calls *calls);

/*
 * Like uaio_wq_deliver(), for a caller that cannot execute items itself. If the manager
 * cannot be created, the account's workers run the items. The next thread that finds a
 * worker missing tries again to create the manager.
 */
void uaio_wq_deliver_from_worker(struct uaio_wq_account *account,
				 const struct uaio_wq_calls *calls);

void uaio_wq_put_public_locked(struct uaio_wq_account *account,
			       struct uaio_work *work);
/* Remove the oldest public item. Return: the item, or NULL. */
struct uaio_work *uaio_wq_pop_public_locked(struct uaio_wq_account *account);

/*
 * Remove the next item that may start. That is one from the list of a device, or else
 * the oldest public item that may start. Public items that may not start (I7) move to
 * the lists of their devices.
 * Return: the item, or NULL.
 */
struct uaio_work *uaio_wq_pop_locked(struct uaio_wq_account *account);

/*
 * Return: the oldest public item if it cannot block, without removing it; else NULL.
 */
struct uaio_work *
uaio_wq_first_short_locked(const struct uaio_wq_account *account);

/* Move all items of a private list to the public list. */
void uaio_wq_spill_locked(struct uaio_wq_account *account, unsigned index);

/*
 * Return: whether threads other than its owner may take items from a private list: the
 * owner sleeps, or is in a call.
 */
bool uaio_wq_is_open_locked(const struct uaio_wq_account *account,
			    unsigned index);

/* device.c: how many workers one device may occupy */
void uaio_wq_devices_init(struct uaio_wq_account *account);
/* Return: whether the item may occupy a worker now (I7). */
bool uaio_wq_may_start_locked(const struct uaio_wq_account *account,
			      const struct uaio_work *work);
/*
 * Put the item in the list of its device.
 * Return: false if all lists belong to other devices.
 */
bool uaio_wq_hold_locked(struct uaio_wq_account *account,
			 struct uaio_work *work);
/*
 * Like uaio_wq_hold_locked(), but only if other items wait in the device's list
 * already.
 */
bool uaio_wq_hold_behind_locked(struct uaio_wq_account *account,
				struct uaio_work *work);
void uaio_wq_unhold_locked(struct uaio_wq_account *account,
			   struct uaio_work *work);
/*
 * Return: the oldest item in the list of a device that may occupy one more worker; or
 * NULL. The item stays in the list.
 */
struct uaio_work *uaio_wq_held_locked(const struct uaio_wq_account *account);

/* worker.c: the main function of a worker thread; its argument is the account. */
void *uaio_worker_main(void *account);
/* Complete the items that the worker has run. */
void uaio_worker_flush(struct uaio_worker *worker);

/*
 * manager.c: have the manager check whether workers are missing. Creates the manager if
 * there is none.
 * Return: false if the manager does not exist and cannot be created.
 */
bool uaio_manager_call(struct uaio_wq_crew *crew);
/*
 * Like uaio_manager_call(), but never create the manager, since the program may be
 * about to end.
 * Return: whether the manager exists.
 */
bool uaio_manager_tell(struct uaio_wq_crew *crew);
bool uaio_manager_is_there(struct uaio_wq_crew *crew);
/* Create the manager if it does not exist. Return: whether it exists now. */
bool uaio_manager_keep(struct uaio_wq_crew *crew);

#endif /* UAIO_WQ_WQINT_H */
