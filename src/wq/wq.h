/* SPDX-License-Identifier: MIT */
/*
 * Work queue: threads for system calls that would block their caller
 *
 * The queue has two accounts, each with its own lists, lock, workers and limits. Bounded
 * work ends by itself in finite time. Unbounded work may wait for ever, and must not
 * delay bounded work.
 *
 * An account has a public list, from which all its workers take items. Some workers may
 * be fixed: a fixed worker does not end when it is idle, and has a private list
 * (worklist.h), from which it takes items first. wq.c decides on which list to put a
 * work item (placement) and which thread to wake. worker.c decides what a worker runs,
 * when it sleeps and when it ends.
 *
 *   I1  A work item is in one list, or one thread has removed it, and runs it or
 *       completes it otherwise. This thread is a worker, or the caller of
 *       uaio_wq_take() or uaio_wq_cancel().
 *   I2  A worker is awake if it will look at all lists before it sleeps and before it
 *       makes a call that may block. If an item is queued that no awake worker will
 *       reach, no worker of the item's account is asleep; and if the limit allows one
 *       more worker, the manager has been called.
 *   I3  A worker sleeps only after it has found all lists empty, under the account's
 *       lock, which threads that put items in also hold.
 *   I4  Before a worker makes a call that may block, it establishes I2 for all items
 *       that are still queued, including the items of its own list. While the worker is
 *       asleep or in a call that may block, other threads may take items from its list.
 *   I5  A worker decides under the lock to end: when it has nothing to do, or when
 *       there are more workers than the limit. From then on the worker is not counted.
 *       The last worker ends only if nothing is queued.
 *   I6  A fixed worker that has run STREAK work items of its own list in a row looks at
 *       the public list next.
 *   I7  A device may occupy at most seven workers for each worker that is free or may
 *       still be created. If a device occupies this many, its further public items move
 *       to a list of the device. Once the device occupies fewer workers, workers take
 *       the items from this list, before public items.
 *   I8  A thread runs an item only if it belongs to the item's crew or has the same
 *       identity (proc/identity.h).
 *
 * Work items that depend on one another are not in the queue at the same time. If
 * several must follow each other, only the first is queued, and the thread that
 * completes it queues the next. So no worker ever waits for an item that another worker
 * runs, and a thread may take the items of a list in any order.
 *
 * The manager, one thread of each crew, creates the workers. It adds a worker if there
 * is none, or if a work item has waited 100 us while all workers are blocked. From 32
 * workers on, it adds a worker only for each worker whose call has taken 500 us. So
 * slow or hung calls get as many workers as they occupy, and fast calls need only few.
 * A worker that is not fixed ends after 5 s idle, and sooner while there are more than
 * 32.
 *
 * The first thread that needs the manager creates it. If the manager cannot be created,
 * the thread that queued an item gets the item back and executes it. If the manager
 * exists but can create no worker, it runs bounded work itself.
 *
 * A crew is two accounts and a manager, whose threads all have one identity
 * (credentials and namespaces, proc/identity.h). Crew 0 belongs to the process. Other
 * crews are formed for threads that have changed their own credentials. A thread that
 * submits a request enlists it in the crew of the thread's identity (counts it there).
 * If the crew has no manager, the submitter creates it, so that all threads of the crew
 * inherit the submitter's identity.
 *
 *   C1  A thread of the crew's identity creates the crew's manager, and the manager
 *       creates the workers.
 *   C2  While a request is enlisted, the crew's manager does not end, and the crew serves
 *       no other identity.
 *   C3  Once identities may differ, crew 0's manager does not end.
 *
 * test/model/wq.pml is a model of the lists, of sleeping and of waking. [step: ...] in a
 * comment names a step of the model.
 *
 * Context: any thread.
 */
#ifndef UAIO_WQ_WQ_H
#define UAIO_WQ_WQ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/list.h"
#include "proc/identity.h"

struct uaio_worker;
struct uaio_wq_crew;

enum uaio_account {
	UAIO_BOUNDED,
	UAIO_UNBOUNDED,
	UAIO_NR_ACCOUNTS,
};

/* A work item, embedded in the object that a worker has to run. */
struct uaio_work {
	struct list link;   /* in no list: for the thread that removed it */
	bool may_block : 1; /* set by the thread that queues the item */
	bool is_part : 1; /* owner's: the item is one of several parts of one object */
	uint8_t crew; /* set by the owner: the crew that executes the item */

	/* under the account's lock */
	bool is_public;
	bool is_held; /* in the list of its device (I7) */

	/*
	 * Set by the thread that queues the item. Items with the same number wait for the
	 * same device, so they may all be slow together. 0: no known device.
	 */
	uint32_t device;

	/* under the account's lock */
	struct uaio_work **slot; /* in which it was last put, if not public */
	int64_t queued_ns;
};

/* Functions that the owner of the work items provides to the queue. */
struct uaio_wq_ops {
	/*
	 * Run work, and complete it. If work may block, run() calls uaio_wq_returned()
	 * after its system call, before any thread can see the completion. Context: a
	 * worker or the manager, without locks.
	 */
	void (*run)(struct uaio_work *work, struct uaio_worker *worker);

	/*
	 * Short items (items that cannot block) may be completed together: run() only
	 * appends them to the worker's list done, and flush() completes all items of
	 * this list.
	 */
	void (*flush)(struct uaio_worker *worker);

	/*
	 * Complete work with an error: unbounded work for which no thread can be
	 * created.
	 */
	void (*refuse)(struct uaio_work *work);

	/*
	 * Return: whether the submitter must execute work itself instead of queueing
	 * it. This is so if another thread (one that closes a file) waits for work, has
	 * searched the queue for it or is about to, and cannot wait for a worker.
	 * Context: the account's lock is held.
	 */
	bool (*is_awaited)(const struct uaio_work *work);
};

/*
 * Work items that are collected during a submission, and queued together at its end, so
 * that one system call wakes the workers for all of them.
 */
struct uaio_handover {
	uint32_t nr[UAIO_NR_ACCOUNTS];
	bool is_last; /* the program may be about to end: create no threads */
	struct uaio_worker *worker;          /* submitting worker, or NULL */
	struct list items[UAIO_NR_ACCOUNTS]; /* uninitialised if nr is 0 */
	uint32_t nr_others; /* the owner's: other requests to be handed over */
	struct list others; /* uninitialised if nr_others is 0 */
};

static inline void uaio_handover_init(struct uaio_handover *handover)
{
	for (unsigned i = 0; i < UAIO_NR_ACCOUNTS; i++)
		handover->nr[i] = 0;
	handover->nr_others = 0;
	handover->is_last = false;
	handover->worker = NULL;
}

static inline bool uaio_handover_is_due(const struct uaio_handover *handover)
{
	return handover->nr[UAIO_BOUNDED] | handover->nr[UAIO_UNBOUNDED] |
	       handover->nr_others;
}

struct uaio_worker {
	/* used by the owner: work items that were run and are not completed yet */
	struct list done;
	uint32_t nr_done;

	/* used by the queue */
	struct uaio_wq_account *account;
	struct uaio_worklist *list; /* borrows: its private list; or NULL */
	unsigned index;  /* the private list's index in the account */
	unsigned streak; /* work items run in a row from the private list */
	bool is_helper; /* this is the manager, which is not counted as a worker */
	bool is_asleep;        /* under the lock */
	int64_t busy_since_ns; /* atomic: since when in a call that may block; or 0 */
	uint32_t device;       /* atomic: of the last item that may block */
	const void *called_on; /* atomic: see uaio_wq_calls(); or NULL */
	uint32_t tid;          /* the thread's id */
	uint32_t nr_binds;     /* the thread's: see uaio_thread_follow() */
	struct list node;      /* under the lock: in the account's workers */
};

/* The largest number of identities that may have requests at the same time. */
enum { UAIO_WQ_CREWS = 256, UAIO_WQ_NO_CREW = UAIO_WQ_CREWS };

/*
 * Enlist a request that may be queued in the crew of the calling thread's identity.
 * Form this crew if it does not exist. The thread that completes the request delists
 * it.
 * Return: the crew; UAIO_WQ_NO_CREW if all crews belong to other identities that have
 * requests.
 * Context: no lock is held.
 */
unsigned uaio_wq_enlist_slowly(void);
/*
 * Enlist one more request in a crew that already has an enlisted request. Context: any
 * thread.
 */
void uaio_wq_enlist_in(unsigned crew);
void uaio_wq_delist_slowly(unsigned crew);

static inline unsigned uaio_wq_enlist(void)
{
	return likely(!uaio_identities_are_many()) ? 0
						   : uaio_wq_enlist_slowly();
}

static inline void uaio_wq_delist(unsigned crew)
{
	if (unlikely(crew))
		uaio_wq_delist_slowly(crew);
}

/* Return: whether identity is the identity of the crew that executes work. */
bool uaio_wq_is_of(const struct uaio_work *work, uint32_t identity);

/*
 * Return: whether this thread's domain is the domain of the crew that executes work
 * (identity.h, I2).
 */
bool uaio_wq_is_of_my_domain(const struct uaio_work *work);

/*
 * Return: whether this thread's identity is the identity of the crew that executes
 * work.
 */
static inline bool uaio_wq_is_mine(const struct uaio_work *work)
{
	return likely(!uaio_identities_are_many()) ||
	       uaio_wq_is_of(work, uaio_identity_mine());
}

/*
 * Give crew 0 a manager that does not end (C3). Context: a thread of the process's
 * identity, before identities may differ.
 */
void uaio_wq_hold(void);

/*
 * Initialise the queue without threads. Called when the library starts, and in a child
 * after fork(), where the parent's threads do not exist.
 */
void uaio_wq_init(const struct uaio_wq_ops *ops);

/* Collect work for the handover. From now on the queue owns it. */
static inline void uaio_wq_add(enum uaio_account account,
			       struct uaio_work *work,
			       struct uaio_handover *handover)
{
	if (!handover->nr[account]++)
		list_init(&handover->items[account]);
	list_add_tail(&handover->items[account], &work->link);
}

/*
 * Queue the collected items, and wake or create workers for them. Items that the caller
 * has to execute itself are appended to ret_refused: the items for which is_awaited()
 * returns true; and all queued items if there are no threads and none can be created.
 */
void uaio_wq_hand_over(struct uaio_handover *handover,
		       struct list *ret_refused);

/*
 * Remove a bounded work item of this thread's crew for which is_wanted() returns true.
 * If several public items are wanted, the oldest is removed. is_wanted() is called with
 * the account's lock held.
 * Return: the item, which the caller has to run and complete; or NULL.
 */
struct uaio_work *uaio_wq_take(bool (*is_wanted)(const struct uaio_work *work,
						 const void *arg),
			       const void *arg);

/*
 * Remove work from the queue. The caller ensures that the memory of work stays valid.
 * Return: true if work was queued; then the caller owns it.
 */
bool uaio_wq_cancel(enum uaio_account account, struct uaio_work *work);

/* Create the workers that uaio_wq_hand_over() did not create because is_last was set. */
void uaio_wq_revive(struct list *ret_refused);

/* Called by run(): the system call that might have blocked has returned. */
void uaio_wq_returned(struct uaio_worker *worker);
/*
 * Called by run() after uaio_wq_returned(), or by flush(): the worker is about to make
 * another system call that may block.
 * Return: true if the caller has to call uaio_wq_returned() after this system call.
 * False if the worker already counts as blocked: it completes short items now, just
 * before it runs an item that may block.
 */
bool uaio_wq_blocks(struct uaio_worker *worker);

/*
 * Called by run(): announce that until the next call of this function, the worker makes
 * at most one system call on the object on, and no other; on is NULL: none. A thread
 * that closes a file finds such workers by uaio_wq_callers().
 */
static inline void uaio_wq_calls(struct uaio_worker *worker, const void *on)
{
	/*
	 * [MB:called-on] release: all that the worker did before is complete. Pairs with
	 * uaio_wq_callers().
	 */
	store_release(&worker->called_on, on);
}

/*
 * Like uaio_wq_calls(), but sequentially consistent: for a worker that next reads a
 * word that another thread writes before this thread calls uaio_wq_callers().
 * Return: false, without effect, if the worker is the manager, which uaio_wq_callers()
 * does not see.
 */
static inline bool uaio_wq_calls_seq_cst(struct uaio_worker *worker,
					 const void *on)
{
	if (worker->is_helper)
		return false;
	/* [MB:native-closing] seq_cst: uaio_native_submit_blocking() explains why. */
	store_seq_cst(&worker->called_on, on);
	return true;
}

/*
 * Return: how many workers of the bounded accounts last called uaio_wq_calls() with on.
 * ret_tids receives the thread ids of at most max of them.
 */
unsigned uaio_wq_callers(const void *on, uint32_t *ret_tids, unsigned max);

/*
 * Return: whether the account of the calling thread's crew has as many workers as its
 * limit, or the system, allows now.
 */
bool uaio_wq_is_full(enum uaio_account account);

/*
 * Limits may be changed at any time, under load. The new values apply to items queued
 * from then on, and to each worker when it next takes an item.
 */
enum {
	UAIO_WQ_WORKERS_MAX = 4096,
	UAIO_WQ_FIXED_MAX = 16,
	UAIO_WQ_ITEMS_MAX = 1024, /* larger values are reduced to this */
};

struct uaio_wq_fixed_limits {
	int nr_workers;
	int max_items; /* the length of each private list */
};

/*
 * Set how many workers an account may have; -1 changes nothing. If 0, the submitting
 * thread executes bounded work, and unbounded work is refused.
 * Return: the old value; -EINVAL if nr is out of range or less than the number of fixed
 * workers that is set.
 */
int uaio_wq_limit_workers(enum uaio_account account, int nr);

/*
 * Set how many fixed workers an account has, and the length of their lists; -1 leaves a
 * value unchanged.
 * Return: 0; -EINVAL if a value is out of range or exceeds the limit of workers; -ENOMEM.
 * After an error nothing has changed.
 */
int uaio_wq_limit_fixed(enum uaio_account account,
			const struct uaio_wq_fixed_limits *limits,
			struct uaio_wq_fixed_limits *ret_old);

/* Parameters that benchmarks and tests vary. */
enum uaio_wq_placement {
	UAIO_PLACE_PUBLIC,      /* no private lists */
	UAIO_PLACE_ROUND_ROBIN, /* each item to the next fixed worker, in turn */
	UAIO_PLACE_PACKED, /* short items to a fixed worker that is awake */
};

struct uaio_wq_tuning {
	enum uaio_wq_placement placement;
	unsigned batch; /* how many short items complete together, >= 1 */
	bool may_spin;
};

/* Set these parameters. Context: nothing has been queued yet. */
void uaio_wq_tune(const struct uaio_wq_tuning *tuning);

struct uaio_wq_counters {
	uint64_t nr_private;  /* work items put on private lists */
	uint64_t nr_switches; /* of nr_private: not on the last item's list */
	uint64_t nr_public;   /* work items put on the public list */
	uint64_t nr_shared; /* of nr_public: moved to a worker's private list */
	uint64_t nr_stolen; /* by a worker from another worker's private list */
	uint64_t nr_late;   /* waited over 50 us while a worker slept */
	uint64_t nr_locked; /* acquisitions of the account's lock */
	uint64_t nr_contended;                 /* of nr_locked: had to wait */
	uint64_t nr_wakes;                     /* sleeping workers woken */
	uint64_t nr_placed[UAIO_WQ_FIXED_MAX]; /* nr_private of each list */
	unsigned nr_workers;
	unsigned nr_fixed;
	unsigned nr_idle;
	unsigned nr_held;   /* of nr_queued: items in lists of devices */
	unsigned nr_queued; /* a cancelled private item counts until passed */
};

/* Return in *ret the counters of crew 0. */
void uaio_wq_count(enum uaio_account account, struct uaio_wq_counters *ret);

/* Return: how many workers the account has, in all crews. */
unsigned uaio_wq_nr_workers(enum uaio_account account);

/* Return: how many threads the queue has in all, including the managers. */
unsigned uaio_wq_nr_threads(void);

/*
 * Return: whether an item has been queued for long, although a worker that is awake, or
 * about to wake, should have taken it. Then the scheduler does not let the library's
 * threads run.
 */
bool uaio_wq_is_starved(int64_t now);

/*
 * Unless a machine is overloaded, a runnable thread gets a processor within this time.
 */
enum { UAIO_WQ_STARVED_NS = 10000000 };

/*
 * Return: how long waking a thread takes, in ns, if work items are short, so that
 * spinning for their completion may cost less than sleeping. 0 if they are not.
 */
int64_t uaio_wq_spin_ns(void);
/* Return: whether recent spins have found work often enough to spin again. */
bool uaio_wq_may_spin(void);
/*
 * Record whether a spin has found work, or would have found work if the thread had
 * spun.
 */
void uaio_wq_has_spun(bool was_worth_it);

#endif /* UAIO_WQ_WQ_H */
