/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/sys.h"
#include "wq/wqint.h"

enum {
	/* As many as a program usually has outstanding on what answers late. */
	MAX_BOUNDED = 256,
	MAX_UNBOUNDED = 256,
	MAX_WORKS = 64,
	/* To begin with; each wake-up that is timed corrects it. */
	WAKE_NS = 10000,
};

struct uaio_wq_account uaio_wq_accounts[UAIO_NR_ACCOUNTS];
const struct uaio_wq_ops *uaio_wq_ops;
struct uaio_wq_tuning uaio_wq_tuning;

void uaio_wq_init(const struct uaio_wq_ops *ops)
{
	static const struct {
		const char *name;
		unsigned max;
	} limits[UAIO_NR_ACCOUNTS] = {
		[UAIO_BOUNDED] = { "uaio-bound", MAX_BOUNDED },
		[UAIO_UNBOUNDED] = { "uaio-unbound", MAX_UNBOUNDED },
	};

	uaio_wq_ops = ops;
	uaio_wq_tuning = (struct uaio_wq_tuning){
		.placement = UAIO_PLACE_PACKED,
		.batch = 64,
		.may_spin = true,
	};
	for (unsigned i = 0; i < UAIO_NR_ACCOUNTS; i++) {
		struct uaio_wq_account *account = &uaio_wq_accounts[i];

		*account = (struct uaio_wq_account){
			.thread_name = limits[i].name,
			.max_workers = limits[i].max,
			.max_works = MAX_WORKS,
			.wake_ns = WAKE_NS,
			.lists = account->lists,
		};
		list_init(&account->public);
		list_init(&account->workers);
	}
	uaio_watcher_init();
}

void uaio_wq_tune(const struct uaio_wq_tuning *tuning)
{
	uaio_wq_tuning = *tuning;
}

void uaio_wq_lock(struct uaio_wq_account *account)
{
	bool was_free = uaio_trylock(&account->lock, UAIO_RANK_ACCOUNT);

	if (unlikely(!was_free))
		uaio_lock(&account->lock, UAIO_RANK_ACCOUNT);
	account->counters.nr_locked++;
	account->counters.nr_contended += !was_free;
}

void uaio_wq_unlock(struct uaio_wq_account *account)
{
	uaio_unlock(&account->lock, UAIO_RANK_ACCOUNT);
}

/*
 * Lists
 */

void uaio_wq_put_public_locked(struct uaio_wq_account *account,
			       struct uaio_work *work)
{
	work->is_public = true;
	work->slot = NULL;
	list_add_tail(&account->public, &work->link);
	account->nr_blocking += work->may_block;
	/* relaxed: advice to workers that look without the lock */
	store_relaxed(&account->nr_public,
		      load_relaxed(&account->nr_public) + 1);
}

static void remove_public_locked(struct uaio_wq_account *account,
				 struct uaio_work *work)
{
	work->is_public = false;
	list_remove(&work->link);
	account->nr_blocking -= work->may_block;
	store_relaxed(&account->nr_public,
		      load_relaxed(&account->nr_public) - 1);
}

struct uaio_work *uaio_wq_pop_public_locked(struct uaio_wq_account *account)
{
	struct uaio_work *work;

	if (list_is_empty(&account->public))
		return NULL;
	/* [step: POP_PUBLIC] */
	work = container_of(account->public.next, struct uaio_work, link);
	remove_public_locked(account, work);
	return work;
}

struct uaio_work *
uaio_wq_first_short_locked(const struct uaio_wq_account *account)
{
	struct uaio_work *work;

	if (list_is_empty(&account->public))
		return NULL;
	work = container_of(account->public.next, struct uaio_work, link);
	return work->may_block ? NULL : work;
}

void uaio_wq_spill_locked(struct uaio_wq_account *account, unsigned index)
{
	struct uaio_work *work;

	while ((work = uaio_worklist_take(&account->lists[index])))
		uaio_wq_put_public_locked(account, work);
}

static void spill_all_locked(struct uaio_wq_account *account)
{
	for (unsigned i = 0; i < UAIO_WQ_FIXED_MAX; i++)
		if (account->owners[i])
			uaio_wq_spill_locked(account, i);
}

bool uaio_wq_is_open_locked(const struct uaio_wq_account *account,
			    unsigned index)
{
	const struct uaio_worker *owner = account->owners[index];

	/* relaxed: who has just returned takes from it, too */
	return owner &&
	       (owner->is_asleep || load_relaxed(&owner->busy_since_ns));
}

/* Wake so many of those asleep. */
static void grant_locked(struct uaio_wq_account *account, unsigned nr,
			 struct uaio_wq_calls *calls)
{
	if (!nr)
		return;
	/* [step: ENSURE_GRANT] */
	account->nr_idle -= nr;
	if (account->nr_idle < account->least_idle)
		account->least_idle = account->nr_idle;
	account->nr_credits += nr;
	add_relaxed(&account->nr_searching, nr);
	account->granted_ns = uaio_now_ns();
	account->counters.nr_wakes += nr;
	calls->nr_wake += nr;
}

/*
 * Placement
 */

/*
 * Return: whether the oldest work of the list has been seen there for so long
 * that its owner must have lost its processor.
 */
static bool is_stale_locked(struct uaio_worklist *list, int64_t now)
{
	/* relaxed: a guess */
	uint64_t head = load_relaxed(&list->head);

	if (head == load_relaxed(&list->tail) || head != list->seen_head) {
		list->seen_head = head;
		list->seen_ns = now;
		return false;
	}
	return now - list->seen_ns > UAIO_WQ_STALE_NS;
}

/* Each in turn, once all are there: the one idea, and one try. */
static unsigned in_turn_locked(struct uaio_wq_account *account)
{
	unsigned index;

	if (!account->max_fixed || account->nr_fixed < account->max_fixed)
		return UAIO_WQ_FIXED_MAX;
	index = account->turn++ % account->max_fixed;
	if (!account->owners[index] ||
	    !uaio_worklist_has_room(&account->lists[index], account->max_works))
		return UAIO_WQ_FIXED_MAX;
	return index;
}

/* Short work to the first that is awake and gets on with what it has. */
static unsigned first_awake_locked(struct uaio_wq_account *account, int64_t now,
				   struct uaio_wq_calls *calls)
{
	for (unsigned i = 0; i < account->max_fixed; i++) {
		if (!account->owners[i] || uaio_wq_is_open_locked(account, i))
			continue;
		if (is_stale_locked(&account->lists[i], now)) {
			/* Its owner, who counts as searching, is not there. */
			account->counters.nr_late += account->nr_idle > 0;
			uaio_wq_spill_locked(account, i);
			grant_locked(account, account->nr_idle > 0, calls);
		} else if (uaio_worklist_has_room(&account->lists[i],
						  account->max_works)) {
			return i;
		}
	}
	return UAIO_WQ_FIXED_MAX;
}

static void place_locked(struct uaio_wq_account *account,
			 struct uaio_work *work, int64_t now,
			 struct uaio_wq_calls *calls)
{
	unsigned index = UAIO_WQ_FIXED_MAX;

	if (uaio_wq_tuning.placement == UAIO_PLACE_ROUND_ROBIN)
		index = in_turn_locked(account);
	else if (uaio_wq_tuning.placement == UAIO_PLACE_PACKED &&
		 !work->may_block)
		index = first_awake_locked(account, now, calls);

	work->queued_ns = now;
	if (index < UAIO_WQ_FIXED_MAX) {
		work->is_public = false;
		account->counters.nr_private++;
		account->counters.nr_switches += index != account->last_index;
		account->last_index = index;
		account->counters.nr_placed[index]++;
		uaio_worklist_put(&account->lists[index], work, &work->slot);
	} else {
		uaio_wq_put_public_locked(account, work);
		account->counters.nr_public++;
	}
}

/*
 * Wake-ups
 */

unsigned uaio_wq_need_locked(struct uaio_wq_account *account)
{
	unsigned nr_public = load_relaxed(&account->nr_public);
	unsigned need =
		account->nr_blocking + (nr_public > account->nr_blocking);
	/* relaxed: whoever it counts looks at the lists under this lock */
	unsigned nr_searching = load_relaxed(&account->nr_searching);

	if (account->nr_fixed)
		for (unsigned i = 0; i < UAIO_WQ_FIXED_MAX; i++)
			if (uaio_wq_is_open_locked(account, i))
				need += (unsigned)uaio_worklist_count(
					&account->lists[i]);
	return need > nr_searching ? need - nr_searching : 0;
}

bool uaio_wq_lacks_workers_locked(const struct uaio_wq_account *account,
				  unsigned need)
{
	return (need || account->nr_workers < account->max_fixed) &&
	       account->nr_workers < account->max_workers;
}

void uaio_wq_ensure_locked(struct uaio_wq_account *account,
			   struct uaio_wq_calls *calls)
{
	unsigned need = uaio_wq_need_locked(account);
	unsigned nr = need < account->nr_idle ? need : account->nr_idle;

	grant_locked(account, nr, calls);
	if (account->is_watched ||
	    !uaio_wq_lacks_workers_locked(account, need - nr))
		return;
	/* [step: ENSURE_WATCH] */
	account->is_watched = true;
	account->watched_ns = uaio_now_ns();
	calls->wakes_watcher = true;
}

bool uaio_wq_deliver(struct uaio_wq_account *account,
		     const struct uaio_wq_calls *calls)
{
	/* [step: WAKE] */
	if (calls->nr_wake)
		uaio_ec_notify(&account->sleepers, calls->nr_wake);
	return !calls->wakes_watcher || uaio_watcher_call();
}

void uaio_wq_deliver_from_worker(struct uaio_wq_account *account,
				 const struct uaio_wq_calls *calls)
{
	if (uaio_wq_deliver(account, calls))
		return;
	/* [step: WATCH_UNDONE] Without workers, who queued has called as well. */
	uaio_wq_lock(account);
	if (account->nr_workers)
		account->is_watched &= uaio_watcher_is_there();
	uaio_wq_unlock(account);
}

/*
 * [step: GIVE_BACK] Take all that is queued where nobody is there to run it. If
 * somebody is by now, a watcher that is there looks on, whoever had it created.
 */
static void give_back(struct uaio_wq_account *account, struct list *ret_refused)
{
	struct uaio_work *work;

	uaio_wq_lock(account);
	if (account->nr_workers)
		account->is_watched &= uaio_watcher_is_there();
	else
		account->is_watched = account->is_helped;
	if (account->nr_workers == 0)
		while ((work = uaio_wq_pop_public_locked(account)))
			list_add_tail(ret_refused, &work->link);
	uaio_wq_unlock(account);
}

static void queue_locked(struct uaio_wq_account *account, struct list *works,
			 struct uaio_wq_calls *calls, struct list *ret_refused)
{
	int64_t now = uaio_now_ns();
	struct list *node;

	while ((node = list_pop(works))) {
		struct uaio_work *work =
			container_of(node, struct uaio_work, link);

		if (unlikely(!account->max_workers ||
			     uaio_wq_ops->is_awaited(work)))
			list_add_tail(ret_refused, node);
		else
			place_locked(account, work, now, calls);
	}
}

static void queue(struct uaio_wq_account *account, struct list *works,
		  bool is_last, struct list *ret_refused)
{
	struct uaio_wq_calls calls = { 0 };
	bool is_alone;

	uaio_wq_lock(account);
	queue_locked(account, works, &calls, ret_refused);
	/* What the only thread there is makes may take its time. */
	is_alone = account->is_helped && !account->nr_workers;
	uaio_wq_ensure_locked(account, &calls);
	if (is_last && calls.wakes_watcher) {
		/* uaio_wq_revive() comes after it. */
		calls.wakes_watcher = false;
		account->is_watched = false;
	} else if (!is_last && account->is_watched && !account->nr_workers) {
		/* Who called has perhaps not yet learnt that it was refused. */
		calls.wakes_watcher = true;
	}
	uaio_wq_unlock(account);
	if (!uaio_wq_deliver(account, &calls) || is_alone)
		give_back(account, ret_refused);
}

void uaio_wq_kick(struct uaio_kick *kick, struct list *ret_refused)
{
	for (unsigned i = 0; i < UAIO_NR_ACCOUNTS; i++) {
		if (!kick->nr[i])
			continue;
		kick->nr[i] = 0;
		queue(&uaio_wq_accounts[i], &kick->works[i], kick->is_last,
		      ret_refused);
	}
}

void uaio_wq_revive(struct list *ret_refused)
{
	for (unsigned i = 0; i < UAIO_NR_ACCOUNTS; i++) {
		struct list nothing;

		list_init(&nothing);
		queue(&uaio_wq_accounts[i], &nothing, false, ret_refused);
	}
}

/*
 * Taking out
 */

struct uaio_work *uaio_wq_take(bool (*is_wanted)(const struct uaio_work *work,
						 const void *arg),
			       const void *arg)
{
	struct uaio_wq_account *account = &uaio_wq_accounts[UAIO_BOUNDED];
	struct uaio_work *found = NULL;
	struct uaio_wq_calls calls = { 0 };

	uaio_wq_lock(account);
	/*
	 * What is in a private list may be taken and gone while it is looked
	 * at; what is in the public one stays.
	 */
	spill_all_locked(account);
	list_for_each (pos, &account->public) {
		struct uaio_work *work =
			container_of(pos, struct uaio_work, link);

		if (!is_wanted(work, arg))
			continue;
		remove_public_locked(account, work);
		found = work;
		break;
	}
	uaio_wq_ensure_locked(account, &calls);
	/*
	 * What was spilled was a worker's that is awake. Where there is no
	 * watcher, that one calls it before it blocks (I4).
	 */
	if (calls.wakes_watcher && !uaio_watcher_tell())
		account->is_watched = false;
	calls.wakes_watcher = false;
	uaio_wq_unlock(account);
	(void)uaio_wq_deliver(account, &calls);
	return found;
}

bool uaio_wq_cancel(enum uaio_account id, struct uaio_work *work)
{
	struct uaio_wq_account *account = &uaio_wq_accounts[id];
	bool was_queued;

	uaio_wq_lock(account);
	was_queued = work->is_public;
	if (was_queued)
		/* [step: CANCEL_PUBLIC] */
		remove_public_locked(account, work);
	else if (work->slot)
		was_queued = uaio_worklist_remove(work->slot, work);
	uaio_wq_unlock(account);
	return was_queued;
}

bool uaio_wq_is_full(void)
{
	struct uaio_wq_account *account = &uaio_wq_accounts[UAIO_BOUNDED];
	bool is_full;

	uaio_wq_lock(account);
	is_full = account->nr_workers >= account->max_workers;
	uaio_wq_unlock(account);
	return is_full;
}

unsigned uaio_wq_callers(const void *on, uint32_t *ret_tids, unsigned max)
{
	struct uaio_wq_account *account = &uaio_wq_accounts[UAIO_BOUNDED];
	unsigned nr = 0;

	uaio_wq_lock(account);
	list_for_each (pos, &account->workers) {
		const struct uaio_worker *worker =
			container_of(pos, struct uaio_worker, node);

		/* [MB:called-on] acquire: pairs with uaio_wq_calls(). */
		if (load_acquire(&worker->called_on) != on)
			continue;
		if (nr < max)
			ret_tids[nr] = worker->tid;
		nr++;
	}
	uaio_wq_unlock(account);
	return nr;
}

/*
 * Limits
 */

/* Everybody looks again: roles may have changed. */
static void apply_and_unlock(struct uaio_wq_account *account)
{
	struct uaio_wq_calls calls = { 0 };

	grant_locked(account, account->nr_idle, &calls);
	/* Fixed workers are created along with the first work. */
	if (load_relaxed(&account->nr_public) || uaio_wq_need_locked(account))
		uaio_wq_ensure_locked(account, &calls);
	uaio_wq_unlock(account);
	/* There are workers if it is newly watched. */
	uaio_wq_deliver_from_worker(account, &calls);
}

int uaio_wq_limit_workers(enum uaio_account id, int nr)
{
	struct uaio_wq_account *account = &uaio_wq_accounts[id];
	int old;

	if (nr < -1 || nr > UAIO_WQ_WORKERS_MAX)
		return -EINVAL;
	uaio_wq_lock(account);
	old = (int)account->max_workers;
	if (nr < 0 || (unsigned)nr < account->max_fixed) {
		uaio_wq_unlock(account);
		return nr < 0 ? old : -EINVAL;
	}
	account->max_workers = (unsigned)nr;
	apply_and_unlock(account);
	return old;
}

/* Once per account and process, under its lock: rare and short. */
static bool map_lists_locked(struct uaio_wq_account *account)
{
	void *lists;

	if (account->lists)
		return true;
	lists = sys_mmap(NULL, UAIO_WQ_FIXED_MAX * sizeof(*account->lists),
			 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
	if (sys_is_map_error(lists))
		return false;
	account->lists = lists;
	return true;
}

int uaio_wq_limit_fixed(enum uaio_account id,
			const struct uaio_wq_fixed_limits *limits,
			struct uaio_wq_fixed_limits *ret_old)
{
	struct uaio_wq_account *account = &uaio_wq_accounts[id];
	int ret = 0;

	if (limits->nr_workers < -1 || limits->nr_workers > UAIO_WQ_FIXED_MAX ||
	    limits->max_works < -1)
		return -EINVAL;
	uaio_wq_lock(account);
	if (limits->nr_workers > (int)account->max_workers)
		ret = -EINVAL;
	else if (limits->nr_workers > 0 && !map_lists_locked(account))
		ret = -ENOMEM;
	if (ret < 0) {
		uaio_wq_unlock(account);
		return ret;
	}
	ret_old->nr_workers = (int)account->max_fixed;
	ret_old->max_works = (int)account->max_works;
	if (limits->nr_workers >= 0)
		account->max_fixed = (unsigned)limits->nr_workers;
	if (limits->max_works >= 0)
		account->max_works = limits->max_works < UAIO_WQ_WORKS_MAX
					     ? (uint64_t)limits->max_works
					     : UAIO_WQ_WORKS_MAX;
	apply_and_unlock(account);
	return 0;
}

void uaio_wq_count(enum uaio_account id, struct uaio_wq_counters *ret)
{
	struct uaio_wq_account *account = &uaio_wq_accounts[id];

	uaio_wq_lock(account);
	*ret = account->counters;
	ret->nr_workers = account->nr_workers;
	ret->nr_fixed = account->nr_fixed;
	ret->nr_idle = account->nr_idle;
	ret->nr_queued = load_relaxed(&account->nr_public);
	for (unsigned i = 0; i < UAIO_WQ_FIXED_MAX; i++)
		if (account->owners[i])
			ret->nr_queued += (unsigned)uaio_worklist_count(
				&account->lists[i]);
	uaio_wq_unlock(account);
}

unsigned uaio_wq_nr_workers(enum uaio_account id)
{
	struct uaio_wq_counters counters;

	uaio_wq_count(id, &counters);
	return counters.nr_workers;
}

unsigned uaio_wq_nr_threads(void)
{
	return uaio_wq_nr_workers(UAIO_BOUNDED) +
	       uaio_wq_nr_workers(UAIO_UNBOUNDED) + uaio_watcher_is_there();
}
