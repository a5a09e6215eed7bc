/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "items.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>

#include "base/sleep.h"
#include "wq/wqint.h"

static struct item *item_of(const struct uaio_work *work)
{
	return container_of(work, struct item, work);
}

static void pass(struct item_gate *gate)
{
	add_relaxed(&gate->nr_held, 1);
	while (!load_acquire(&gate->is_open))
		(void)uaio_sleep(&gate->is_open, 0, UAIO_FOREVER);
}

static void execute(struct item *item, struct uaio_worker *worker)
{
	if (item->act)
		item->act(item, worker);
	if (item->gate)
		pass(item->gate);
}

static void run(struct uaio_work *work, struct uaio_worker *worker)
{
	struct item *item = item_of(work);

	add_relaxed(&item->nr_begun, 1);
	execute(item, worker);
	if (!work->may_block) {
		list_add_tail(&worker->done, &work->link);
		worker->nr_done++;
		return;
	}
	uaio_wq_returned(worker);
	add_seq_cst(&item->nr_run, 1);
}

static void flush(struct uaio_worker *worker)
{
	struct list *node;

	while ((node = list_pop(&worker->done))) {
		struct item *item =
			item_of(container_of(node, struct uaio_work, link));

		if (item->end)
			item->end(item, worker);
		add_seq_cst(&item->nr_run, 1);
	}
	worker->nr_done = 0;
}

static void refuse(struct uaio_work *work)
{
	add_seq_cst(&item_of(work)->nr_refused, 1);
}

static bool is_awaited(const struct uaio_work *work)
{
	(void)work;
	return false;
}

int items_start(void)
{
	static const struct uaio_wq_ops ops = {
		.run = run,
		.flush = flush,
		.refuse = refuse,
		.is_awaited = is_awaited,
	};

	if (unit_engine(NULL) < 0)
		return -1;
	uaio_wq_init(&ops);
	uaio_wq_limit_workers(UAIO_BOUNDED, ITEMS_WORKERS);
	unit_hook(items_stay);
	return 0;
}

void items_queue(struct item *items, unsigned n)
{
	struct list refused, *node;
	struct uaio_handover handover;

	list_init(&refused);
	uaio_handover_init(&handover);
	for (unsigned i = 0; i < n; i++)
		uaio_wq_add(items[i].account, &items[i].work, &handover);
	uaio_wq_hand_over(&handover, &refused);
	while ((node = list_pop(&refused))) {
		struct item *item =
			item_of(container_of(node, struct uaio_work, link));

		if (item->account == UAIO_UNBOUNDED) {
			add_seq_cst(&item->nr_refused, 1);
			continue;
		}
		execute(item, NULL);
		add_seq_cst(&item->nr_run, 1);
	}
}

bool items_cancel(struct item *item)
{
	bool is_ours = uaio_wq_cancel(item->account, &item->work);

	if (is_ours)
		add_seq_cst(&item->nr_cancelled, 1);
	return is_ours;
}

void items_await_end(struct item *items, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		while (!load_seq_cst(&items[i].nr_run) &&
		       !load_seq_cst(&items[i].nr_refused) &&
		       !load_seq_cst(&items[i].nr_cancelled))
			sched_yield();
}

bool items_ran_once(const struct item *items, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (load_seq_cst(&items[i].nr_run) != 1 ||
		    load_seq_cst(&items[i].nr_refused) ||
		    load_seq_cst(&items[i].nr_cancelled))
			return false;
	return true;
}

void item_gate_await(struct item_gate *gate, unsigned nr)
{
	while (load_relaxed(&gate->nr_held) < nr)
		sched_yield();
}

void item_gate_open(struct item_gate *gate)
{
	store_release(&gate->is_open, 1);
	uaio_wake(&gate->is_open, UINT32_MAX);
}

/*
 * The queue
 */

void items_set_fixed(enum uaio_account account, int nr, int max_items)
{
	const struct uaio_wq_fixed_limits limits = { nr, max_items };
	struct uaio_wq_fixed_limits old;
	int ret = uaio_wq_limit_fixed(account, &limits, &old);

	assert(ret == 0);
}

static bool are_fixed(void *arg)
{
	return items_count(UAIO_BOUNDED).nr_fixed == *(unsigned *)arg;
}

void items_start_fixed(unsigned nr, int max_items)
{
	struct item first = { .account = UAIO_BOUNDED };

	uaio_wq_limit_workers(UAIO_BOUNDED, (int)nr);
	items_set_fixed(UAIO_BOUNDED, (int)nr, max_items);
	items_queue(&first, 1);
	items_await_end(&first, 1);
	unit_await(are_fixed, &nr);
	items_await_rest();
}

void items_set_placement(enum uaio_wq_placement placement)
{
	const struct uaio_wq_tuning tuning = { placement, 64, true };

	uaio_wq_tune(&tuning);
}

struct uaio_wq_counters items_count(enum uaio_account account)
{
	struct uaio_wq_counters counters;

	uaio_wq_count(account, &counters);
	return counters;
}

const char *items_find_breach(enum uaio_account id, bool has_manager)
{
	struct uaio_wq_account *account = &uaio_wq_crews[0].accounts[id];
	const char *breach = NULL;
	unsigned need;

	uaio_wq_lock(account);
	need = uaio_wq_need_locked(account);
	if (need && account->nr_idle)
		breach = "a worker sleeps while work waits";
	else if (need && has_manager && !account->is_manager_told &&
		 uaio_wq_lacks_workers_locked(account, need))
		breach = "the manager is not told that a worker is missing";
	/*
	 * A worker whose system call has returned may raise nr_searching without the
	 * lock. Until then, this worker counts in neither nr_searching nor nr_idle. So
	 * the sum must not exceed nr_workers, even if this load misses the change.
	 */
	else if (load_relaxed(&account->nr_searching) + account->nr_idle >
		 account->nr_workers)
		breach = "more workers search and sleep than there are";
	uaio_wq_unlock(account);
	return breach;
}

bool items_manager_rests(void *unused)
{
	struct uaio_wq_account *account =
		&uaio_wq_crews[0].accounts[UAIO_BOUNDED];
	bool is_manager_told;

	(void)unused;
	uaio_wq_lock(account);
	is_manager_told = account->is_manager_told;
	uaio_wq_unlock(account);
	return !is_manager_told;
}

static bool rests(void *arg)
{
	struct uaio_wq_account *account = arg;
	bool all_sleep;

	uaio_wq_lock(account);
	all_sleep = account->nr_idle == account->nr_workers &&
		    !account->nr_credits &&
		    !load_relaxed(&account->nr_searching) &&
		    !load_relaxed(&account->nr_public) && !account->nr_blocking;
	uaio_wq_unlock(account);
	return all_sleep &&
	       items_count(
		       (enum uaio_account)(account - uaio_wq_crews[0].accounts))
			       .nr_queued == 0;
}

void items_await_rest(void)
{
	for (unsigned i = 0; i < UAIO_NR_ACCOUNTS; i++)
		unit_await(rests, &uaio_wq_crews[0].accounts[i]);
}

/*
 * Return: the deadline of the call, if it is the sleep of an idle thread; else NULL.
 */
static const struct timespec *idle_until(long nr, const long args[6])
{
	/*
	 * Idle threads sleep with a deadline in this range; other waiting threads have
	 * a nearer deadline or none.
	 */
	enum { LEAST_S = 2, FOREVER_S = 3600 };
	const struct timespec *until = (const struct timespec *)args[3];
	int64_t left;

	if (nr != SYS_futex || (args[1] & 127) != 9 /* FUTEX_WAIT_BITSET */ ||
	    !until)
		return NULL;
	left = until->tv_sec - uaio_now_ns() / 1000000000;
	return left >= LEAST_S && left < FOREVER_S ? until : NULL;
}

bool items_stay(long nr, const long args[6], long *ret_res)
{
	if (!idle_until(nr, args))
		return false;
	*ret_res = uaio_sys_raw(nr, args[0], args[1], args[2], 0, args[4],
				args[5]);
	return true;
}

bool items_hurry(long nr, const long args[6], long *ret_res)
{
	const struct timespec *until = (const struct timespec *)args[3];

	if (nr == SYS_futex && (args[1] & 127) == 9 /* FUTEX_WAIT_BITSET */ &&
	    until && until->tv_sec < uaio_now_ns() / 1000000000 + 3600) {
		*ret_res = -ETIMEDOUT;
		return true;
	}
	return false;
}

void items_hurry_manager(void)
{
	while (uaio_manager_is_there(uaio_wq_crews)) {
		/*
		 * If the manager has slept since before the hook was set, wake it. It
		 * then ends at its next sleep.
		 */
		(void)uaio_manager_tell(uaio_wq_crews);
		sched_yield();
	}
}
