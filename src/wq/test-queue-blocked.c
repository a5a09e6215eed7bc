/* SPDX-License-Identifier: MIT */
/*
 * Some workers are blocked in calls that do not return. Other workers must run all
 * other items, as long as one is free or may be created.
 */
#undef NDEBUG
#include <sched.h>

#include "wq/wqint.h"
#include "items.h"

enum { NR = 400 };

static struct item items[NR];
static struct item blocked[64];
static struct item_gate gate;

static enum uaio_wq_placement placement;
static unsigned nr_fixed;

static void prepare(unsigned nr, bool may_block)
{
	for (unsigned i = 0; i < nr; i++)
		items[i] = (struct item){ .work.may_block = may_block };
}

/*
 * Run items, queued one by one or several together. A third of the items may block.
 */
static void run_mixed(enum uaio_account account)
{
	prepare(NR, false);
	for (unsigned i = 0; i < NR; i++) {
		items[i].work.may_block = i % 3 == 0;
		items[i].account = account;
	}
	for (unsigned i = 0; i < NR; i += 1 + i / 40)
		items_queue(&items[i],
			    i + 1 + i / 40 < NR ? 1 + i / 40 : NR - i);
	items_await_end(items, NR);
	assert_true(items_ran_once(items, NR));
}

/*
 * Block nr workers: queue items, from index `from` on, that wait at the gate (an
 * item_gate, which the test opens). Return when all of them wait there.
 */
static void block(enum uaio_account account, unsigned from, unsigned nr)
{
	for (unsigned i = from; i < from + nr; i++)
		blocked[i] = (struct item){
			.work.may_block = true,
			.account = account,
			.gate = &gate,
		};
	items_queue(&blocked[from], nr);
	item_gate_await(&gate, from + nr);
}

static void let_go(unsigned nr)
{
	item_gate_open(&gate);
	items_await_end(blocked, nr);
	assert_true(items_ran_once(blocked, nr));
	items_await_rest();
}

/*
 * Run the test with each placement (rule that puts items on lists), once without and
 * once with three fixed workers.
 */
static void for_each_way(int (*run)(void))
{
	for (nr_fixed = 0; nr_fixed <= 3; nr_fixed += 3)
		for (placement = UAIO_PLACE_PUBLIC;
		     placement <= UAIO_PLACE_PACKED; placement++)
			assert_int_equal(unit_in_child(run), 0);
}

static void start(void)
{
	assert_int_equal(items_start(), 0);
	items_set_placement(placement);
	if (nr_fixed)
		items_start_fixed(nr_fixed, 16);
	uaio_wq_limit_workers(UAIO_BOUNDED, 32);
}

static int block_most(void)
{
	start();
	block(UAIO_BOUNDED, 0, 24);
	run_mixed(UAIO_BOUNDED);
	/* Now only one of the 32 allowed workers is not blocked. */
	block(UAIO_BOUNDED, 24, 7);
	run_mixed(UAIO_BOUNDED);
	assert_in_range(items_count(UAIO_BOUNDED).nr_workers, 32, 32);
	let_go(31);
	return 0;
}

static void all_other_items_run_as_long_as_a_worker_is_free(void **state)
{
	(void)state;
	for_each_way(block_most);
}

/*
 * The only worker is a fixed one, which has a private list, and an item blocks this
 * worker. A new worker must run the items of the list.
 */
static int block_an_owner(void)
{
	enum { BEHIND = 10 };
	struct uaio_wq_counters before, after;

	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_ROUND_ROBIN);
	items_start_fixed(1, BEHIND);
	block(UAIO_BOUNDED, 0, 1);
	uaio_wq_limit_workers(UAIO_BOUNDED, 2);
	before = items_count(UAIO_BOUNDED);
	prepare(BEHIND, true);
	items_queue(items, BEHIND);
	items_await_end(items, BEHIND);
	assert_true(items_ran_once(items, BEHIND));
	after = items_count(UAIO_BOUNDED);
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

/*
 * Like a pipe's reader that waits for the writer, an item waits for another item that
 * is queued after it.
 */
static void open_gate(struct item *item, struct uaio_worker *worker)
{
	(void)item;
	(void)worker;
	item_gate_open(&gate);
}

static int wait_for_one_behind(void)
{
	assert_int_equal(items_start(), 0);
	items_set_placement(placement);
	items_start_fixed(1, 16);
	uaio_wq_limit_workers(UAIO_BOUNDED, 2);
	for (unsigned round = 0; round < unit_rounds(400); round++) {
		gate = (struct item_gate){ 0 };
		prepare(2, true);
		items[0].gate = &gate;
		items[1].act = open_gate;
		items[1].work.may_block = round / 2 % 2;
		if (round % 2) {
			items_queue(items, 2);
		} else {
			items_queue(&items[0], 1);
			items_queue(&items[1], 1);
		}
		items_await_end(items, 2);
		assert_true(items_ran_once(items, 2));
		/*
		 * In half of the rounds the workers sleep when items are queued, in the
		 * others they are awake.
		 */
		if (round % 8 < 4)
			items_await_rest();
	}
	assert_int_equal(items_count(UAIO_BOUNDED).nr_workers, 2);
	return 0;
}

static void an_item_may_wait_for_one_behind_it(void **state)
{
	(void)state;
	for (placement = UAIO_PLACE_PUBLIC; placement <= UAIO_PLACE_PACKED;
	     placement++)
		assert_int_equal(unit_in_child(wait_for_one_behind), 0);
}

/*
 * Two items are put on a private list whose owner is awake, so no other thread is
 * woken. The first item blocks the owner. Before the owner blocks, it must wake another
 * thread for the second item. In the first round the owner wakes the manager. In later
 * rounds it wakes the worker that the manager has created, if that worker sleeps.
 */
static int wait_on_the_list_of_one_awake(void)
{
	static struct item_gate short_gate;
	static struct item first;

	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_ROUND_ROBIN);
	items_start_fixed(1, 16);
	for (unsigned round = 0; round < unit_rounds(100); round++) {
		short_gate = gate = (struct item_gate){ 0 };
		first = (struct item){ .gate = &short_gate };
		items_queue(&first, 1);
		item_gate_await(&short_gate, 1);
		uaio_wq_limit_workers(UAIO_BOUNDED, 2);
		prepare(2, true);
		items[0].gate = &gate;
		items[1].act = open_gate;
		items_queue(items, 2);
		item_gate_open(&short_gate);
		items_await_end(items, 2);
		items_await_end(&first, 1);
		assert_true(items_ran_once(items, 2));
		items_await_rest();
	}
	return 0;
}

static void a_worker_that_blocks_leaves_its_list_to_a_woken_one(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(wait_on_the_list_of_one_awake), 0);
}

/* atomic: how many items of the private list have run */
static uint32_t nr_before;
/* atomic: how many private items had run before the public item */
static uint32_t position;

static void count_before(struct item *item, struct uaio_worker *worker)
{
	(void)item;
	(void)worker;
	add_relaxed(&nr_before, 1);
}

static void note_position(struct item *item, struct uaio_worker *worker)
{
	(void)item;
	(void)worker;
	store_relaxed(&position, load_relaxed(&nr_before));
}

static bool are_short;

static int saturate(void)
{
	enum { CAPACITY = NR - 1, BOUND = 32 };

	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_ROUND_ROBIN);
	items_start_fixed(1, CAPACITY);
	block(UAIO_BOUNDED, 0, 1);
	prepare(NR, !are_short);
	for (unsigned i = 0; i < CAPACITY; i++)
		items[i].act = count_before;
	items[CAPACITY].act = note_position;
	/*
	 * The private list has no room for the last item, which goes to the public
	 * list.
	 */
	items_queue(items, NR);
	let_go(1);
	items_await_end(items, NR);
	assert_true(items_ran_once(items, NR));
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

/*
 * All workers of one account are blocked, and more of its items wait. The other account
 * must still run its items.
 */
static int block_an_account(enum uaio_account account)
{
	enum { LIMIT = 4, BEHIND = 50 };
	enum uaio_account other =
		account == UAIO_BOUNDED ? UAIO_UNBOUNDED : UAIO_BOUNDED;

	start();
	assert_true(uaio_wq_limit_workers(account, LIMIT) > 0);
	block(account, 0, LIMIT);
	for (unsigned i = LIMIT; i < LIMIT + BEHIND; i++)
		blocked[i] = (struct item){
			.work.may_block = true,
			.account = account,
		};
	items_queue(&blocked[LIMIT], BEHIND);
	for (unsigned i = 0; i < 3; i++)
		run_mixed(other);
	assert_int_equal(items_count(account).nr_queued, BEHIND);
	assert_int_equal(items_count(account).nr_workers, LIMIT);
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

/*
 * A worker completes a short item by a call that may block. If the worker's next item
 * may block, too, the library has already counted the worker as blocked, and must not
 * count it again.
 */
/* what uaio_wq_blocks() returned: whether it has counted the worker as blocked */
static bool has_counted;
/* invariant that was broken in uaio_wq_blocks(), or NULL */
static const char *breach;

static void block_at_the_end(struct item *item, struct uaio_worker *worker)
{
	(void)item;
	has_counted = uaio_wq_blocks(worker);
	breach = items_find_breach(UAIO_BOUNDED, true);
	if (has_counted)
		uaio_wq_returned(worker);
}

static int block_in_a_flush(void)
{
	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_PUBLIC);
	uaio_wq_limit_workers(UAIO_BOUNDED, 1);
	for (unsigned nr = 1; nr <= 2; nr++) {
		gate = (struct item_gate){ 0 };
		block(UAIO_BOUNDED, 0, 1);
		prepare(2, true);
		items[0].work.may_block = false;
		items[0].end = block_at_the_end;
		items_queue(items, nr);
		let_go(1);
		items_await_end(items, nr);
		assert_true(items_ran_once(items, nr));
		assert_int_equal(has_counted, nr == 1);
		assert_null(breach);
		items_await_rest();
	}
	return 0;
}

static void a_worker_counts_as_blocked_once(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(block_in_a_flush), 0);
}

/* An item's run() makes a first call that may block, and then a second one. */
static struct item_gate second_gate;

static void block_twice(struct item *item, struct uaio_worker *worker)
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
	static struct item first = {
		.work.may_block = true,
		.act = block_twice,
	};

	start();
	items_queue(&first, 1);
	item_gate_await(&second_gate, 1);
	run_mixed(UAIO_BOUNDED);
	block(UAIO_BOUNDED, 0, 30);
	run_mixed(UAIO_BOUNDED);
	item_gate_open(&second_gate);
	let_go(30);
	items_await_end(&first, 1);
	assert_true(items_ran_once(&first, 1));
	return 0;
}

static void a_second_call_of_an_item_holds_up_no_other(void **state)
{
	(void)state;
	for_each_way(block_again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(all_other_items_run_as_long_as_a_worker_is_free),
		UNIT_TEST(a_blocked_owner_strands_nothing),
		UNIT_TEST(an_item_may_wait_for_one_behind_it),
		UNIT_TEST(a_worker_that_blocks_leaves_its_list_to_a_woken_one),
		UNIT_TEST(full_private_lists_do_not_starve_the_public_one),
		UNIT_TEST(a_saturated_account_does_not_delay_the_other),
		UNIT_TEST(a_worker_counts_as_blocked_once),
		UNIT_TEST(a_second_call_of_an_item_holds_up_no_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
