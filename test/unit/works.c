/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "works.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "base/sleep.h"
#include "wq/wqint.h"

/* Linked with --wrap=pthread_create: the library's threads come by here. */
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*main)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*main)(void *), void *arg);

static uint32_t nr_allowed = UINT32_MAX; /* atomic */
static uint32_t nr_refused;              /* atomic */
static uint32_t nr_started;              /* atomic */

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*main)(void *), void *arg)
{
	uint32_t left = load_relaxed(&nr_allowed);

	/* Those of the tests have no attributes. */
	if (!attr)
		return __real_pthread_create(thread, attr, main, arg);
	do {
		if (left == 0) {
			add_relaxed(&nr_refused, 1);
			return EAGAIN;
		}
		if (left == UINT32_MAX)
			break;
	} while (!cas_relaxed(&nr_allowed, &left, left - 1));
	add_relaxed(&nr_started, 1);
	return __real_pthread_create(thread, attr, main, arg);
}

void works_allow_threads(uint32_t nr)
{
	store_relaxed(&nr_allowed, nr);
}

uint32_t works_nr_refused_threads(void)
{
	return load_relaxed(&nr_refused);
}

uint32_t works_nr_started_threads(void)
{
	return load_relaxed(&nr_started);
}

/*
 * Items
 */

static struct works_item *item_of(const struct uaio_work *work)
{
	return container_of(work, struct works_item, work);
}

static void pass(struct works_gate *gate)
{
	add_relaxed(&gate->nr_held, 1);
	while (!load_acquire(&gate->is_open))
		(void)uaio_sleep(&gate->is_open, 0, UAIO_FOREVER);
}

static void make(struct works_item *item, struct uaio_worker *worker)
{
	if (item->act)
		item->act(item, worker);
	if (item->gate)
		pass(item->gate);
}

static void run(struct uaio_work *work, struct uaio_worker *worker)
{
	struct works_item *item = item_of(work);

	add_relaxed(&item->nr_begun, 1);
	make(item, worker);
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

	while ((node = list_pop(&worker->done)))
		add_seq_cst(&item_of(container_of(node, struct uaio_work, link))
				     ->nr_run,
			    1);
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

int works_start(void)
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
	uaio_wq_limit_workers(UAIO_BOUNDED, WORKS_WORKERS);
	unit_hook(works_stay);
	return 0;
}

void works_queue(struct works_item *items, unsigned n)
{
	struct list refused, *node;
	struct uaio_kick kick;

	list_init(&refused);
	uaio_kick_init(&kick);
	for (unsigned i = 0; i < n; i++)
		uaio_wq_add(items[i].account, &items[i].work, &kick);
	uaio_wq_kick(&kick, &refused);
	while ((node = list_pop(&refused))) {
		struct works_item *item =
			item_of(container_of(node, struct uaio_work, link));

		if (item->account == UAIO_UNBOUNDED) {
			add_seq_cst(&item->nr_refused, 1);
			continue;
		}
		make(item, NULL);
		add_seq_cst(&item->nr_run, 1);
	}
}

bool works_cancel(struct works_item *item)
{
	bool is_ours = uaio_wq_cancel(item->account, &item->work);

	if (is_ours)
		add_seq_cst(&item->nr_cancelled, 1);
	return is_ours;
}

void works_await_end(struct works_item *items, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		while (!load_seq_cst(&items[i].nr_run) &&
		       !load_seq_cst(&items[i].nr_refused) &&
		       !load_seq_cst(&items[i].nr_cancelled))
			sched_yield();
}

bool works_ran_once(const struct works_item *items, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (load_seq_cst(&items[i].nr_run) != 1 ||
		    load_seq_cst(&items[i].nr_refused) ||
		    load_seq_cst(&items[i].nr_cancelled))
			return false;
	return true;
}

void works_gate_await(struct works_gate *gate, unsigned nr)
{
	while (load_relaxed(&gate->nr_held) < nr)
		sched_yield();
}

void works_gate_open(struct works_gate *gate)
{
	store_release(&gate->is_open, 1);
	uaio_wake(&gate->is_open, UINT32_MAX);
}

/*
 * The queue
 */

void works_set_fixed(enum uaio_account account, int nr, int max_works)
{
	const struct uaio_wq_fixed_limits limits = { nr, max_works };
	struct uaio_wq_fixed_limits old;
	int ret = uaio_wq_limit_fixed(account, &limits, &old);

	assert(ret == 0);
}

static bool are_fixed(void *arg)
{
	return works_count(UAIO_BOUNDED).nr_fixed == *(unsigned *)arg;
}

void works_start_fixed(unsigned nr, int max_works)
{
	struct works_item first = { .account = UAIO_BOUNDED };

	uaio_wq_limit_workers(UAIO_BOUNDED, (int)nr);
	works_set_fixed(UAIO_BOUNDED, (int)nr, max_works);
	works_queue(&first, 1);
	works_await_end(&first, 1);
	unit_await(are_fixed, &nr);
	works_await_rest();
}

void works_set_placement(enum uaio_wq_placement placement)
{
	const struct uaio_wq_tuning tuning = { placement, 64, true };

	uaio_wq_tune(&tuning);
}

struct uaio_wq_counters works_count(enum uaio_account account)
{
	struct uaio_wq_counters counters;

	uaio_wq_count(account, &counters);
	return counters;
}

const char *works_find_breach(enum uaio_account id, bool has_watcher)
{
	struct uaio_wq_account *account = &uaio_wq_accounts[id];
	const char *breach = NULL;
	unsigned need;

	uaio_wq_lock(account);
	need = uaio_wq_need_locked(account);
	if (need && account->nr_idle)
		breach = "a worker sleeps while work waits";
	else if (need && has_watcher && !account->is_watched &&
		 uaio_wq_lacks_workers_locked(account, need))
		breach = "the watcher is not told that a worker is missing";
	/* relaxed: it only rises without the lock, as a call returns */
	else if (load_relaxed(&account->nr_searching) + account->nr_idle >
		 account->nr_workers)
		breach = "more workers search and sleep than there are";
	uaio_wq_unlock(account);
	return breach;
}

bool works_nobody_watches(void *unused)
{
	struct uaio_wq_account *account = &uaio_wq_accounts[UAIO_BOUNDED];
	bool is_watched;

	(void)unused;
	uaio_wq_lock(account);
	is_watched = account->is_watched;
	uaio_wq_unlock(account);
	return !is_watched;
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
	       works_count((enum uaio_account)(account - uaio_wq_accounts))
			       .nr_queued == 0;
}

void works_await_rest(void)
{
	for (unsigned i = 0; i < UAIO_NR_ACCOUNTS; i++)
		unit_await(rests, &uaio_wq_accounts[i]);
}

/* Return: the end of a wait of somebody with nothing to do, or NULL. */
static const struct timespec *idle_until(long nr, const long args[6])
{
	/* Whoever waits for something does so for less. */
	enum { LEAST_S = 2, FOREVER_S = 3600 };
	const struct timespec *until = (const struct timespec *)args[3];
	int64_t left;

	if (nr != SYS_futex || (args[1] & 127) != 9 /* FUTEX_WAIT_BITSET */ ||
	    !until)
		return NULL;
	left = until->tv_sec - uaio_now_ns() / 1000000000;
	return left >= LEAST_S && left < FOREVER_S ? until : NULL;
}

bool works_stay(long nr, const long args[6], long *ret_res)
{
	if (!idle_until(nr, args))
		return false;
	*ret_res = uaio_sys_raw(nr, args[0], args[1], args[2], 0, args[4],
				args[5]);
	return true;
}

bool works_hurry(long nr, const long args[6], long *ret_res)
{
	const struct timespec *until = (const struct timespec *)args[3];

	if (nr == SYS_futex && (args[1] & 127) == 9 /* FUTEX_WAIT_BITSET */ &&
	    until && until->tv_sec < uaio_now_ns() / 1000000000 + 3600) {
		*ret_res = -ETIMEDOUT;
		return true;
	}
	return false;
}

void works_hurry_watcher(void)
{
	while (uaio_watcher_is_there()) {
		/* If it sleeps already it is woken by this. */
		(void)uaio_watcher_tell();
		sched_yield();
	}
}
