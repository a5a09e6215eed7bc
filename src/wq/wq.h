/* SPDX-License-Identifier: MIT */
/*
 * Work queue: threads for what would block the caller
 *
 * Two accounts, each with its own lists, lock, workers and limits: bounded work
 * ends by itself in finite time; unbounded work may wait for ever and must not
 * hold up the other.
 *
 * An account has a public list, which every worker serves, and may have fixed
 * workers, each with a private list (worklist.h) in front of that. What is put
 * where is placement, wq.c; who runs, sleeps and comes into being, worker.c.
 *
 *   I1  A work is in one list, or has been taken out of it by one party, who
 *       runs it or completes it otherwise: a worker, or whoever took it out by
 *       uaio_wq_take() or uaio_wq_cancel().
 *   I2  While a work is queued that no awake worker will come to, no worker
 *       of its account is asleep; and if one more may be created, the watcher
 *       has been told. An awake worker is one that will look at all lists
 *       before it sleeps and before it makes a call that may block.
 *   I3  A worker sleeps only after it has found all lists empty under the lock
 *       under which they are filled.
 *   I4  Before a worker makes a call that may block, it sees to I2 for what
 *       it leaves behind, its own list included: others may take from that as
 *       long as it is asleep or in such a call.
 *   I5  A worker decides to leave under the lock, with nothing for it to do or
 *       beyond the limit, and is not counted from then on. The last one leaves
 *       only when nothing is queued.
 *   I6  A fixed worker that has run STREAK works of its own looks at the public
 *       list next.
 *
 * Works that depend on one another are not in the queue at the same time: of
 * those that have to follow each other only the first is, and who completes it
 * queues the next. So no worker ever waits for another's work, and a list
 * may be taken from in any order.
 *
 * A worker is added when there is none, or when a work has waited 100 us with
 * all of them blocked; from 32 on only one for each whose call has taken 500 us:
 * so there are as many as what is slow or hung holds, and few for what is fast.
 * Normal workers leave after 5 s idle, those beyond 32 sooner; fixed ones stay.
 * Threads are created by a thread of the queue's own, the watcher, and that one
 * by whoever needs it first. If it cannot be had, who queued gets the work back
 * and makes it; if it is there and can create no worker, it runs bounded work
 * itself.
 *
 * test/model/wq.pml is a model of the lists, of sleeping and of waking; steps of
 * it are named in the code, as [step: ...].
 *
 * Thread-safety: any thread.
 */
#ifndef UAIO_WQ_WQ_H
#define UAIO_WQ_WQ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/list.h"

struct uaio_worker;

enum uaio_account {
	UAIO_BOUNDED,
	UAIO_UNBOUNDED,
	UAIO_NR_ACCOUNTS,
};

/* Embedded in what is to be run. */
struct uaio_work {
	struct list link; /* who has it, while it is in no list */
	bool may_block;   /* set by who queues it */
	bool is_part;     /* the same, for itself: of what is several works */

	/* under the account's lock */
	bool is_public;
	struct uaio_work **slot; /* where it was put last, if not public */
	int64_t queued_ns;
};

/* What the queue asks of who owns the works. */
struct uaio_wq_ops {
	/*
	 * Run work and complete it. A worker that makes a call which may block
	 * says so when it is back: uaio_wq_returned(), before anybody can see
	 * the completion. Called without locks.
	 */
	void (*run)(struct uaio_work *work, struct uaio_worker *worker);

	/*
	 * Complete what run() has put on the worker's list of done works: of
	 * those that cannot block, some may be completed together.
	 */
	void (*flush)(struct uaio_worker *worker);

	/* No thread is to be had for unbounded work: complete it so. */
	void (*refuse)(struct uaio_work *work);

	/*
	 * Return: whether work is not to be queued, since somebody waits for it
	 * who has looked through the queue, or will, and cannot wait for a
	 * worker. Called under the account's lock.
	 */
	bool (*is_awaited)(const struct uaio_work *work);
};

/* Works of one submission, queued together: one wake-up for all of them. */
struct uaio_kick {
	uint32_t nr[UAIO_NR_ACCOUNTS];
	bool is_last; /* the caller leaves: no thread is created for it */
	struct uaio_worker *worker;          /* whose kick it is, or NULL */
	struct list works[UAIO_NR_ACCOUNTS]; /* nothing if nr is 0 */
};

static inline void uaio_kick_init(struct uaio_kick *kick)
{
	for (unsigned i = 0; i < UAIO_NR_ACCOUNTS; i++)
		kick->nr[i] = 0;
	kick->is_last = false;
	kick->worker = NULL;
}

static inline bool uaio_kick_is_owed(const struct uaio_kick *kick)
{
	return kick->nr[UAIO_BOUNDED] | kick->nr[UAIO_UNBOUNDED];
}

struct uaio_worker {
	struct list done; /* the runner's: works run but not completed */
	uint32_t nr_done;

	/* the queue's */
	struct uaio_wq_account *account;
	struct uaio_worklist *list; /* borrows: a fixed worker's; or NULL */
	unsigned index;             /* of the list */
	unsigned streak;            /* works run in a row from it */
	bool is_helper;             /* the watcher, not counted as a worker */
	bool is_asleep;             /* under the lock */
	int64_t busy_since_ns;      /* atomic: in a call that may block; or 0 */
	const void *called_on;      /* atomic: see uaio_wq_calls(); or NULL */
	uint32_t tid;               /* the kernel's number of the thread */
	struct list node;           /* under the lock: in the account */
};

/* From nothing: the threads of another process life are not ours. */
void uaio_wq_init(const struct uaio_wq_ops *ops);

/* Note work for the next kick. It is the queue's from here on. */
static inline void uaio_wq_add(enum uaio_account account,
			       struct uaio_work *work, struct uaio_kick *kick)
{
	if (!kick->nr[account]++)
		list_init(&kick->works[account]);
	list_add_tail(&kick->works[account], &work->link);
}

/*
 * Queue what is noted and see to workers. Appended to ret_refused is what is
 * the caller's to make: works that are awaited, and, if there are no threads
 * and none can be created, all that is queued.
 */
void uaio_wq_kick(struct uaio_kick *kick, struct list *ret_refused);

/*
 * Take a bounded work that is queued and wanted, the oldest of the public list
 * first. is_wanted() is called under the account's lock.
 * Return: it, the caller's to run and complete; NULL if none is.
 */
struct uaio_work *uaio_wq_take(bool (*is_wanted)(const struct uaio_work *work,
						 const void *arg),
			       const void *arg);

/*
 * Take work out of the queue, where whoever asks keeps its memory in place.
 * Return: true if it was queued; it is the caller's now.
 */
bool uaio_wq_cancel(enum uaio_account account, struct uaio_work *work);

/* Create the workers that were not while somebody was about to leave. */
void uaio_wq_revive(struct list *ret_refused);

/* From run(): the call that might have blocked is over. */
void uaio_wq_returned(struct uaio_worker *worker);
/* From run(), after that: another one begins. */
void uaio_wq_blocks(struct uaio_worker *worker);

/*
 * From run(): from here on the worker makes one system call on what on stands
 * for, and no more than that one until it says so: with NULL, none.
 */
static inline void uaio_wq_calls(struct uaio_worker *worker, const void *on)
{
	/*
	 * [MB:called-on] release: what it did before is over. Pairs with
	 * uaio_wq_callers().
	 */
	store_release(&worker->called_on, on);
}

/*
 * Return: how many workers of the bounded account say so of on; the numbers of
 * at most max of them in ret_tids.
 */
unsigned uaio_wq_callers(const void *on, uint32_t *ret_tids, unsigned max);

/* Return: whether the bounded account has all the workers it may have. */
bool uaio_wq_is_full(void);

/*
 * Limits: at any time, under load; the values take effect at once for what is
 * queued from now on, and for workers as they come by.
 */
enum {
	UAIO_WQ_WORKERS_MAX = 4096,
	UAIO_WQ_FIXED_MAX = 16,
	UAIO_WQ_WORKS_MAX = 1024, /* more are taken for this */
};

struct uaio_wq_fixed_limits {
	int nr_workers;
	int max_works; /* each private list takes */
};

/*
 * Set how many workers an account may have; -1 leaves it. With 0, bounded work
 * is made by who submits it, and unbounded work refused.
 * Return: the old value; -EINVAL if nr is out of range or less than the fixed
 * workers asked for.
 */
int uaio_wq_limit_workers(enum uaio_account account, int nr);

/*
 * The same for fixed workers and their lists; each value may be -1.
 * Return: 0, or -EINVAL with nothing changed: out of range, or more than the
 * account may have; -ENOMEM.
 */
int uaio_wq_limit_fixed(enum uaio_account account,
			const struct uaio_wq_fixed_limits *limits,
			struct uaio_wq_fixed_limits *ret_old);

/* What benchmarks and tests vary. */
enum uaio_wq_placement {
	UAIO_PLACE_PUBLIC,      /* no private lists */
	UAIO_PLACE_ROUND_ROBIN, /* every work, to each fixed worker in turn */
	UAIO_PLACE_PACKED,      /* short works to one that is awake */
};

struct uaio_wq_tuning {
	enum uaio_wq_placement placement;
	unsigned batch; /* short works completed together, >= 1 */
	bool may_spin;
};

/* Before anything is queued. */
void uaio_wq_tune(const struct uaio_wq_tuning *tuning);

struct uaio_wq_counters {
	uint64_t nr_private;  /* works put on private lists */
	uint64_t nr_switches; /* of them, on another than the one before */
	uint64_t nr_public;   /* and on the public one */
	uint64_t nr_shared;   /* moved from there to the taker's private list */
	uint64_t nr_stolen;   /* taken from another's private list */
	uint64_t nr_late;     /* taken after 50 us while a worker slept */
	uint64_t nr_locked;   /* acquisitions of the account's lock */
	uint64_t nr_contended; /* of them, those that found it taken */
	uint64_t nr_wakes;     /* sleeping workers woken */
	uint64_t nr_placed[UAIO_WQ_FIXED_MAX]; /* on each private list */
	unsigned nr_workers;
	unsigned nr_fixed;
	unsigned nr_idle;
	unsigned nr_queued; /* cancelled ones count until they are passed */
};

void uaio_wq_count(enum uaio_account account, struct uaio_wq_counters *ret);

/* Return: threads of the account. */
unsigned uaio_wq_nr_workers(enum uaio_account account);

/* Return: threads of the queue in all, the watcher included. */
unsigned uaio_wq_nr_threads(void);

/*
 * Return: whether work has been queued for long though a worker is awake, or about
 * to be, that should have come to it: our threads are not given a processor.
 */
bool uaio_wq_is_starved(int64_t now);

/* A thread that is to run does within so long, on a machine that is not overrun. */
enum { UAIO_WQ_STARVED_NS = 10000000 };

/*
 * Return: what it costs to wake who sleeps, in ns, where works are short and
 * spinning instead may pay; otherwise 0.
 */
int64_t uaio_wq_spin_ns(void);
/* Return: whether it has not been in vain too often of late. */
bool uaio_wq_may_spin(void);
/* Note whether it has paid, or would have. */
void uaio_wq_has_spun(bool was_worth_it);

#endif /* UAIO_WQ_WQ_H */
