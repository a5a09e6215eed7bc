/* SPDX-License-Identifier: MIT */
/* Limits and counters of the work queue. Tested by test-queue-limits.c and test-wq.c. */
#include <errno.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/sys.h"
#include "wq/wqint.h"

/*
 * Find the account's workers that are in a system call on the file `on`. Store their
 * thread ids in ret_tids from index nr on, but only below index max.
 * Return: nr plus the number of such workers.
 */
static unsigned add_callers(struct uaio_wq_account *account, const void *on,
			    uint32_t *ret_tids, unsigned max, unsigned nr)
{
	uaio_wq_lock(account);
	list_for_each (pos, &account->workers) {
		const struct uaio_worker *worker =
			container_of(pos, struct uaio_worker, node);

		/*
		 * [MB:called-on] The caller has loaded the file's `refs` before. If
		 * `refs` no longer counted a request, called_on no longer shows this
		 * request's call. Pairs with uaio_wq_calls(). [MB:native-closing]
		 * seq_cst: pairs with uaio_wq_calls_seq_cst().
		 */
		if (load_seq_cst(&worker->called_on) != on)
			continue;
		if (nr < max)
			ret_tids[nr] = worker->tid;
		nr++;
	}
	uaio_wq_unlock(account);
	return nr;
}

unsigned uaio_wq_callers(const void *on, uint32_t *ret_tids, unsigned max)
{
	uint32_t nr_all = uaio_wq_count_crews();
	unsigned nr = 0;

	for (uint32_t i = 0; i < nr_all; i++)
		nr = add_callers(&uaio_wq_crews[i].accounts[UAIO_BOUNDED], on,
				 ret_tids, max, nr);
	return nr;
}

/*
 * Wake all workers: because of new limits, a worker may have to become fixed (one that
 * does not end when it is idle), or to end.
 */
static void apply_and_unlock(struct uaio_wq_account *account)
{
	struct uaio_wq_calls calls = { 0 };

	uaio_wq_grant_locked(account, account->nr_idle, &calls);
	/*
	 * If nothing is queued, create no workers now: missing fixed workers are
	 * created when the next item is queued.
	 */
	if (load_relaxed(&account->nr_public) || uaio_wq_need_locked(account))
		uaio_wq_ensure_locked(account, &calls);
	uaio_wq_unlock(account);
	/*
	 * The manager is called only if the account has workers. If the manager cannot
	 * be created, these workers run the items, so this function need not remove
	 * items from the queue.
	 */
	uaio_wq_deliver_from_worker(account, &calls);
}

/*
 * Limit the workers of all crews except crew 0 to nr, but let each have at least one.
 */
static void limit_others(enum uaio_account id, unsigned nr)
{
	uint32_t nr_all = uaio_wq_count_crews();

	for (uint32_t i = 1; i < nr_all; i++) {
		struct uaio_wq_account *account =
			&uaio_wq_crews[i].accounts[id];

		uaio_wq_lock(account);
		account->max_workers = nr ? nr : 1;
		apply_and_unlock(account);
	}
}

int uaio_wq_limit_workers(enum uaio_account id, int nr)
{
	struct uaio_wq_account *account = &uaio_wq_crews[0].accounts[id];
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
	limit_others(id, (unsigned)nr);
	return old;
}

/*
 * Map the memory of the private lists. The lock is held meanwhile, as this is short and
 * happens once for each account.
 */
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
	struct uaio_wq_account *account = &uaio_wq_crews[0].accounts[id];
	int ret = 0;

	if (limits->nr_workers < -1 || limits->nr_workers > UAIO_WQ_FIXED_MAX ||
	    limits->max_items < -1)
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
	ret_old->max_items = (int)account->max_items;
	if (limits->nr_workers >= 0)
		account->max_fixed = (unsigned)limits->nr_workers;
	if (limits->max_items >= 0)
		account->max_items = limits->max_items < UAIO_WQ_ITEMS_MAX
					     ? (uint64_t)limits->max_items
					     : UAIO_WQ_ITEMS_MAX;
	apply_and_unlock(account);
	return 0;
}

void uaio_wq_count(enum uaio_account id, struct uaio_wq_counters *ret)
{
	struct uaio_wq_account *account = &uaio_wq_crews[0].accounts[id];

	uaio_wq_lock(account);
	*ret = account->counters;
	ret->nr_workers = account->nr_workers;
	ret->nr_fixed = account->nr_fixed;
	ret->nr_idle = account->nr_idle;
	ret->nr_held = account->nr_held;
	ret->nr_queued = load_relaxed(&account->nr_public) + account->nr_held;
	for (unsigned i = 0; i < UAIO_WQ_FIXED_MAX; i++)
		if (account->owners[i])
			ret->nr_queued += (unsigned)uaio_worklist_count(
				&account->lists[i]);
	uaio_wq_unlock(account);
}

unsigned uaio_wq_nr_workers(enum uaio_account id)
{
	uint32_t nr_all = uaio_wq_count_crews();
	unsigned nr = 0;

	for (uint32_t i = 0; i < nr_all; i++) {
		struct uaio_wq_account *account =
			&uaio_wq_crews[i].accounts[id];

		uaio_wq_lock(account);
		nr += account->nr_workers;
		uaio_wq_unlock(account);
	}
	return nr;
}

unsigned uaio_wq_nr_threads(void)
{
	uint32_t nr_all = uaio_wq_count_crews();
	unsigned nr = 0;

	for (uint32_t i = 0; i < nr_all; i++)
		nr += uaio_manager_is_there(&uaio_wq_crews[i]);
	return nr + uaio_wq_nr_workers(UAIO_BOUNDED) +
	       uaio_wq_nr_workers(UAIO_UNBOUNDED);
}
