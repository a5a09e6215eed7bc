/* SPDX-License-Identifier: MIT */
/*
 * Work queue: threads for system calls that would block their caller
 *
 * The queue has two accounts, for bounded and for unbounded work. Each has its own
 * lists, lock, workers (threads) and limits. Bounded work ends by itself in finite
 * time. Unbounded work may wait for ever, and must not delay bounded work.
 *
 * An account has a public list of work items, from which all its workers take items. A
 * fixed worker does not end when it is idle. It also has a private list (worklist.h),
 * from which it takes items first. wq.c decides on which list to put a work item
 * (placement) and which thread to wake. worker.c decides what a worker runs, when it
 * sleeps and when it ends.
 *
 *   I1  A work item is in one list; or one thread has removed it, and runs it or
 *       completes it otherwise. This thread is a worker, or the caller of
 *       uaio_wq_take() or uaio_wq_cancel().
 *   I2  A worker is awake if it will look at all lists before it sleeps, and before it
 *       makes a call that may block. If no awake worker will reach a queued item, then
 *       no worker of the item's account is asleep: all of them were woken. If the limit
 *       allows one more worker, the manager has been called, too.
 *   I3  A worker sleeps only after it has found all lists empty under the account's
 *       lock. Threads that put items in hold the same lock.
 *   I4  Before a worker makes a call that may block, it establishes I2 for all items
 *       that are still queued, including the items of its own list. While the worker is
 *       asleep or in a call that may block, other threads may take items from its list.
 *   I5  A worker decides under the lock to end: when it has nothing to do, or when
 *       there are more workers than the limit. From then on the worker is not counted.
 *       The last worker ends only if nothing is queued.
 *   I6  A fixed worker that has run STREAK work items of its own list in a row looks at
 *       the public list next.
 *   I7  A device (disk, file server) may occupy at most seven workers for each worker
 *       that is free or may still be created. If it occupies this many, its further
 *       public items move to a list of the device. Once it occupies fewer, workers take
 *       the items from this list before they take public items.
 *   I8  A thread runs an item only if it belongs to the item's crew or has the same
 *       identity (credentials and namespaces, proc/identity.h).
 *   I9  A patient item may sleep for ever, until the client ends its wait. While a worker
 *       is in the call of a patient item, the limit of workers does not count this
 *       worker, so patient items do not keep others from running. At most
 *       UAIO_WQ_PATIENT_MAX workers of an account are not counted.
 *
 * Work items that depend on one another are not in the queue at the same time. If
 * several must run one after another, only the first is queued, and the thread that
 * completes it queues the next. So no worker ever waits for an item that another worker
 * runs, and a thread may take the items of a list in any order.
 *
 * The manager is one thread of each crew, which creates the workers. It adds a worker
 * if there is none, or if a work item has waited 100 us while all workers are blocked.
 * From 32 workers on, it adds a worker only for each worker whose call has taken 500
 * us. So slow or hung calls do not take workers away from other items, and fast calls
 * need only few workers. A worker that is not fixed ends when it has been idle for 5 s,
 * or sooner while there are more than 32 workers.
 *
 * The first thread that needs a manager creates it. If that fails, the thread that
 * queued an item gets the item back and executes it. If the manager exists but can
 * create no worker, it runs bounded work itself.
 *
 * A crew is two accounts and a manager. All its threads have one identity (credentials
 * and namespaces, proc/identity.h). Crew 0 has the identity of the process. Other crews
 * are for threads that have changed their own credentials. A thread that submits a
 * request enlists it: it raises the count of requests in the crew of its own identity.
 * If the crew has no manager, the submitter creates it, so all threads of the crew
 * inherit the submitter's identity.
 *
 *   C1  A thread of the crew's identity creates the crew's manager, and the manager
 *       creates the workers.
 *   C2  While a request is enlisted, the crew's manager does not end, and the crew serves
 *       no other identity.
 *   C3  Once a thread may change its credentials, crew 0's manager does not end,
 *       because a thread with other credentials cannot create it again (C1).
 *   C4  The C library changes the ids of all threads by a system call in each of them. If
 *       the call fails in some threads only, the C library ends the process. So before
 *       such a change, idle threads of all crews but crew 0 end. Until the change is
 *       over, no thread creates a manager for these crews. A manager stays while a
 *       request is enlisted (C2).
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

/*
 * A work item. It is embedded in the object that a worker has to run. The module that
 * has this object is the item's owner.
 */
struct uaio_work {
	/*
	 * links items of a list; a thread that has removed the item may use the link
	 * for a list of its own
	 */
	struct list link;
	/* set by the thread that queues the item */
	bool may_block : 1;
	/* set by the owner: the item is one of several parts of one request */
	bool is_part : 1;
	/* set by the owner: the item may block, and is patient (I9) */
	bool is_patient : 1;
	/* set by the owner: the crew that executes the item */
	uint8_t crew;

	/* under the account's lock */
	bool is_public;
	/*
	 * the item is in the list of its device, as the device occupies too many
	 * workers (I7)
	 */
	bool is_held;

	/*
	 * Set by the thread that queues the item. Items with the same number wait for the
	 * same device, so they may all be slow together. 0: no known device.
	 */
	uint32_t device;

	/* under the account's lock */
	/* the slot, if the item was last put on a private list; else NULL */
	struct uaio_work **slot;
	int64_t queued_ns;
};

/*
 * Functions by which the queue calls the owner of the items: the module whose requests
 * the items execute.
 */
struct uaio_wq_ops {
	/*
	 * Run the item `work`, and complete it. If the item may block, run() calls
	 * uaio_wq_returned() after its system call, before any thread can see the
	 * completion. Context: a worker or the manager, which holds no lock.
	 */
	void (*run)(struct uaio_work *work, struct uaio_worker *worker);

	/*
	 * Short items (those that cannot block) may be completed together. Then run()
	 * only appends them to the list `done` of the worker, and flush() completes all
	 * items of that list.
	 */
	void (*flush)(struct uaio_worker *worker);

	/*
	 * Complete unbounded work with an error, as no thread can be created for it.
	 */
	void (*refuse)(struct uaio_work *work);

	/*
	 * Return: whether the submitter must execute the item itself, and not queue it.
	 * This is so if a thread in exit or exec waits for the item's request: the
	 * waiting thread may have searched the queue already, and so would not find the
	 * item. Context: the account's lock is held.
	 */
	bool (*is_awaited)(const struct uaio_work *work);
};

/*
 * Work items that are collected during a submission, and queued together at its end. So
 * one system call wakes the workers for all of them.
 */
struct uaio_handover {
	uint32_t nr[UAIO_NR_ACCOUNTS];
	/* the program may be about to end: create no threads */
	bool is_last;
	/* the thread that submits, if it is a worker; else NULL */
	struct uaio_worker *worker;
	/* uninitialised if nr is 0 */
	struct list items[UAIO_NR_ACCOUNTS];
	/*
	 * the length of `others`: requests that the items' owner gives to the kernel,
	 * not to workers
	 */
	uint32_t nr_others;
	struct list others; /* `others` is uninitialised if nr_others is 0 */
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
	/* items that were run, and that the owner has yet to complete */
	struct list done;
	uint32_t nr_done;

	/* used by the queue */
	struct uaio_wq_account *account;
	/* borrows: the worker's private list; or NULL */
	struct uaio_worklist *list;
	/* index of the worker's private list in the account */
	unsigned index;
	/* how many items of the private list the worker has run in a row */
	unsigned streak;
	/* this is the manager, which does not count as a worker */
	bool is_helper;
	bool is_asleep; /* under the lock */
	/* only for the worker itself: the limit of workers does not count it (I9) */
	bool is_patient;
	/*
	 * atomic: when the worker's present call that may block began; 0: there is none
	 */
	int64_t busy_since_ns;
	/*
	 * atomic: the device of the worker's present or most recent item that may block
	 */
	uint32_t device;
	/*
	 * atomic: stands for the file of the worker's present call (uaio_wq_calls());
	 * or NULL
	 */
	const void *called_on;
	uint32_t tid; /* the thread's id */
	/*
	 * how many changes of the CPU binding the thread has applied
	 * (uaio_thread_follow())
	 */
	uint32_t nr_binds;
	/* node in the account's list of workers, under the lock */
	struct list node;
};

/*
 * The maximum number of identities (credentials and namespaces) that may have requests
 * at the same time
 */
enum { UAIO_WQ_CREWS = 256, UAIO_WQ_NO_CREW = UAIO_WQ_CREWS };

/*
 * Enlist a request that may be queued: count it in the crew of the calling thread's
 * identity. If there is no such crew, form one. The thread that completes the request
 * delists it. Context: no lock is held.
 * Return: the crew; UAIO_WQ_NO_CREW if all crews have requests of other identities.
 */
unsigned uaio_wq_enlist_slowly(void);
/* Enlist one more request in a crew that already has one. Context: any thread. */
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

/* Return: whether the crew that executes the item has this identity. */
bool uaio_wq_is_of(const struct uaio_work *work, uint32_t identity);

/*
 * Return: whether this thread's domain (identity.h, I2) is that of the crew that
 * executes the item.
 */
bool uaio_wq_is_of_my_domain(const struct uaio_work *work);

/* Return: whether the crew that executes the item has this thread's identity. */
static inline bool uaio_wq_is_mine(const struct uaio_work *work)
{
	return likely(!uaio_identities_are_many()) ||
	       uaio_wq_is_of(work, uaio_identity_mine());
}

/*
 * Give crew 0 a manager that does not end (C3). Context: a thread with the identity of
 * the process, before any thread's identity may differ.
 */
void uaio_wq_hold(void);

/*
 * Like uaio_thread_start(), for a thread that serves all threads of the process. If the
 * caller has another identity than the process, the manager of crew 0 creates the thread.
 */
int uaio_wq_start_for_all(void *(*main)(void *), void *arg);

/*
 * Called before and after a thread changes the ids of all threads (C4).
 * uaio_wq_ids_begin() waits for workers of other identities that execute a request, but
 * only for a limited time. Context: a thread of the program; no lock is held.
 */
void uaio_wq_ids_begin(void);
void uaio_wq_ids_end(void);

/*
 * Initialise the queue without threads. Called when the library starts, and in a child
 * after fork(), where the parent's threads do not exist.
 */
void uaio_wq_init(const struct uaio_wq_ops *ops);

/*
 * Put the item into the handover, to be queued at the end of the submission. From now
 * on the queue owns the item.
 */
static inline void uaio_wq_add(enum uaio_account account,
			       struct uaio_work *work,
			       struct uaio_handover *handover)
{
	if (!handover->nr[account]++)
		list_init(&handover->items[account]);
	list_add_tail(&handover->items[account], &work->link);
}

/*
 * Queue the collected items, and wake or create workers for them. ret_refused receives
 * the items that the caller must execute itself. These are the items for which
 * is_awaited() returns true; and all items if there is no thread and none can be
 * created.
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
 * Remove the item from the queue. The caller makes sure that the item's memory stays
 * valid.
 * Return: true if the item was queued; then the caller owns it. False: a worker has
 * taken it.
 */
bool uaio_wq_cancel(enum uaio_account account, struct uaio_work *work);

/*
 * Create the workers that uaio_wq_hand_over() did not create, because the program might
 * have been about to end (is_last).
 */
void uaio_wq_revive(struct list *ret_refused);

/* Called by run(): the system call that might have blocked has returned. */
void uaio_wq_returned(struct uaio_worker *worker);
/*
 * The worker is about to make another system call that may block. Called by run() after
 * uaio_wq_returned(), or by flush().
 * Return: true if the caller must call uaio_wq_returned() after this system call. False
 * if the caller must not: the worker is the manager, or already counts as blocked,
 * because its next item may block.
 */
bool uaio_wq_blocks(struct uaio_worker *worker);

/*
 * Called by run(). Until the next call of this function, the worker makes at most one
 * system call on the file that `on` stands for, and no call on another file. If `on` is
 * NULL, its calls are not limited. A thread that closes a file finds the workers in
 * such calls by uaio_wq_callers().
 */
static inline void uaio_wq_calls(struct uaio_worker *worker, const void *on)
{
	/*
	 * [MB:called-on] release: the worker's previous call has ended before this store.
	 * Pairs with uaio_wq_callers().
	 */
	store_release(&worker->called_on, on);
}

/*
 * Like uaio_wq_calls(), but sequentially consistent. It is for a worker that next reads
 * a word which the closing thread writes before it calls uaio_wq_callers().
 * Return: false, without effect, if the worker is the manager, which uaio_wq_callers()
 * does not see.
 */
static inline bool uaio_wq_calls_seq_cst(struct uaio_worker *worker,
					 const void *on)
{
	if (worker->is_helper)
		return false;
	/*
	 * [MB:native-closing] seq_cst: explained at uaio_native_submit_blocking().
	 */
	store_seq_cst(&worker->called_on, on);
	return true;
}

/*
 * Return: how many workers of the bounded accounts passed `on` in their last call of
 * uaio_wq_calls(). ret_tids: the thread ids of up to max of these workers.
 */
unsigned uaio_wq_callers(const void *on, uint32_t *ret_tids, unsigned max);

/*
 * Return: whether the calling thread's crew can have no more workers now: its limit is
 * reached, or the system refuses to create a thread.
 */
bool uaio_wq_is_full(enum uaio_account account);

/*
 * Limits may be changed at any time, under load. The new values apply to items that are
 * queued from then on, and to a worker when it next takes an item.
 */
enum {
	UAIO_WQ_WORKERS_MAX = 4096,
	UAIO_WQ_PATIENT_MAX = 4096,
	UAIO_WQ_FIXED_MAX = 16,
	/* the maximum of max_items; larger values are reduced to this */
	UAIO_WQ_ITEMS_MAX = 1024,
};

struct uaio_wq_fixed_limits {
	int nr_workers;
	/* capacity of each private list */
	int max_items;
};

/*
 * Set how many workers an account may have, without those that I9 excepts; -1 changes
 * nothing. With 0, the submitting
 * thread executes bounded work, and unbounded work is refused.
 * Return: the old value; -EINVAL if nr is out of range or less than the number of fixed
 * workers.
 */
int uaio_wq_limit_workers(enum uaio_account account, int nr);

/*
 * Set how many fixed workers an account has, and the length of their private lists; -1
 * leaves a value unchanged.
 * Return: 0; -EINVAL if a value is out of range or exceeds the limit of workers;
 * -ENOMEM. After an error nothing has changed.
 */
int uaio_wq_limit_fixed(enum uaio_account account,
			const struct uaio_wq_fixed_limits *limits,
			struct uaio_wq_fixed_limits *ret_old);

/* Parameters that benchmarks and tests vary. */
enum uaio_wq_placement {
	UAIO_PLACE_PUBLIC, /* no private lists */
	/* each item goes to the private list of the next fixed worker, in turn */
	UAIO_PLACE_ROUND_ROBIN,
	/* short items go to the private list of a fixed worker that is awake */
	UAIO_PLACE_PACKED,
};

struct uaio_wq_tuning {
	enum uaio_wq_placement placement;
	/* after how many short items a worker posts their completions together, >= 1 */
	unsigned batch;
	bool may_spin;
};

/* Set these parameters. Context: nothing has been queued yet. */
void uaio_wq_tune(const struct uaio_wq_tuning *tuning);

struct uaio_wq_counters {
	uint64_t nr_private; /* work items put on private lists */
	/* those of nr_private that were put on another list than the item before */
	uint64_t nr_switches;
	uint64_t nr_public; /* work items put on the public list */
	/* those of nr_public that later moved to a worker's private list */
	uint64_t nr_shared;
	/* items taken from another worker's private list */
	uint64_t nr_stolen;
	/* items that waited over 50 us while a worker slept */
	uint64_t nr_late;
	uint64_t nr_locked; /* acquisitions of the account's lock */
	/* those of nr_locked that found the lock held by another thread */
	uint64_t nr_contended;
	uint64_t nr_wakes; /* sleeping workers woken */
	/* nr_private of each list */
	uint64_t nr_placed[UAIO_WQ_FIXED_MAX];
	unsigned nr_workers;
	unsigned nr_fixed;
	unsigned nr_idle;
	/* those of nr_queued that wait in lists of devices (I7) */
	unsigned nr_held;
	/*
	 * a cancelled item of a private list counts until the list's `head` has passed
	 * its slot (worklist.h)
	 */
	unsigned nr_queued;
};

/* Return in *ret the counters of crew 0. */
void uaio_wq_count(enum uaio_account account, struct uaio_wq_counters *ret);

/* Return: how many workers the account has, in all crews. */
unsigned uaio_wq_nr_workers(enum uaio_account account);

/* Return: how many threads the queue has in all, including the managers. */
unsigned uaio_wq_nr_threads(void);

/*
 * Return: whether an item has been queued for long, although a worker is awake or was
 * woken for it. Then the scheduler keeps the library's threads from running.
 */
bool uaio_wq_is_starved(int64_t now);

/*
 * On a machine that is not overloaded, a runnable thread gets a processor within this
 * time.
 */
enum { UAIO_WQ_STARVED_NS = 10000000 };

/*
 * Return: how long waking a thread takes, in ns. 0 if recent items were not short: then
 * it does not pay to spin (poll without sleeping) for their completion.
 */
int64_t uaio_wq_spin_ns(void);
/* Return: whether recent spins have found work often enough to spin again. */
bool uaio_wq_may_spin(void);
/*
 * Record whether a spin has found work; or, if the thread slept instead, whether a spin
 * would have found work.
 */
void uaio_wq_has_spun(bool was_worth_it);

#endif /* UAIO_WQ_WQ_H */
