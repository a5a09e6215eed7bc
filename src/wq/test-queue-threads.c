/* SPDX-License-Identifier: MIT */
/*
 * The queue must create as many threads as it needs, but no more than the limit allows.
 * If the system refuses threads, the queue must work with those that it has.
 */
#undef NDEBUG
#include <sched.h>

#include "wq/wqint.h"
#include "items.h"
#include "threads.h"

enum { NR = 400 };

static struct item items[NR];
static struct item blocked[128];
static struct item_gate gate;

static void prepare(unsigned nr, bool may_block)
{
	for (unsigned i = 0; i < nr; i++)
		items[i] = (struct item){ .work.may_block = may_block };
}

static void run_mixed(void)
{
	prepare(NR, false);
	for (unsigned i = 0; i < NR; i++)
		items[i].work.may_block = i % 3 == 0;
	for (unsigned i = 0; i < NR; i += 10)
		items_queue(&items[i], 10);
	items_await_end(items, NR);
	assert_true(items_ran_once(items, NR));
}

/* Queue nr items that wait in their call until the test opens the gate. */
static void queue_blocked(enum uaio_account account, unsigned nr)
{
	gate = (struct item_gate){ 0 };
	for (unsigned i = 0; i < nr; i++)
		blocked[i] = (struct item){
			.work.may_block = true,
			.account = account,
			.gate = &gate,
		};
	items_queue(blocked, nr);
}

static void let_go(unsigned nr)
{
	item_gate_open(&gate);
	items_await_end(blocked, nr);
	assert_true(items_ran_once(blocked, nr));
}

/* Return: whether the manager has stopped adding workers. */
static bool is_settled(void *arg)
{
	struct uaio_wq_account *account = arg;
	bool is_manager_told;

	uaio_wq_lock(account);
	is_manager_told = account->is_manager_told;
	uaio_wq_unlock(account);
	return !is_manager_told;
}

static void await_settled(enum uaio_account account)
{
	unit_await(is_settled, &uaio_wq_crews[0].accounts[account]);
}

/*
 * Return: whether the manager runs no item itself. Tests wait for this, because a
 * submitter gets its items back if the manager runs an item and there is no worker.
 */
static bool helps_nobody(void *arg)
{
	struct uaio_wq_account *account = arg;
	bool is_helped;

	uaio_wq_lock(account);
	is_helped = account->is_helped;
	uaio_wq_unlock(account);
	return !is_helped;
}

/*
 * Growth
 */

static unsigned nr_fixed;

/*
 * However many short items are queued, no worker is added for them: one worker runs all
 * items, or the fixed workers do.
 */
static int run_short_items(void)
{
	assert_int_equal(items_start(), 0);
	items_set_placement(nr_fixed ? UAIO_PLACE_PACKED : UAIO_PLACE_PUBLIC);
	if (nr_fixed)
		items_set_fixed(UAIO_BOUNDED, (int)nr_fixed, 64);
	for (unsigned i = 0; i < unit_rounds(200); i++) {
		prepare(NR, false);
		for (unsigned j = 0; j < NR; j += 1 + i)
			items_queue(&items[j], j + 1 + i < NR ? 1 + i : NR - j);
		items_await_end(items, NR);
		assert_true(items_ran_once(items, NR));
	}
	await_settled(UAIO_BOUNDED);
	assert_int_equal(items_count(UAIO_BOUNDED).nr_workers,
			 nr_fixed ? nr_fixed : 1);
	return 0;
}

static void short_items_add_no_worker(void **state)
{
	(void)state;
	for (nr_fixed = 0; nr_fixed < 4; nr_fixed++)
		assert_int_equal(unit_in_child(run_short_items), 0);
}

static unsigned limit;

/*
 * The manager doubles the number of workers until the limit is reached. Some of the
 * tested limits are reached exactly by doubling. The manager must not exceed those
 * limits that another doubling would exceed.
 */
static int grow(enum uaio_account account)
{
	unsigned nr = limit * 2 + 8;

	assert_int_equal(items_start(), 0);
	if (account == UAIO_BOUNDED && nr_fixed)
		items_set_fixed(account, (int)nr_fixed, 4);
	assert_true(uaio_wq_limit_workers(account, (int)limit) > 0);
	queue_blocked(account, nr);
	item_gate_await(&gate, limit);
	await_settled(account);
	assert_int_equal(items_count(account).nr_workers, limit);
	assert_int_equal(load_relaxed(&gate.nr_held), limit);
	assert_int_equal(uaio_wq_nr_threads(), limit + 1);
	let_go(nr);
	items_await_rest();
	assert_int_equal(items_count(account).nr_workers, limit);
	/*
	 * The library has started `limit` workers and the manager in all. So no worker
	 * has ended and been replaced.
	 */
	assert_int_equal(unit_nr_started_threads(), limit + 1);
	return 0;
}

static int grow_bounded(void)
{
	return grow(UAIO_BOUNDED);
}

static int grow_unbounded(void)
{
	return grow(UAIO_UNBOUNDED);
}

static void there_are_never_more_workers_than_allowed(void **state)
{
	static const unsigned limits[] = { 1, 2, 3, 5, 24, 32 };

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(limits); i++) {
		limit = limits[i];
		for (nr_fixed = 0; nr_fixed < 4 && nr_fixed <= limit;
		     nr_fixed += 3)
			assert_int_equal(unit_in_child(grow_bounded), 0);
		assert_int_equal(unit_in_child(grow_unbounded), 0);
	}
}

/*
 * A fast disk needs ENOUGH workers. More workers must be added only for slow calls, and
 * must end when there are no slow calls any more.
 */

enum { MANY = 120, ENOUGH = UAIO_WQ_ENOUGH };

static void hold_many(void)
{
	assert_int_equal(items_start(), 0);
	assert_int_equal(uaio_wq_limit_workers(UAIO_BOUNDED, MANY),
			 ITEMS_WORKERS);
	queue_blocked(UAIO_BOUNDED, MANY);
	item_gate_await(&gate, MANY);
	assert_int_equal(items_count(UAIO_BOUNDED).nr_workers, MANY);
	let_go(MANY);
}

static bool are_few(void *unused)
{
	(void)unused;
	return items_count(UAIO_BOUNDED).nr_workers <= ENOUGH;
}

/* Workers beyond ENOUGH must end soon, and ENOUGH workers stay. */
static int rest_after_many(void)
{
	hold_many();
	unit_await(are_few, NULL);
	items_await_rest();
	assert_int_equal(items_count(UAIO_BOUNDED).nr_workers, ENOUGH);
	return 0;
}

static void as_many_are_added_as_are_held_for_long_and_leave_soon(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(rest_after_many), 0);
}

/*
 * If items are queued one at a time, each item wakes another worker, so no worker is
 * idle for long. Nevertheless workers beyond ENOUGH must end.
 */
static int trickle_after_many(void)
{
	hold_many();
	while (!are_few(NULL)) {
		prepare(1, true);
		items_queue(items, 1);
		items_await_end(items, 1);
		assert_true(items_ran_once(items, 1));
	}
	return 0;
}

static void workers_not_needed_leave_though_work_comes_in(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(trickle_after_many), 0);
}

/*
 * The system refuses to create threads: either the manager, which is the first thread,
 * or workers
 */

/* how many threads can be created */
static uint32_t nr_threads;

/*
 * Return: whether the queue counts no threads that do not exist. For unit_await(): a
 * thread that is just being created is counted for a moment.
 */
static bool counts_are_right(void *arg)
{
	const struct uaio_wq_counters counters = items_count(UAIO_BOUNDED);

	return counters.nr_workers <= *(unsigned *)arg &&
	       counters.nr_fixed <= counters.nr_workers &&
	       counters.nr_idle <= counters.nr_workers &&
	       uaio_wq_nr_threads() <= nr_threads;
}

/*
 * Run items while only nr_threads threads can be created. If there are several workers,
 * run items once more with all but one of the workers blocked.
 */
static int be_refused(void)
{
	struct uaio_wq_account *account =
		&uaio_wq_crews[0].accounts[UAIO_BOUNDED];
	unsigned nr_workers = nr_threads > 0 ? nr_threads - 1 : 0;
	struct uaio_wq_counters counters;

	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_ROUND_ROBIN);
	if (nr_fixed)
		items_set_fixed(UAIO_BOUNDED, (int)nr_fixed, 8);
	unit_allow_threads(nr_threads);
	for (unsigned i = 0; i < 3; i++)
		run_mixed();
	if (nr_workers > 1) {
		queue_blocked(UAIO_BOUNDED, nr_workers - 1);
		item_gate_await(&gate, nr_workers - 1);
		run_mixed();
		let_go(nr_workers - 1);
	} else if (nr_threads == 1) {
		/*
		 * The only thread, the manager, runs items itself. When an item blocks
		 * the manager, the submitter must run the other items.
		 */
		unit_await(helps_nobody, account);
		queue_blocked(UAIO_BOUNDED, 1);
		item_gate_await(&gate, 1);
		run_mixed();
		let_go(1);
	}
	run_mixed();
	unit_await(counts_are_right, &nr_workers);
	assert_true(nr_threads > 1 || unit_nr_refused_threads() > 0);

	/*
	 * If the queue had counted threads that do not exist, it would create fewer
	 * workers now.
	 */
	unit_await(helps_nobody, account);
	unit_allow_threads(UINT32_MAX);
	queue_blocked(UAIO_BOUNDED, 40);
	item_gate_await(&gate, 32);
	await_settled(UAIO_BOUNDED);
	counters = items_count(UAIO_BOUNDED);
	assert_int_equal(counters.nr_workers, 32);
	assert_int_equal(counters.nr_fixed, nr_fixed);
	let_go(40);
	items_await_rest();
	assert_int_equal(uaio_wq_nr_threads(), 33);
	return 0;
}

static void all_items_are_run_with_any_number_of_threads(void **state)
{
	(void)state;
	for (nr_threads = 0; nr_threads < 9; nr_threads++)
		for (nr_fixed = 0; nr_fixed < 4; nr_fixed += 2)
			assert_int_equal(unit_in_child(be_refused), 0);
}

/* Each unbounded item must be run or refused; none may stay queued. */
static int be_refused_unbounded(void)
{
	unsigned nr_run = 0;

	assert_int_equal(items_start(), 0);
	unit_allow_threads(nr_threads);
	for (unsigned round = 0; round < 3; round++) {
		prepare(NR, true);
		for (unsigned i = 0; i < NR; i++)
			items[i].account = UAIO_UNBOUNDED;
		for (unsigned i = 0; i < NR; i += 10)
			items_queue(&items[i], 10);
		items_await_end(items, NR);
		for (unsigned i = 0; i < NR; i++) {
			assert_int_equal(items[i].nr_run + items[i].nr_refused,
					 1);
			assert_int_equal(items[i].nr_begun, items[i].nr_run);
			nr_run += items[i].nr_run;
		}
	}
	assert_int_equal(nr_run, nr_threads > 1 ? 3 * NR : 0);
	assert_int_equal(items_count(UAIO_UNBOUNDED).nr_queued, 0);
	return 0;
}

static void unbounded_items_are_run_or_given_back(void **state)
{
	(void)state;
	for (nr_threads = 0; nr_threads < 5; nr_threads++)
		assert_int_equal(unit_in_child(be_refused_unbounded), 0);
}

/* Ending */

/* Make all threads end except the fixed workers. */
static void hurry_away(void)
{
	struct uaio_wq_fixed_limits none = { -1, -1 }, old;

	unit_hook(items_hurry);
	while (uaio_wq_nr_threads() != nr_fixed) {
		assert_int_equal(uaio_wq_limit_fixed(UAIO_BOUNDED, &none, &old),
				 0);
		items_hurry_manager();
	}
	unit_hook(items_stay);
}

static int leave_and_come_back(void)
{
	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_PACKED);
	items_set_fixed(UAIO_BOUNDED, (int)nr_fixed, 8);
	for (unsigned i = 0; i < 10; i++) {
		queue_blocked(UAIO_BOUNDED, 12);
		item_gate_await(&gate, 12);
		let_go(12);
		run_mixed();
		assert_in_range(items_count(UAIO_BOUNDED).nr_workers, 12, 32);
		assert_int_equal(items_count(UAIO_BOUNDED).nr_fixed, nr_fixed);
		hurry_away();
		assert_int_equal(items_count(UAIO_BOUNDED).nr_fixed, nr_fixed);
		run_mixed();
	}
	return 0;
}

static void idle_workers_leave_but_for_the_fixed_and_come_back(void **state)
{
	(void)state;
	for (nr_fixed = 0; nr_fixed < 4; nr_fixed += 3)
		assert_int_equal(unit_in_child(leave_and_come_back), 0);
}

/* Workers end as soon as they sleep, while items are queued all the time. */
static int leave_under_load(void)
{
	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_PACKED);
	items_set_fixed(UAIO_BOUNDED, (int)nr_fixed, 8);
	unit_hook(items_hurry);
	for (unsigned i = 0; i < unit_rounds(100); i++) {
		run_mixed();
		prepare(40, i % 2);
		for (unsigned j = 0; j < 40; j++) {
			items_queue(&items[j], 1);
			items_await_end(&items[j], 1);
		}
		assert_true(items_ran_once(items, 40));
	}
	hurry_away();
	run_mixed();
	return 0;
}

static void workers_that_leave_all_the_time_lose_nothing(void **state)
{
	(void)state;
	for (nr_fixed = 0; nr_fixed < 4; nr_fixed += 3)
		assert_int_equal(unit_in_child(leave_under_load), 0);
}

/*
 * The manager has ended, and no thread can be created. The remaining workers must run
 * all items, or the submitter must.
 */
static int be_refused_later(void)
{
	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_ROUND_ROBIN);
	if (nr_fixed)
		items_set_fixed(UAIO_BOUNDED, (int)nr_fixed, 8);
	queue_blocked(UAIO_BOUNDED, 4);
	item_gate_await(&gate, 4);
	await_settled(UAIO_BOUNDED);
	unit_hook(items_hurry);
	items_hurry_manager();
	unit_hook(items_stay);
	unit_allow_threads(0);
	/* Queue more items that may block than there are workers. */
	prepare(10, true);
	items_queue(items, 10);
	let_go(4);
	items_await_end(items, 10);
	assert_true(items_ran_once(items, 10));
	run_mixed();
	hurry_away();
	run_mixed();
	assert_true(unit_nr_refused_threads() > 0);

	unit_allow_threads(UINT32_MAX);
	queue_blocked(UAIO_BOUNDED, 40);
	item_gate_await(&gate, 32);
	let_go(40);
	return 0;
}

static void threads_refused_once_the_manager_has_left_do_no_harm(void **state)
{
	(void)state;
	for (nr_fixed = 0; nr_fixed < 4; nr_fixed += 2)
		assert_int_equal(unit_in_child(be_refused_later), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(short_items_add_no_worker),
		UNIT_TEST(there_are_never_more_workers_than_allowed),
		UNIT_TEST(
			as_many_are_added_as_are_held_for_long_and_leave_soon),
		UNIT_TEST(workers_not_needed_leave_though_work_comes_in),
		UNIT_TEST(all_items_are_run_with_any_number_of_threads),
		UNIT_TEST(unbounded_items_are_run_or_given_back),
		UNIT_TEST(idle_workers_leave_but_for_the_fixed_and_come_back),
		UNIT_TEST(workers_that_leave_all_the_time_lose_nothing),
		UNIT_TEST(threads_refused_once_the_manager_has_left_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
