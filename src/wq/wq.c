/* SPDX-License-Identifier: MIT */
#include "base/check.h"
#include "base/sys.h"
#include "wq/wqint.h"

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

static bool is_of_my_crew(const struct uaio_wq_account *account)
{
	/*
	 * relaxed: the crew's identity does not change while the crew has requests
	 */
	return load_relaxed(&account->crew->identity) == uaio_identity_mine();
}

static struct uaio_wq_account *account_of(enum uaio_account id,
					  const struct uaio_work *work)
{
	return &uaio_wq_crews[work->crew].accounts[id];
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
	/*
	 * relaxed: workers that read the count without the lock use it only as a hint
	 */
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

struct uaio_work *uaio_wq_pop_locked(struct uaio_wq_account *account)
{
	struct uaio_work *work;

	if (unlikely(account->nr_held)) {
		work = uaio_wq_held_locked(account);
		if (work) {
			uaio_wq_unhold_locked(account, work);
			/*
			 * The item waited for its device until now, not for a worker:
			 * restart the time that it has waited.
			 */
			work->queued_ns = uaio_now_ns();
			return work;
		}
	}
	while ((work = uaio_wq_pop_public_locked(account)))
		if (likely(uaio_wq_may_start_locked(account, work)) ||
		    !uaio_wq_hold_locked(account, work))
			return work;
	return NULL;
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

	/*
	 * relaxed: the owner's call may just have returned. Then the owner and another
	 * thread may take items from the list at the same time, which does no harm
	 */
	return owner &&
	       (owner->is_asleep || load_relaxed(&owner->busy_since_ns));
}

void uaio_wq_grant_locked(struct uaio_wq_account *account, unsigned nr,
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
 * Return: whether the list's oldest item has waited so long that the owner, although
 * awake, cannot be running: the scheduler has preempted it.
 */
static bool is_stale_locked(struct uaio_worklist *list, int64_t now)
{
	/* relaxed: an old value only delays the result */
	uint64_t head = load_relaxed(&list->head);

	if (head == load_relaxed(&list->tail) || head != list->seen_head) {
		list->seen_head = head;
		list->seen_ns = now;
		return false;
	}
	return now - list->seen_ns > UAIO_WQ_STALE_NS;
}

/*
 * For UAIO_PLACE_ROUND_ROBIN: once each private list has an owner, select the lists in
 * turn.
 * Return: the list's index; UAIO_WQ_FIXED_MAX for the public list, if a private list
 * has no owner, or the selected list has no room.
 */
static unsigned in_turn_locked(struct uaio_wq_account *account)
{
	unsigned index;

	if (!account->max_fixed || account->nr_fixed < account->max_fixed)
		return UAIO_WQ_FIXED_MAX;
	index = account->turn++ % account->max_fixed;
	if (!account->owners[index] ||
	    !uaio_worklist_has_room(&account->lists[index], account->max_items))
		return UAIO_WQ_FIXED_MAX;
	return index;
}

/*
 * For a short item (which cannot block), select the first private list that has room,
 * and whose owner is awake and not preempted.
 */
static unsigned first_awake_locked(struct uaio_wq_account *account, int64_t now,
				   struct uaio_wq_calls *calls)
{
	for (unsigned i = 0; i < account->max_fixed; i++) {
		if (!account->owners[i] || uaio_wq_is_open_locked(account, i))
			continue;
		if (is_stale_locked(&account->lists[i], now)) {
			/*
			 * The scheduler has preempted the owner. Let other workers run
			 * its items.
			 */
			account->counters.nr_late += account->nr_idle > 0;
			uaio_wq_spill_locked(account, i);
			uaio_wq_grant_locked(account, account->nr_idle > 0,
					     calls);
		} else if (uaio_worklist_has_room(&account->lists[i],
						  account->max_items)) {
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
	if (unlikely(account->nr_held) &&
	    uaio_wq_hold_behind_locked(account, work))
		return;
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
	/*
	 * relaxed: each worker that counts as searching takes this lock later, and then
	 * looks for items
	 */
	unsigned nr_searching = load_relaxed(&account->nr_searching);

	if (account->nr_fixed)
		for (unsigned i = 0; i < UAIO_WQ_FIXED_MAX; i++)
			if (uaio_wq_is_open_locked(account, i))
				need += (unsigned)uaio_worklist_count(
					&account->lists[i]);
	/*
	 * Ask for only one worker, however many devices have held items: the worker that
	 * takes one of these items asks for the next worker, if another item needs one.
	 */
	if (unlikely(account->nr_held) && uaio_wq_held_locked(account))
		need++;
	return need > nr_searching ? need - nr_searching : 0;
}

bool uaio_wq_lacks_workers_locked(const struct uaio_wq_account *account,
				  unsigned need)
{
	return (need || account->nr_workers < account->max_fixed) &&
	       uaio_wq_counted_locked(account) < account->max_workers;
}

void uaio_wq_ensure_locked(struct uaio_wq_account *account,
			   struct uaio_wq_calls *calls)
{
	unsigned need = uaio_wq_need_locked(account);
	unsigned nr = need < account->nr_idle ? need : account->nr_idle;

	uaio_wq_grant_locked(account, nr, calls);
	if (account->is_manager_told ||
	    !uaio_wq_lacks_workers_locked(account, need - nr))
		return;
	/* [step: ENSURE_MANAGER] */
	account->is_manager_told = true;
	account->told_ns = uaio_now_ns();
	calls->wakes_manager = true;
}

bool uaio_wq_deliver(struct uaio_wq_account *account,
		     const struct uaio_wq_calls *calls)
{
	/* [step: WAKE] */
	if (calls->nr_wake)
		uaio_ec_notify(&account->sleepers, calls->nr_wake);
	return !calls->wakes_manager || uaio_manager_call(account->crew);
}

void uaio_wq_deliver_from_worker(struct uaio_wq_account *account,
				 const struct uaio_wq_calls *calls)
{
	if (uaio_wq_deliver(account, calls))
		return;
	/*
	 * [step: MANAGER_UNDONE] Let the next thread call the manager again. (If there
	 * are no workers, every submitter calls the manager anyway.)
	 */
	uaio_wq_lock(account);
	if (account->nr_workers)
		account->is_manager_told &=
			uaio_manager_is_there(account->crew);
	uaio_wq_unlock(account);
}

/*
 * [step: GIVE_BACK] If there are no workers, remove all items and return them to the
 * caller. If another thread has created a worker meanwhile, this worker runs the items.
 * A caller of another identity may not execute the items (I8), so it leaves them to the
 * manager, if there is one.
 */
static void give_back(struct uaio_wq_account *account, struct list *ret_refused)
{
	struct uaio_work *work;

	uaio_wq_lock(account);
	if (account->nr_workers)
		account->is_manager_told &=
			uaio_manager_is_there(account->crew);
	else
		account->is_manager_told = account->is_helped;
	if (account->nr_workers == 0 &&
	    (is_of_my_crew(account) || !uaio_manager_is_there(account->crew)))
		while ((work = uaio_wq_pop_locked(account)))
			list_add_tail(ret_refused, &work->link);
	uaio_wq_unlock(account);
}

static void queue_locked(struct uaio_wq_account *account, struct list *items,
			 struct uaio_wq_calls *calls, struct list *ret_refused)
{
	int64_t now = uaio_now_ns();
	struct list *node;

	while ((node = list_pop(items))) {
		struct uaio_work *work =
			container_of(node, struct uaio_work, link);

		if (unlikely((!account->max_workers ||
			      uaio_wq_ops->is_awaited(work)) &&
			     is_of_my_crew(account)))
			list_add_tail(ret_refused, node);
		else
			place_locked(account, work, now, calls);
	}
	if (unlikely(!account->max_workers &&
		     load_relaxed(&account->nr_public))) {
		/*
		 * The items belong to another identity than the caller's, so the
		 * manager must execute them.
		 */
		account->is_manager_told = calls->wakes_manager = true;
	}
}

static void queue(struct uaio_wq_account *account, struct list *items,
		  bool is_last, struct list *ret_refused)
{
	struct uaio_wq_calls calls = { 0 };
	bool has_only_helper;

	uaio_wq_lock(account);
	queue_locked(account, items, &calls, ret_refused);
	/*
	 * If the manager is the only thread, it is running an item itself, which may
	 * take long: the caller must not leave items to it.
	 */
	has_only_helper = account->is_helped && !account->nr_workers;
	uaio_wq_ensure_locked(account, &calls);
	if (is_last && calls.wakes_manager) {
		/*
		 * The program may be about to end, so do not start threads. If it goes
		 * on, uaio_wq_revive() calls the manager.
		 */
		calls.wakes_manager = false;
		account->is_manager_told = false;
	} else if (!is_last && account->is_manager_told &&
		   !account->nr_workers) {
		/*
		 * Another thread's call of the manager may just have failed, so call
		 * the manager again.
		 */
		calls.wakes_manager = true;
	}
	uaio_wq_unlock(account);
	if (!uaio_wq_deliver(account, &calls) || has_only_helper)
		give_back(account, ret_refused);
}

/* Queue items of several crews, one crew at a time. */
static __attribute__((noinline)) void queue_by_crew(enum uaio_account id,
						    struct list *items,
						    bool is_last,
						    struct list *ret_refused)
{
	while (!list_is_empty(items)) {
		const struct uaio_work *first =
			container_of(items->next, struct uaio_work, link);
		struct uaio_wq_account *account = account_of(id, first);
		struct list some;

		list_init(&some);
		list_for_each_safe (pos, items) {
			if (container_of(pos, struct uaio_work, link)->crew !=
			    first->crew)
				continue;
			list_remove(pos);
			list_add_tail(&some, pos);
		}
		queue(account, &some, is_last, ret_refused);
	}
}

void uaio_wq_hand_over(struct uaio_handover *handover, struct list *ret_refused)
{
	for (unsigned i = 0; i < UAIO_NR_ACCOUNTS; i++) {
		if (!handover->nr[i])
			continue;
		handover->nr[i] = 0;
		if (likely(!uaio_identities_are_many()))
			queue(&uaio_wq_crews[0].accounts[i],
			      &handover->items[i], handover->is_last,
			      ret_refused);
		else
			queue_by_crew(i, &handover->items[i], handover->is_last,
				      ret_refused);
	}
}

void uaio_wq_revive(struct list *ret_refused)
{
	uint32_t nr = uaio_wq_count_crews();

	for (uint32_t i = 0; i < nr; i++)
		for (unsigned k = 0; k < UAIO_NR_ACCOUNTS; k++) {
			struct list nothing;

			list_init(&nothing);
			queue(&uaio_wq_crews[i].accounts[k], &nothing, false,
			      ret_refused);
		}
}

/* Removing items */

static struct uaio_work *
find_wanted(const struct list *items,
	    bool (*is_wanted)(const struct uaio_work *work, const void *arg),
	    const void *arg)
{
	list_for_each (pos, items) {
		struct uaio_work *work =
			container_of(pos, struct uaio_work, link);

		/* The crew may have got another identity since it was looked up. */
		if (uaio_wq_is_mine(work) && is_wanted(work, arg))
			return work;
	}
	return NULL;
}

struct uaio_work *uaio_wq_take(bool (*is_wanted)(const struct uaio_work *work,
						 const void *arg),
			       const void *arg)
{
	struct uaio_wq_crew *crew = uaio_wq_my_crew();
	struct uaio_wq_account *account;
	struct uaio_work *found = NULL;
	struct uaio_wq_calls calls = { 0 };

	if (unlikely(!crew))
		return NULL;
	account = &crew->accounts[UAIO_BOUNDED];
	uaio_wq_lock(account);
	/*
	 * A worker could take, complete and free a private item while is_wanted() reads
	 * it. So first move private items to the public list, which the lock protects.
	 */
	spill_all_locked(account);
	found = find_wanted(&account->public, is_wanted, arg);
	if (found)
		remove_public_locked(account, found);
	for (unsigned i = 0; !found && i < UAIO_WQ_DEVICES_MAX; i++) {
		found = find_wanted(&account->devices[i].items, is_wanted, arg);
		if (found)
			uaio_wq_unhold_locked(account, found);
	}
	uaio_wq_ensure_locked(account, &calls);
	/*
	 * Do not create the manager here. The moved items were in the list of a worker
	 * that is awake. If there is no manager, that worker creates it before it
	 * blocks (I4).
	 */
	if (calls.wakes_manager && !uaio_manager_tell(crew))
		account->is_manager_told = false;
	calls.wakes_manager = false;
	uaio_wq_unlock(account);
	(void)uaio_wq_deliver(account, &calls);
	return found;
}

bool uaio_wq_cancel(enum uaio_account id, struct uaio_work *work)
{
	struct uaio_wq_account *account = account_of(id, work);
	bool was_queued;

	uaio_wq_lock(account);
	was_queued = work->is_public || work->is_held;
	if (work->is_public)
		/* [step: CANCEL_PUBLIC] */
		remove_public_locked(account, work);
	else if (work->is_held)
		uaio_wq_unhold_locked(account, work);
	else if (work->slot)
		was_queued = uaio_worklist_remove(work->slot, work);
	uaio_wq_unlock(account);
	return was_queued;
}

bool uaio_wq_is_full(enum uaio_account id)
{
	struct uaio_wq_crew *crew = uaio_wq_my_crew();
	struct uaio_wq_account *account;
	bool is_full;

	if (unlikely(!crew))
		return false;
	account = &crew->accounts[id];
	uaio_wq_lock(account);
	is_full = account->is_refused ||
		  uaio_wq_counted_locked(account) >= account->max_workers;
	uaio_wq_unlock(account);
	return is_full;
}
