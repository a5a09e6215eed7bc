/* SPDX-License-Identifier: MIT */
/*
 * Work queue: threads for what would block the caller
 *
 * There are two accounts, each with its own lists, lock, workers and limits:
 * bounded work ends by itself in finite time; unbounded work may wait for ever,
 * and must not delay the other.
 *
 * An account has a public list, which every worker serves. It may have fixed
 * workers, each of which has a private list (worklist.h) that it serves first.
 * wq.c decides which list a work item is put on (placement) and whom to wake;
 * worker.c what a worker runs, when it sleeps and when it ends.
 *
 *   I1  A work item is in one list, or one thread has taken it out of the list
 *       and runs it or completes it otherwise: a worker, or the caller of
 *       uaio_wq_take() or uaio_wq_cancel().
 *   I2  While a work item is queued that no awake worker will come to, no
 *       worker of its account is asleep; and if one more may be created, the
 *       manager has been told. An awake worker is one that will look at all
 *       lists before it sleeps and before it makes a call that may block.
 *   I3  A worker sleeps only after it has found all lists empty, under the lock
 *       under which they are filled.
 *   I4  Before a worker makes a call that may block, it sees to it that I2
 *       holds for what it leaves behind, its own list included: other threads
 *       may take from that list as long as the worker is asleep or in such a
 *       call.
 *   I5  A worker decides under the lock that it ends, because there is nothing
 *       for it to do or because there are more workers than the limit, and is
 *       not counted from then on. The last one ends only if nothing is queued.
 *   I6  A fixed worker that has run STREAK work items of its own list in a row
 *       looks at the public list next.
 *   I7  A device may occupy at most seven workers for each one that may still be
 *       had. A public item beyond that is moved to a list of its device. It is
 *       taken from there, before public items, once the device occupies fewer.
 *   I8  An item is run by a thread of its crew, or by a thread of the same
 *       identity (proc/identity.h): never by any other thread.
 *
 * Work items that depend on one another are not in the queue at the same time:
 * if several have to follow each other, only the first is queued, and the
 * thread that completes it queues the next one. So no worker ever waits for
 * another worker's item, and a list may be taken from in any order.
 *
 * A worker is added when there is none, or when a work item has waited 100 us
 * while all workers are blocked. From 32 workers on, one is added only for each
 * worker whose call has taken 500 us. So slow or hung calls get as many workers
 * as they occupy, and fast calls few. A normal worker ends after 5 s idle, one
 * beyond 32 sooner; fixed workers stay. Workers are created by one thread of
 * the queue, the manager, which is created by the first thread that needs it.
 * If the manager cannot be created, the thread that has queued something gets
 * it back and executes it. If the manager exists and can create no worker, it
 * runs bounded work itself.
 *
 * A crew is two accounts and a manager, whose threads all have one identity.
 * Crew 0 is the process's. Others are formed for threads that have changed their
 * own credentials: the thread that submits a request enlists, and creates the
 * crew's manager, if there is none, so that the crew's threads inherit the
 * submitter's identity.
 *
 *   C1  A crew's manager is created by a thread of the crew's identity, and its
 *       workers by its manager.
 *   C2  While a request is enlisted, the crew's manager does not end, and the
 *       crew serves no other identity.
 *   C3  Once identities may differ, crew 0's manager does not end.
 *
 * test/model/wq.pml is a model of the lists, of sleeping and of waking. The
 * code names its steps: [step: ...].
 *
 * Thread-safety: any thread.
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

/* A work item; embedded in what has to be run. */
struct uaio_work {
	struct list link; /* for whoever has taken it, while it is in no list */
	bool may_block : 1; /* set by the thread that queues it */
	bool is_part : 1;   /* the owner's: one of several of one object */
	uint8_t crew;       /* the owner's: the crew that executes it */

	/* under the account's lock */
	bool is_public;
	bool is_held; /* in a list of its device (I7) */

	/*
	 * Set by the thread that queues it. Calls with the same number wait for the same
	 * device, so that all of them may be slow together; 0: no device is known.
	 */
	uint32_t device;

	/* under the account's lock */
	struct uaio_work **slot; /* where it was put last, if not public */
	int64_t queued_ns;
};

/* What the queue asks of the owner of the work items. */
struct uaio_wq_ops {
	/*
	 * Run work, and complete it. If it may block, the worker calls
	 * uaio_wq_returned() when its call is over, before anybody can see the
	 * completion. Called without a lock.
	 */
	void (*run)(struct uaio_work *work, struct uaio_worker *worker);

	/*
	 * Items that cannot block may be completed together: run() puts them on
	 * the worker's list, done, and this completes all that are there.
	 */
	void (*flush)(struct uaio_worker *worker);

	/* Complete unbounded work for which no thread can be had. */
	void (*refuse)(struct uaio_work *work);

	/*
	 * Return: whether work must not be queued, because a thread waits for
	 * it that has looked through the queue, or will, and cannot wait for a
	 * worker. Called under the account's lock.
	 */
	bool (*is_awaited)(const struct uaio_work *work);
};

/*
 * Work items that are noted during a submission and queued together at its end,
 * with one wake-up for all of them.
 */
struct uaio_handover {
	uint32_t nr[UAIO_NR_ACCOUNTS];
	bool is_last; /* the program is about to end: create no thread for it */
	struct uaio_worker *worker;          /* that submits; or NULL */
	struct list items[UAIO_NR_ACCOUNTS]; /* nothing if nr is 0 */
	uint32_t nr_others; /* what goes elsewhere with them: flow's */
	struct list others; /* nothing if nr_others is 0 */
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
	/* the owner's: work items that were run and are not completed yet */
	struct list done;
	uint32_t nr_done;

	/* the queue's */
	struct uaio_wq_account *account;
	struct uaio_worklist *list; /* borrows: a fixed worker's; or NULL */
	unsigned index;             /* of the list */
	unsigned streak;            /* work items run in a row from it */
	bool is_helper;             /* the manager, not counted as a worker */
	bool is_asleep;             /* under the lock */
	int64_t busy_since_ns;      /* atomic: in a call that may block; or 0 */
	uint32_t device;       /* atomic: of its last item that may block */
	const void *called_on; /* atomic: see uaio_wq_calls(); or NULL */
	uint32_t tid;          /* the thread's id */
	uint32_t nr_binds;     /* the thread's: see uaio_thread_follow() */
	struct list node;      /* under the lock: in the account */
};

/* How many identities may have requests at the same time. */
enum { UAIO_WQ_CREWS = 256, UAIO_WQ_NO_CREW = UAIO_WQ_CREWS };

/*
 * The calling thread submits a request that may be queued: form the crew of its
 * identity, or keep it. Each request is delisted when it is complete.
 * Return: the crew; UAIO_WQ_NO_CREW if UAIO_WQ_CREWS other identities have requests.
 * Context: no lock is held.
 */
unsigned uaio_wq_enlist_slowly(void);
/* The same in a crew in which something else is enlisted; any thread. */
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

/* Return: whether identity is that of the crew that work belongs to. */
bool uaio_wq_is_of(const struct uaio_work *work, uint32_t identity);

/* Return: whether this thread has the domain of that crew (identity.h I2). */
bool uaio_wq_is_of_my_domain(const struct uaio_work *work);

/* Return: whether this thread has the identity of that crew. */
static inline bool uaio_wq_is_mine(const struct uaio_work *work)
{
	return likely(!uaio_identities_are_many()) ||
	       uaio_wq_is_of(work, uaio_identity_mine());
}

/*
 * Called by a thread of the process's identity before identities may differ: from
 * now on crew 0 has a manager for good.
 */
void uaio_wq_hold(void);

/*
 * Called when the library comes up in a process: there are no threads, as those
 * of a parent do not exist here.
 */
void uaio_wq_init(const struct uaio_wq_ops *ops);

/* Note work for the handover. From now on it belongs to the queue. */
static inline void uaio_wq_add(enum uaio_account account,
			       struct uaio_work *work,
			       struct uaio_handover *handover)
{
	if (!handover->nr[account]++)
		list_init(&handover->items[account]);
	list_add_tail(&handover->items[account], &work->link);
}

/*
 * Queue what is noted, and wake or create workers for it. To ret_refused are
 * appended the items that the caller has to execute itself: those that are
 * awaited (is_awaited()), and, if there are no threads and none can be created,
 * all that are queued.
 */
void uaio_wq_hand_over(struct uaio_handover *handover,
		       struct list *ret_refused);

/*
 * Take a bounded work item of this thread's crew out of the queue for which is_wanted()
 * returns true: of those in the public list the oldest. is_wanted() is called under the
 * account's lock.
 * Return: the item, which the caller has to run and complete; or NULL.
 */
struct uaio_work *uaio_wq_take(bool (*is_wanted)(const struct uaio_work *work,
						 const void *arg),
			       const void *arg);

/*
 * Take work out of the queue. The caller sees to it that its memory stays
 * valid. Return: true if it was queued; then it belongs to the caller now.
 */
bool uaio_wq_cancel(enum uaio_account account, struct uaio_work *work);

/* Create the workers that were not created because of is_last (above). */
void uaio_wq_revive(struct list *ret_refused);

/* Called by run(): the call that might have blocked is over. */
void uaio_wq_returned(struct uaio_worker *worker);
/*
 * Called by run() after that, and by flush(): another such call begins.
 * Return: true: uaio_wq_returned() is to follow; false: the worker counts as blocked
 * already, as it has taken an item that may block, and flushes before it runs that.
 */
bool uaio_wq_blocks(struct uaio_worker *worker);

/*
 * Called by run(): from here on the worker makes one system call on the object
 * that on identifies, and no more than one, until it calls this again; NULL: it
 * makes none.
 */
static inline void uaio_wq_calls(struct uaio_worker *worker, const void *on)
{
	/*
	 * [MB:called-on] release: what the worker did before is over. Pairs
	 * with uaio_wq_callers().
	 */
	store_release(&worker->called_on, on);
}

/*
 * The same, for a worker that next reads something that another thread writes before
 * it calls uaio_wq_callers(): seq_cst, also against what that thread reads later.
 * Return: false for one that is not among those; nothing was done.
 */
static inline bool uaio_wq_calls_seq_cst(struct uaio_worker *worker,
					 const void *on)
{
	if (worker->is_helper)
		return false;
	/* [MB:native-closing] seq_cst: see the caller. */
	store_seq_cst(&worker->called_on, on);
	return true;
}

/*
 * Return: how many workers of the bounded account have last called
 * uaio_wq_calls() with on; ret_tids: the thread ids of at most max of them.
 */
unsigned uaio_wq_callers(const void *on, uint32_t *ret_tids, unsigned max);

/*
 * Return: whether the account, of the calling thread's crew, has all the workers that
 * it may, or can, have now.
 */
bool uaio_wq_is_full(enum uaio_account account);

/*
 * Limits may be changed at any time, under load. The new values apply at once
 * to what is queued from then on, and to each worker when it next takes an
 * item.
 */
enum {
	UAIO_WQ_WORKERS_MAX = 4096,
	UAIO_WQ_FIXED_MAX = 16,
	UAIO_WQ_ITEMS_MAX = 1024, /* more is taken as this */
};

struct uaio_wq_fixed_limits {
	int nr_workers;
	int max_items; /* the length of each private list */
};

/*
 * Set how many workers an account may have; -1 changes nothing. With 0, bounded
 * work is executed by the thread that submits it, and unbounded work is
 * refused. Return: the old value; -EINVAL if nr is out of range, or less than
 * the number of fixed workers that was asked for.
 */
int uaio_wq_limit_workers(enum uaio_account account, int nr);

/*
 * The same for fixed workers and their lists; each value may be -1.
 * Return: 0; -EINVAL if a value is out of range or more than the account may
 * have, and -ENOMEM: then nothing has changed.
 */
int uaio_wq_limit_fixed(enum uaio_account account,
			const struct uaio_wq_fixed_limits *limits,
			struct uaio_wq_fixed_limits *ret_old);

/* What benchmarks and tests vary. */
enum uaio_wq_placement {
	UAIO_PLACE_PUBLIC,      /* no private lists */
	UAIO_PLACE_ROUND_ROBIN, /* each item to the next fixed worker */
	UAIO_PLACE_PACKED,      /* short items to an awake fixed worker */
};

struct uaio_wq_tuning {
	enum uaio_wq_placement placement;
	unsigned batch; /* short items completed together at most, >= 1 */
	bool may_spin;
};

/* Call it before anything is queued. */
void uaio_wq_tune(const struct uaio_wq_tuning *tuning);

struct uaio_wq_counters {
	uint64_t nr_private;  /* work items put on private lists */
	uint64_t nr_switches; /* of these, on another list than the last one */
	uint64_t nr_public;   /* work items put on the public list */
	uint64_t nr_shared;   /* moved from there to the taker's private list */
	uint64_t nr_stolen;   /* taken from another worker's private list */
	uint64_t nr_late;     /* taken after 50 us while a worker slept */
	uint64_t nr_locked;   /* acquisitions of the account's lock */
	uint64_t nr_contended; /* of these, those that found it taken */
	uint64_t nr_wakes;     /* sleeping workers woken */
	uint64_t nr_placed[UAIO_WQ_FIXED_MAX]; /* on each private list */
	unsigned nr_workers;
	unsigned nr_fixed;
	unsigned nr_idle;
	unsigned nr_held;   /* of nr_queued, those in lists of devices */
	unsigned nr_queued; /* cancelled items count until passed */
};

/* Count of the process's crew. */
void uaio_wq_count(enum uaio_account account, struct uaio_wq_counters *ret);

/* Return: how many workers the account has, in all crews. */
unsigned uaio_wq_nr_workers(enum uaio_account account);

/* Return: how many threads the queue has in all, including the managers. */
unsigned uaio_wq_nr_threads(void);

/*
 * Return: whether work has been queued for long although a worker is awake, or
 * is about to be, that should have come to it: the scheduler gives our threads
 * no processor.
 */
bool uaio_wq_is_starved(int64_t now);

/*
 * Unless the machine is overloaded, a thread that is runnable runs within this.
 */
enum { UAIO_WQ_STARVED_NS = 10000000 };

/*
 * Return: if work items are short, so that spinning for their completion may
 * cost less than sleeping: what it costs to wake a thread, in ns. Otherwise 0.
 */
int64_t uaio_wq_spin_ns(void);
/* Return: whether spinning has not been in vain too often recently. */
bool uaio_wq_may_spin(void);
/* Note whether spinning has paid, or would have. */
void uaio_wq_has_spun(bool was_worth_it);

#endif /* UAIO_WQ_WQ_H */
