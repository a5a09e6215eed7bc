/* SPDX-License-Identifier: MIT */
/*
 * Workers that are in calls which do not return: what else is queued is run by
 * the others, as long as there is one, or one more may come.
 */
#undef NDEBUG
#include <sched.h>

#include "wq/wqint.h"
#include "works.h"

enum { NR = 400 };

static struct works_item items[NR];
static struct works_item blocked[64];
static struct works_gate gate;

static enum uaio_wq_placement placement;
static unsigned nr_fixed;

static void prepare(unsigned nr, bool may_block)
{
	for (unsigned i = 0; i < nr; i++)
		items[i] = (struct works_item){ .work.may_block = may_block };
}

/* Short ones and others, each for itself or several at once. */
static void run_mixed(enum uaio_account account)
{
	prepare(NR, false);
	for (unsigned i = 0; i < NR; i++) {
		items[i].work.may_block = i % 3 == 0;
		items[i].account = account;
	}
	for (unsigned i = 0; i < NR; i += 1 + i / 40)
		works_queue(&items[i],
			    i + 1 + i / 40 < NR ? 1 + i / 40 : NR - i);
	works_await_end(items, NR);
	assert_true(works_ran_once(items, NR));
}

/* So many more works are held; return once they are. */
static void block(enum uaio_account account, unsigned from, unsigned nr)
{
	for (unsigned i = from; i < from + nr; i++)
		blocked[i] = (struct works_item){
			.work.may_block = true,
			.account = account,
			.gate = &gate,
		};
	works_queue(&blocked[from], nr);
	works_gate_await(&gate, from + nr);
}

static void let_go(unsigned nr)
{
	works_gate_open(&gate);
	works_await_end(blocked, nr);
	assert_true(works_ran_once(blocked, nr));
	works_await_rest();
}

/* Run it for each placement, without fixed workers and with three. */
static void for_each_way(int (*run)(void))
{
	for (nr_fixed = 0; nr_fixed <= 3; nr_fixed += 3)
		for (placement = UAIO_PLACE_PUBLIC;
		     placement <= UAIO_PLACE_PACKED; placement++)
			assert_int_equal(unit_in_child(run), 0);
}

static void start(void)
{
	assert_int_equal(works_start(), 0);
	works_set_placement(placement);
	if (nr_fixed)
		works_start_fixed(nr_fixed, 16);
	uaio_wq_limit_workers(UAIO_BOUNDED, 32);
}

static int block_most(void)
{
	start();
	block(UAIO_BOUNDED, 0, 24);
	run_mixed(UAIO_BOUNDED);
	/* The limit: one is left. */
	block(UAIO_BOUNDED, 24, 7);
	run_mixed(UAIO_BOUNDED);
	assert_in_range(works_count(UAIO_BOUNDED).nr_workers, 32, 32);
	let_go(31);
	return 0;
}

static void all_others_run_as_long_as_one_worker_is_free(void **state)
{
	(void)state;
	for_each_way(block_most);
}

/* The only worker, a fixed one, is held. What lies on its list, one more runs. */
static int block_an_owner(void)
{
	enum { BEHIND = 10 };
	struct uaio_wq_counters before, after;

	assert_int_equal(works_start(), 0);
	works_set_placement(UAIO_PLACE_ROUND_ROBIN);
	works_start_fixed(1, BEHIND);
	block(UAIO_BOUNDED, 0, 1);
	uaio_wq_limit_workers(UAIO_BOUNDED, 2);
	before = works_count(UAIO_BOUNDED);
	prepare(BEHIND, true);
	works_queue(items, BEHIND);
	works_await_end(items, BEHIND);
	assert_true(works_ran_once(items, BEHIND));
	after = works_count(UAIO_BOUNDED);
	assert_int_equal(after.nr_private - before.nr_private, BEHIND);
	assert_int_equal(after.nr_stolen - before.nr_stolen, BEHIND);
	assert_int_equal(load_relaxed(&blocked[0].nr_run), 0);
	let_go(1);
	return 0;
}

static void a_blocked_owner_strands_nothing(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(block_an_owner), 0);
}

/* One that waits for another, queued behind it: a pipe's reader and writer. */
static void open_gate(struct works_item *item, struct uaio_worker *worker)
{
	(void)item;
	(void)worker;
	works_gate_open(&gate);
}

static int wait_for_one_behind(void)
{
	assert_int_equal(works_start(), 0);
	works_set_placement(placement);
	works_start_fixed(1, 16);
	uaio_wq_limit_workers(UAIO_BOUNDED, 2);
	for (unsigned round = 0; round < unit_rounds(400); round++) {
		gate = (struct works_gate){ 0 };
		prepare(2, true);
		items[0].gate = &gate;
		items[1].act = open_gate;
		items[1].work.may_block = round / 2 % 2;
		if (round % 2) {
			works_queue(items, 2);
		} else {
			works_queue(&items[0], 1);
			works_queue(&items[1], 1);
		}
		works_await_end(items, 2);
		assert_true(works_ran_once(items, 2));
		/* From rest, and while they are still awake. */
		if (round % 8 < 4)
			works_await_rest();
	}
	assert_int_equal(works_count(UAIO_BOUNDED).nr_workers, 2);
	return 0;
}

static void a_work_may_wait_for_one_behind_it(void **state)
{
	(void)state;
	for (placement = UAIO_PLACE_PUBLIC; placement <= UAIO_PLACE_PACKED;
	     placement++)
		assert_int_equal(unit_in_child(wait_for_one_behind), 0);
}

/*
 * The owner is awake when they are put on its list, so nobody else is called;
 * when it comes to the first, which blocks, somebody has to be: the watcher to
 * begin with, and then the worker it has added, if that sleeps.
 */
static int wait_on_the_list_of_one_awake(void)
{
	static struct works_gate short_gate;
	static struct works_item first;

	assert_int_equal(works_start(), 0);
	works_set_placement(UAIO_PLACE_ROUND_ROBIN);
	works_start_fixed(1, 16);
	for (unsigned round = 0; round < unit_rounds(100); round++) {
		short_gate = gate = (struct works_gate){ 0 };
		first = (struct works_item){ .gate = &short_gate };
		works_queue(&first, 1);
		works_gate_await(&short_gate, 1);
		uaio_wq_limit_workers(UAIO_BOUNDED, 2);
		prepare(2, true);
		items[0].gate = &gate;
		items[1].act = open_gate;
		works_queue(items, 2);
		works_gate_open(&short_gate);
		works_await_end(items, 2);
		works_await_end(&first, 1);
		assert_true(works_ran_once(items, 2));
		works_await_rest();
	}
	return 0;
}

static void who_blocks_leaves_its_list_to_one_who_is_woken(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(wait_on_the_list_of_one_awake), 0);
}

/* How many of a full private list are run before one that is public. */
static uint32_t nr_before; /* atomic */
static uint32_t position;  /* atomic */

static void count_before(struct works_item *item, struct uaio_worker *worker)
{
	(void)item;
	(void)worker;
	add_relaxed(&nr_before, 1);
}

static void note_position(struct works_item *item, struct uaio_worker *worker)
{
	(void)item;
	(void)worker;
	store_relaxed(&position, load_relaxed(&nr_before));
}

static bool are_short;

static int saturate(void)
{
	enum { CAPACITY = NR - 1, BOUND = 32 };

	assert_int_equal(works_start(), 0);
	works_set_placement(UAIO_PLACE_ROUND_ROBIN);
	works_start_fixed(1, CAPACITY);
	block(UAIO_BOUNDED, 0, 1);
	prepare(NR, !are_short);
	for (unsigned i = 0; i < CAPACITY; i++)
		items[i].act = count_before;
	items[CAPACITY].act = note_position;
	/* There is no room on the list for the last one. */
	works_queue(items, NR);
	let_go(1);
	works_await_end(items, NR);
	assert_true(works_ran_once(items, NR));
	assert_int_equal(load_relaxed(&nr_before), CAPACITY);
	assert_in_range(load_relaxed(&position), 0, BOUND);
	return 0;
}

static void full_private_lists_do_not_starve_the_public_one(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(saturate), 0);
	are_short = true;
	assert_int_equal(unit_in_child(saturate), 0);
}

/* One account has no worker left, and works queued behind: nor is it slower. */
static int block_an_account(enum uaio_account account)
{
	enum { LIMIT = 4, BEHIND = 50 };
	enum uaio_account other =
		account == UAIO_BOUNDED ? UAIO_UNBOUNDED : UAIO_BOUNDED;

	start();
	assert_true(uaio_wq_limit_workers(account, LIMIT) > 0);
	block(account, 0, LIMIT);
	for (unsigned i = LIMIT; i < LIMIT + BEHIND; i++)
		blocked[i] = (struct works_item){
			.work.may_block = true,
			.account = account,
		};
	works_queue(&blocked[LIMIT], BEHIND);
	for (unsigned i = 0; i < 3; i++)
		run_mixed(other);
	assert_int_equal(works_count(account).nr_queued, BEHIND);
	assert_int_equal(works_count(account).nr_workers, LIMIT);
	let_go(LIMIT + BEHIND);
	return 0;
}

static int block_unbounded(void)
{
	return block_an_account(UAIO_UNBOUNDED);
}

static int block_bounded(void)
{
	return block_an_account(UAIO_BOUNDED);
}

static void a_saturated_account_does_not_delay_the_other(void **state)
{
	(void)state;
	for_each_way(block_unbounded);
	for_each_way(block_bounded);
}

/* A worker says that it is back, and that another such call begins. */
static struct works_gate second_gate;

static void block_twice(struct works_item *item, struct uaio_worker *worker)
{
	(void)item;
	uaio_wq_returned(worker);
	uaio_wq_blocks(worker);
	add_relaxed(&second_gate.nr_held, 1);
	while (!load_acquire(&second_gate.is_open))
		sched_yield();
}

static int block_again(void)
{
	static struct works_item first = {
		.work.may_block = true,
		.act = block_twice,
	};

	start();
	works_queue(&first, 1);
	works_gate_await(&second_gate, 1);
	run_mixed(UAIO_BOUNDED);
	block(UAIO_BOUNDED, 0, 30);
	run_mixed(UAIO_BOUNDED);
	works_gate_open(&second_gate);
	let_go(30);
	works_await_end(&first, 1);
	assert_true(works_ran_once(&first, 1));
	return 0;
}

static void a_second_call_of_a_work_holds_nobody_up(void **state)
{
	(void)state;
	for_each_way(block_again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(all_others_run_as_long_as_one_worker_is_free),
		UNIT_TEST(a_blocked_owner_strands_nothing),
		UNIT_TEST(a_work_may_wait_for_one_behind_it),
		UNIT_TEST(who_blocks_leaves_its_list_to_one_who_is_woken),
		UNIT_TEST(full_private_lists_do_not_starve_the_public_one),
		UNIT_TEST(a_saturated_account_does_not_delay_the_other),
		UNIT_TEST(a_second_call_of_a_work_holds_nobody_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
