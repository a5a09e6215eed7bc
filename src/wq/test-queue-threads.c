/* SPDX-License-Identifier: MIT */
/*
 * How many threads there are: those that are needed, never more than allowed,
 * and as many as can be had.
 */
#undef NDEBUG
#include <sched.h>

#include "wq/wqint.h"
#include "works.h"

enum { NR = 400 };

static struct works_item items[NR];
static struct works_item blocked[128];
static struct works_gate gate;

static void prepare(unsigned nr, bool may_block)
{
	for (unsigned i = 0; i < nr; i++)
		items[i] = (struct works_item){ .work.may_block = may_block };
}

static void run_mixed(void)
{
	prepare(NR, false);
	for (unsigned i = 0; i < NR; i++)
		items[i].work.may_block = i % 3 == 0;
	for (unsigned i = 0; i < NR; i += 10)
		works_queue(&items[i], 10);
	works_await_end(items, NR);
	assert_true(works_ran_once(items, NR));
}

/* Queue nr works that are held once they run. */
static void queue_blocked(enum uaio_account account, unsigned nr)
{
	gate = (struct works_gate){ 0 };
	for (unsigned i = 0; i < nr; i++)
		blocked[i] = (struct works_item){
			.work.may_block = true,
			.account = account,
			.gate = &gate,
		};
	works_queue(blocked, nr);
}

static void let_go(unsigned nr)
{
	works_gate_open(&gate);
	works_await_end(blocked, nr);
	assert_true(works_ran_once(blocked, nr));
}

/* The watcher adds nobody any more. */
static bool is_settled(void *arg)
{
	struct uaio_wq_account *account = arg;
	bool is_watched;

	uaio_wq_lock(account);
	is_watched = account->is_watched;
	uaio_wq_unlock(account);
	return !is_watched;
}

static void await_settled(enum uaio_account account)
{
	unit_await(is_settled, &uaio_wq_accounts[account]);
}

/* Nor does it make a work, which who queues does where it is the only thread. */
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

/* However many: one worker makes them, or as many as are fixed. */
static int run_short_works(void)
{
	assert_int_equal(works_start(), 0);
	works_set_placement(nr_fixed ? UAIO_PLACE_PACKED : UAIO_PLACE_PUBLIC);
	if (nr_fixed)
		works_set_fixed(UAIO_BOUNDED, (int)nr_fixed, 64);
	for (unsigned i = 0; i < unit_rounds(200); i++) {
		prepare(NR, false);
		for (unsigned j = 0; j < NR; j += 1 + i)
			works_queue(&items[j], j + 1 + i < NR ? 1 + i : NR - j);
		works_await_end(items, NR);
		assert_true(works_ran_once(items, NR));
	}
	await_settled(UAIO_BOUNDED);
	assert_int_equal(works_count(UAIO_BOUNDED).nr_workers,
			 nr_fixed ? nr_fixed : 1);
	return 0;
}

static void short_works_add_no_worker(void **state)
{
	(void)state;
	for (nr_fixed = 0; nr_fixed < 4; nr_fixed++)
		assert_int_equal(unit_in_child(run_short_works), 0);
}

static unsigned limit;

/* Limits that doubling reaches, and such that it would pass. */
static int grow(enum uaio_account account)
{
	unsigned nr = limit * 2 + 8;

	assert_int_equal(works_start(), 0);
	if (account == UAIO_BOUNDED && nr_fixed)
		works_set_fixed(account, (int)nr_fixed, 4);
	assert_true(uaio_wq_limit_workers(account, (int)limit) > 0);
	queue_blocked(account, nr);
	works_gate_await(&gate, limit);
	await_settled(account);
	assert_int_equal(works_count(account).nr_workers, limit);
	assert_int_equal(load_relaxed(&gate.nr_held), limit);
	assert_int_equal(uaio_wq_nr_threads(), limit + 1);
	let_go(nr);
	works_await_rest();
	assert_int_equal(works_count(account).nr_workers, limit);
	/* Nor were there others that have left at once. */
	assert_int_equal(works_nr_started_threads(), limit + 1);
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
 * More than a fast disk has work for: for what is slow, and no longer than that
 */

enum { MANY = 120, ENOUGH = UAIO_WQ_ENOUGH };

static void hold_many(void)
{
	assert_int_equal(works_start(), 0);
	assert_int_equal(uaio_wq_limit_workers(UAIO_BOUNDED, MANY),
			 WORKS_WORKERS);
	queue_blocked(UAIO_BOUNDED, MANY);
	works_gate_await(&gate, MANY);
	assert_int_equal(works_count(UAIO_BOUNDED).nr_workers, MANY);
	let_go(MANY);
}

static bool are_few(void *unused)
{
	(void)unused;
	return works_count(UAIO_BOUNDED).nr_workers <= ENOUGH;
}

/* Their time is over soon, while that of the others is not. */
static int rest_after_many(void)
{
	hold_many();
	unit_await(are_few, NULL);
	works_await_rest();
	assert_int_equal(works_count(UAIO_BOUNDED).nr_workers, ENOUGH);
	return 0;
}

static void as_many_are_added_as_are_held_for_long_and_leave_soon(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(rest_after_many), 0);
}

/* Works one at a time wake each in turn, so that none is idle for long. */
static int trickle_after_many(void)
{
	hold_many();
	while (!are_few(NULL)) {
		prepare(1, true);
		works_queue(items, 1);
		works_await_end(items, 1);
		assert_true(works_ran_once(items, 1));
	}
	return 0;
}

static void those_whom_nobody_misses_leave_though_work_comes_in(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(trickle_after_many), 0);
}

/*
 * Refusals: of the watcher, who is the first, and of workers
 */

static uint32_t nr_threads; /* that can be had */

/* But for those that are being tried for just now. */
static bool counts_are_right(void *arg)
{
	const struct uaio_wq_counters counters = works_count(UAIO_BOUNDED);

	return counters.nr_workers <= *(unsigned *)arg &&
	       counters.nr_fixed <= counters.nr_workers &&
	       counters.nr_idle <= counters.nr_workers &&
	       uaio_wq_nr_threads() <= nr_threads;
}

/* As many as are there may be held, and one less for others to get on. */
static int be_refused(void)
{
	struct uaio_wq_account *account = &uaio_wq_accounts[UAIO_BOUNDED];
	unsigned nr_workers = nr_threads > 0 ? nr_threads - 1 : 0;
	struct uaio_wq_counters counters;

	assert_int_equal(works_start(), 0);
	works_set_placement(UAIO_PLACE_ROUND_ROBIN);
	if (nr_fixed)
		works_set_fixed(UAIO_BOUNDED, (int)nr_fixed, 8);
	works_allow_threads(nr_threads);
	for (unsigned i = 0; i < 3; i++)
		run_mixed();
	if (nr_workers > 1) {
		queue_blocked(UAIO_BOUNDED, nr_workers - 1);
		works_gate_await(&gate, nr_workers - 1);
		run_mixed();
		let_go(nr_workers - 1);
	} else if (nr_threads == 1) {
		/* The watcher helps until it is held; then the submitter. */
		unit_await(helps_nobody, account);
		queue_blocked(UAIO_BOUNDED, 1);
		works_gate_await(&gate, 1);
		run_mixed();
		let_go(1);
	}
	run_mixed();
	unit_await(counts_are_right, &nr_workers);
	assert_true(nr_threads > 1 || works_nr_refused_threads() > 0);

	/* None is counted that is not there: as many as ever can be had. */
	unit_await(helps_nobody, account);
	works_allow_threads(UINT32_MAX);
	queue_blocked(UAIO_BOUNDED, 40);
	works_gate_await(&gate, 32);
	await_settled(UAIO_BOUNDED);
	counters = works_count(UAIO_BOUNDED);
	assert_int_equal(counters.nr_workers, 32);
	assert_int_equal(counters.nr_fixed, nr_fixed);
	let_go(40);
	works_await_rest();
	assert_int_equal(uaio_wq_nr_threads(), 33);
	return 0;
}

static void with_any_number_of_threads_all_works_are_run(void **state)
{
	(void)state;
	for (nr_threads = 0; nr_threads < 9; nr_threads++)
		for (nr_fixed = 0; nr_fixed < 4; nr_fixed += 2)
			assert_int_equal(unit_in_child(be_refused), 0);
}

/* Unbounded works are run, or given back; never both, and none is kept. */
static int be_refused_unbounded(void)
{
	unsigned nr_run = 0;

	assert_int_equal(works_start(), 0);
	works_allow_threads(nr_threads);
	for (unsigned round = 0; round < 3; round++) {
		prepare(NR, true);
		for (unsigned i = 0; i < NR; i++)
			items[i].account = UAIO_UNBOUNDED;
		for (unsigned i = 0; i < NR; i += 10)
			works_queue(&items[i], 10);
		works_await_end(items, NR);
		for (unsigned i = 0; i < NR; i++) {
			assert_int_equal(items[i].nr_run + items[i].nr_refused,
					 1);
			assert_int_equal(items[i].nr_begun, items[i].nr_run);
			nr_run += items[i].nr_run;
		}
	}
	assert_int_equal(nr_run, nr_threads > 1 ? 3 * NR : 0);
	assert_int_equal(works_count(UAIO_UNBOUNDED).nr_queued, 0);
	return 0;
}

static void unbounded_works_are_run_or_given_back(void **state)
{
	(void)state;
	for (nr_threads = 0; nr_threads < 5; nr_threads++)
		assert_int_equal(unit_in_child(be_refused_unbounded), 0);
}

/*
 * Leaving
 */

/* Only those that stay are left, the watcher not among them. */
static void hurry_away(void)
{
	struct uaio_wq_fixed_limits none = { -1, -1 }, old;

	unit_hook(works_hurry);
	while (uaio_wq_nr_threads() != nr_fixed) {
		assert_int_equal(uaio_wq_limit_fixed(UAIO_BOUNDED, &none, &old),
				 0);
		works_hurry_watcher();
	}
	unit_hook(works_stay);
}

static int leave_and_come_back(void)
{
	assert_int_equal(works_start(), 0);
	works_set_placement(UAIO_PLACE_PACKED);
	works_set_fixed(UAIO_BOUNDED, (int)nr_fixed, 8);
	for (unsigned i = 0; i < 10; i++) {
		queue_blocked(UAIO_BOUNDED, 12);
		works_gate_await(&gate, 12);
		let_go(12);
		run_mixed();
		assert_in_range(works_count(UAIO_BOUNDED).nr_workers, 12, 32);
		assert_int_equal(works_count(UAIO_BOUNDED).nr_fixed, nr_fixed);
		hurry_away();
		assert_int_equal(works_count(UAIO_BOUNDED).nr_fixed, nr_fixed);
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

/* Time is over for each as soon as it sleeps, while works come in. */
static int leave_under_load(void)
{
	assert_int_equal(works_start(), 0);
	works_set_placement(UAIO_PLACE_PACKED);
	works_set_fixed(UAIO_BOUNDED, (int)nr_fixed, 8);
	unit_hook(works_hurry);
	for (unsigned i = 0; i < unit_rounds(100); i++) {
		run_mixed();
		prepare(40, i % 2);
		for (unsigned j = 0; j < 40; j++) {
			works_queue(&items[j], 1);
			works_await_end(&items[j], 1);
		}
		assert_true(works_ran_once(items, 40));
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
 * The watcher has left, and no thread is to be had: those that are there do
 * all, or who queues does.
 */
static int be_refused_later(void)
{
	assert_int_equal(works_start(), 0);
	works_set_placement(UAIO_PLACE_ROUND_ROBIN);
	if (nr_fixed)
		works_set_fixed(UAIO_BOUNDED, (int)nr_fixed, 8);
	queue_blocked(UAIO_BOUNDED, 4);
	works_gate_await(&gate, 4);
	await_settled(UAIO_BOUNDED);
	unit_hook(works_hurry);
	works_hurry_watcher();
	unit_hook(works_stay);
	works_allow_threads(0);
	/* More than there are workers, all of which are held. */
	prepare(10, true);
	works_queue(items, 10);
	let_go(4);
	works_await_end(items, 10);
	assert_true(works_ran_once(items, 10));
	run_mixed();
	hurry_away();
	run_mixed();
	assert_true(works_nr_refused_threads() > 0);

	works_allow_threads(UINT32_MAX);
	queue_blocked(UAIO_BOUNDED, 40);
	works_gate_await(&gate, 32);
	let_go(40);
	return 0;
}

static void threads_refused_once_the_watcher_has_left_do_no_harm(void **state)
{
	(void)state;
	for (nr_fixed = 0; nr_fixed < 4; nr_fixed += 2)
		assert_int_equal(unit_in_child(be_refused_later), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(short_works_add_no_worker),
		UNIT_TEST(there_are_never_more_workers_than_allowed),
		UNIT_TEST(
			as_many_are_added_as_are_held_for_long_and_leave_soon),
		UNIT_TEST(those_whom_nobody_misses_leave_though_work_comes_in),
		UNIT_TEST(with_any_number_of_threads_all_works_are_run),
		UNIT_TEST(unbounded_works_are_run_or_given_back),
		UNIT_TEST(idle_workers_leave_but_for_the_fixed_and_come_back),
		UNIT_TEST(workers_that_leave_all_the_time_lose_nothing),
		UNIT_TEST(threads_refused_once_the_watcher_has_left_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
