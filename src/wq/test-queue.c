/* SPDX-License-Identifier: MIT */
/* On which list a work item is put (placement), and how it is removed from its list. */
#undef NDEBUG
#include <sched.h>

#include "base/sleep.h"
#include "wq/wqint.h"
#include "items.h"

enum { NR = 2048 };

static struct item items[NR];
static struct item_gate gate;

static void prepare(unsigned nr, bool may_block)
{
	assert_true(nr <= NR);
	for (unsigned i = 0; i < nr; i++)
		items[i] = (struct item){ .work.may_block = may_block };
}

/*
 * An item that keeps one worker busy until the gate opens. If the item cannot block,
 * the worker counts as awake meanwhile.
 */
static struct item held;

static void hold_one(bool may_block)
{
	gate = (struct item_gate){ 0 };
	held = (struct item){
		.work.may_block = may_block,
		.gate = &gate,
	};
	items_queue(&held, 1);
	item_gate_await(&gate, 1);
}

static void let_go(void)
{
	item_gate_open(&gate);
	items_await_end(&held, 1);
	assert_true(items_ran_once(&held, 1));
}

/* Block nr workers at the same time, and return when they are idle again. */
static void block_all(unsigned nr)
{
	gate = (struct item_gate){ 0 };
	prepare(nr, true);
	for (unsigned i = 0; i < nr; i++)
		items[i].gate = &gate;
	items_queue(items, nr);
	item_gate_await(&gate, nr);
	item_gate_open(&gate);
	items_await_end(items, nr);
	items_await_rest();
}

/*
 * Placement
 */

static unsigned nr_lists;

static int place_in_turn(void)
{
	enum { AT_ONCE = 160, ROUNDS = 50, ALL = AT_ONCE * ROUNDS };
	struct uaio_wq_counters before, after;

	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_ROUND_ROBIN);
	items_start_fixed(nr_lists, UAIO_WQ_ITEMS_MAX);
	before = items_count(UAIO_BOUNDED);
	for (unsigned i = 0; i < ROUNDS; i++) {
		prepare(AT_ONCE, false);
		items_queue(items, AT_ONCE);
		items_await_end(items, AT_ONCE);
		assert_true(items_ran_once(items, AT_ONCE));
	}
	after = items_count(UAIO_BOUNDED);
	for (unsigned i = 0; i < UAIO_WQ_FIXED_MAX; i++) {
		uint64_t nr = after.nr_placed[i] - before.nr_placed[i];

		if (i < nr_lists)
			assert_in_range(nr * nr_lists, ALL * 8 / 10,
					ALL * 12 / 10);
		else
			assert_int_equal(nr, 0);
	}
	assert_int_equal(after.nr_private - before.nr_private, ALL);
	return 0;
}

static void round_robin_gives_each_list_the_same_number(void **state)
{
	static const unsigned numbers[] = { 1, 2, 3, 4, 8 };

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(numbers); i++) {
		nr_lists = numbers[i];
		assert_int_equal(unit_in_child(place_in_turn), 0);
	}
}

/*
 * All workers are blocked while items are queued. Each private list must take EACH
 * items, and the public list must take all further items.
 */
static int fill_lists(void)
{
	enum { LISTS = 3, EACH = 5, ALL = LISTS * EACH + 10 };
	static struct item blocked[LISTS];
	struct uaio_wq_counters before, after;

	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_ROUND_ROBIN);
	items_start_fixed(LISTS, EACH);
	for (unsigned i = 0; i < LISTS; i++) {
		blocked[i].work.may_block = true;
		blocked[i].gate = &gate;
	}
	items_queue(blocked, LISTS);
	item_gate_await(&gate, LISTS);
	before = items_count(UAIO_BOUNDED);
	prepare(ALL, true);
	for (unsigned i = 0; i < ALL; i++)
		items_queue(&items[i], 1);
	after = items_count(UAIO_BOUNDED);
	assert_int_equal(after.nr_private - before.nr_private, LISTS * EACH);
	assert_int_equal(after.nr_public - before.nr_public, 10);
	assert_int_equal(after.nr_queued, ALL);
	for (unsigned i = 0; i < LISTS; i++)
		assert_int_equal(after.nr_placed[i] - before.nr_placed[i],
				 EACH);
	item_gate_open(&gate);
	items_await_end(items, ALL);
	assert_true(items_ran_once(items, ALL));
	items_await_rest();
	return 0;
}

static void items_that_full_lists_refuse_are_public_not_dropped(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(fill_lists), 0);
}

/*
 * Of two workers one is busy with a short item, and the other sleeps. Short items, and
 * one item that may block, must not wake the sleeping worker, since the busy worker
 * will run them. A second item that may block must wake the sleeping worker.
 */
static int place_packed(void)
{
	struct uaio_wq_counters before, after;

	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_PACKED);
	items_start_fixed(2, UAIO_WQ_ITEMS_MAX);
	/* Let both workers make a call that blocks, and return from it. */
	block_all(2);
	hold_one(false);
	before = items_count(UAIO_BOUNDED);
	assert_int_equal(before.nr_idle, 1);
	prepare(12, false);
	items[10].work.may_block = items[11].work.may_block = true;
	items_queue(items, 10);
	after = items_count(UAIO_BOUNDED);
	assert_int_equal(after.nr_private - before.nr_private, 10);
	/* All ten items are on the same private list. */
	assert_true(after.nr_placed[0] - before.nr_placed[0] == 10 ||
		    after.nr_placed[1] - before.nr_placed[1] == 10);
	assert_int_equal(after.nr_wakes, before.nr_wakes);
	assert_int_equal(after.nr_idle, 1);

	items_queue(&items[10], 2);
	items_await_end(&items[10], 2);
	after = items_count(UAIO_BOUNDED);
	assert_int_equal(after.nr_public - before.nr_public, 2);
	assert_int_equal(after.nr_wakes, before.nr_wakes + 1);
	assert_int_equal(load_relaxed(&items[0].nr_begun), 0);
	let_go();
	items_await_end(items, 12);
	assert_true(items_ran_once(items, 12));
	return 0;
}

static void short_items_go_to_an_awake_worker_others_to_all(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(place_packed), 0);
}

/*
 * A worker is stuck in a short item, and its private list has more items. A sleeping
 * worker must be woken to run the items of this list.
 */
static int leave_on_a_list(void)
{
	int64_t since;

	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_PACKED);
	items_start_fixed(2, UAIO_WQ_ITEMS_MAX);
	for (unsigned round = 0; round < 10; round++) {
		items_await_rest();
		hold_one(false);
		prepare(4, false);
		items_queue(items, 3);
		assert_int_equal(load_relaxed(&items[0].nr_begun), 0);
		since = uaio_now_ns();
		while (uaio_now_ns() - since <= UAIO_WQ_STALE_NS)
			sched_yield();
		items_queue(&items[3], 1);
		items_await_end(items, 4);
		assert_true(items_ran_once(items, 4));
		let_go();
	}
	return items_count(UAIO_BOUNDED).nr_late > 0 ? 0 : 1;
}

static void items_behind_an_owner_that_is_stuck_are_run(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(leave_on_a_list), 0);
}

/*
 * Cancelled items must not use up the capacity of a list: in each round the list takes
 * as many items as its capacity.
 */
static int fill_and_cancel(void)
{
	/*
	 * More items than a worker runs from its own list in a row (STREAK in worker.c)
	 */
	enum { MORE = 40 };
	static const unsigned capacities[] = { 1, 2, 64, UAIO_WQ_ITEMS_MAX };

	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_PACKED);
	for (unsigned i = 0; i < unit_rounds(200); i++) {
		unsigned nr = capacities[i % NR_ELEMENTS(capacities)];
		struct uaio_wq_counters before, after;

		items_start_fixed(1, (int)nr);
		hold_one(false);
		before = items_count(UAIO_BOUNDED);
		prepare(nr + MORE, false);
		items_queue(items, nr + MORE);
		after = items_count(UAIO_BOUNDED);
		assert_int_equal(after.nr_private - before.nr_private, nr);
		assert_int_equal(after.nr_public - before.nr_public, MORE);
		for (unsigned j = 0; j < nr + MORE; j++)
			if (i % 3 == 0 || j % 3 == i % 3)
				assert_true(items_cancel(&items[j]));
		let_go();
		items_await_end(items, nr + MORE);
		items_await_rest();
		assert_int_equal(items_count(UAIO_BOUNDED).nr_queued, 0);
	}
	return 0;
}

static void nothing_cancelled_or_run_takes_up_room_for_good(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(fill_and_cancel), 0);
}

/* Cancelling an item on each kind of list */

enum { SOME = 7 };

/* Cancel the first, the last and a middle item; the others must run. */
static void cancel_some_and_let_go(void)
{
	static const unsigned some[] = { 0, 3, SOME - 1 };

	for (unsigned i = 0; i < NR_ELEMENTS(some); i++) {
		assert_true(items_cancel(&items[some[i]]));
		assert_false(items_cancel(&items[some[i]]));
	}
	let_go();
	items_await_end(items, SOME);
	items_await_rest();
	for (unsigned i = 0; i < SOME; i++) {
		bool was_cancelled = i == 0 || i == 3 || i == SOME - 1;

		assert_int_equal(items[i].nr_cancelled, was_cancelled);
		assert_int_equal(items[i].nr_begun, !was_cancelled);
		assert_int_equal(items[i].nr_run, !was_cancelled);
		assert_false(items_cancel(&items[i]));
	}
}

static int cancel_public(void)
{
	assert_int_equal(items_start(), 0);
	uaio_wq_limit_workers(UAIO_BOUNDED, 1);
	for (unsigned i = 0; i < 2; i++) {
		hold_one(true);
		prepare(SOME, i);
		items_queue(items, SOME);
		assert_int_equal(items_count(UAIO_BOUNDED).nr_queued, SOME);
		cancel_some_and_let_go();
	}
	return 0;
}

static int cancel_private(void)
{
	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_ROUND_ROBIN);
	items_start_fixed(1, SOME);
	/*
	 * In odd rounds the owner of the private list is blocked, so other workers may
	 * take items from the list.
	 */
	for (unsigned i = 0; i < 4; i++) {
		uint64_t before = items_count(UAIO_BOUNDED).nr_private;

		hold_one(i % 2);
		prepare(SOME, i / 2);
		items_queue(items, SOME);
		assert_int_equal(items_count(UAIO_BOUNDED).nr_private - before,
				 SOME + 1);
		cancel_some_and_let_go();
	}
	return 0;
}

/*
 * Cancel items of a worker's own list, to which the worker has moved them from the
 * public list.
 */
static int cancel_share(void)
{
	static struct item_gate second;
	static struct item first = { .gate = &second };

	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_PUBLIC);
	items_start_fixed(1, UAIO_WQ_ITEMS_MAX);
	hold_one(true);
	prepare(SOME, false);
	items_queue(&first, 1);
	items_queue(items, SOME);
	let_go();
	item_gate_await(&second, 1);
	assert_int_equal(items_count(UAIO_BOUNDED).nr_queued, SOME);
	for (unsigned i = 0; i < SOME; i += 2)
		assert_true(items_cancel(&items[i]) &&
			    !items_cancel(&items[i]));
	item_gate_open(&second);
	items_await_end(items, SOME);
	items_await_rest();
	for (unsigned i = 0; i < SOME; i++)
		assert_int_equal(items[i].nr_run, i % 2);
	return 0;
}

/*
 * The items are in the private list of a blocked worker, which must give up the list.
 */
static int cancel_given_up(void)
{
	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_ROUND_ROBIN);
	items_start_fixed(1, SOME);
	hold_one(true);
	prepare(SOME, true);
	items_queue(items, SOME);
	items_set_fixed(UAIO_BOUNDED, 0, -1);
	cancel_some_and_let_go();
	return 0;
}

static int cancel_unbounded(void)
{
	assert_int_equal(items_start(), 0);
	uaio_wq_limit_workers(UAIO_UNBOUNDED, 1);
	held = (struct item){
		.work.may_block = true,
		.account = UAIO_UNBOUNDED,
		.gate = &gate,
	};
	items_queue(&held, 1);
	item_gate_await(&gate, 1);
	prepare(SOME, true);
	for (unsigned i = 0; i < SOME; i++)
		items[i].account = UAIO_UNBOUNDED;
	items_queue(items, SOME);
	cancel_some_and_let_go();
	return 0;
}

static void an_item_queued_anywhere_is_cancelled_once(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(cancel_public), 0);
	assert_int_equal(unit_in_child(cancel_private), 0);
	assert_int_equal(unit_in_child(cancel_share), 0);
	assert_int_equal(unit_in_child(cancel_given_up), 0);
	assert_int_equal(unit_in_child(cancel_unbounded), 0);
}

/*
 * An item cannot be cancelled before it is queued, while it runs, or after it has
 * ended. An item that is only collected in a handover (struct uaio_handover) is not
 * queued yet.
 */
static int cancel_what_is_not_queued(void)
{
	static struct item item;
	struct uaio_handover handover;
	struct list refused;

	assert_int_equal(items_start(), 0);
	for (unsigned i = 0; i < 4; i++) {
		item = (struct item){ .work.may_block = i % 2 };
		if (i == 2)
			items_start_fixed(1, SOME);
		assert_false(items_cancel(&item));
		uaio_handover_init(&handover);
		list_init(&refused);
		uaio_wq_add(UAIO_BOUNDED, &item.work, &handover);
		assert_false(items_cancel(&item));
		uaio_wq_hand_over(&handover, &refused);
		items_await_end(&item, 1);
		assert_false(items_cancel(&item));
		assert_true(items_ran_once(&item, 1));
		hold_one(i % 2);
		assert_false(items_cancel(&held));
		let_go();
		assert_false(items_cancel(&held));
	}
	return 0;
}

static void an_item_that_is_not_queued_is_not_found(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(cancel_what_is_not_queued), 0);
}

/* As soon as a thread has cancelled an item, it may queue the item again. */
static int queue_again(void)
{
	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_PACKED);
	items_start_fixed(1, 4);
	for (unsigned i = 0; i < 2; i++) {
		hold_one(false);
		prepare(SOME, i);
		items_queue(items, SOME);
		for (unsigned j = 0; j < 100; j++) {
			struct item *item = &items[j % SOME];

			assert_true(items_cancel(item));
			items_queue(item, 1);
		}
		let_go();
		items_await_rest();
		for (unsigned j = 0; j < SOME; j++)
			assert_int_equal(items[j].nr_run, 1);
	}
	return 0;
}

static void a_cancelled_item_may_be_queued_again(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(queue_again), 0);
}

/*
 * Two threads cancel items that were queued just before, while workers take and run
 * items.
 */
static struct item crowd[20000];
static uint32_t nr_queued; /* atomic */
static uint32_t is_over;   /* atomic */

static long cancel_the_latest(void *arg)
{
	unsigned lag = *(unsigned *)arg;
	long nr_cancelled = 0;

	while (!load_relaxed(&is_over)) {
		unsigned now = load_acquire(&nr_queued);

		for (unsigned i = 1; i <= lag && i <= now; i++)
			nr_cancelled += items_cancel(&crowd[now - i]);
		sched_yield();
	}
	return nr_cancelled;
}

static enum uaio_wq_placement placement;

/*
 * Queue the items of crowd[].
 * Return: how many; on a busy machine not all of them.
 */
static unsigned queue_crowd(void)
{
	int64_t end = uaio_now_ns() + 1000000000;
	unsigned nr = 0;

	while (nr < unit_rounds(NR_ELEMENTS(crowd)) && uaio_now_ns() < end) {
		crowd[nr].work.may_block = nr % 5 == 0;
		items_queue(&crowd[nr], 1);
		store_release(&nr_queued, ++nr);
		if (nr % 8 == 0)
			sched_yield();
	}
	return nr;
}

static int cancel_at_once(void)
{
	struct unit_thread cancellers[2];
	unsigned lags[] = { 1, 5 }, nr;
	long nr_cancelled = 0;

	assert_int_equal(items_start(), 0);
	items_set_placement(placement);
	items_start_fixed(2, 8);
	uaio_wq_limit_workers(UAIO_BOUNDED, 4);
	for (unsigned i = 0; i < 2; i++)
		unit_thread_start(&cancellers[i], cancel_the_latest, &lags[i]);
	nr = queue_crowd();
	items_await_end(crowd, nr);
	store_relaxed(&is_over, 1);
	for (unsigned i = 0; i < 2; i++)
		nr_cancelled += unit_thread_join(&cancellers[i]);
	for (unsigned i = 0; i < nr; i++) {
		assert_int_equal(crowd[i].nr_run + crowd[i].nr_cancelled, 1);
		nr_cancelled -= crowd[i].nr_cancelled;
	}
	assert_int_equal(nr_cancelled, 0);
	items_await_rest();
	return 0;
}

static void of_all_threads_that_want_an_item_one_gets_it(void **state)
{
	(void)state;
	for (placement = UAIO_PLACE_PUBLIC; placement <= UAIO_PLACE_PACKED;
	     placement++)
		assert_int_equal(unit_in_child(cancel_at_once), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(round_robin_gives_each_list_the_same_number),
		UNIT_TEST(items_that_full_lists_refuse_are_public_not_dropped),
		UNIT_TEST(short_items_go_to_an_awake_worker_others_to_all),
		UNIT_TEST(items_behind_an_owner_that_is_stuck_are_run),
		UNIT_TEST(nothing_cancelled_or_run_takes_up_room_for_good),
		UNIT_TEST(an_item_queued_anywhere_is_cancelled_once),
		UNIT_TEST(an_item_that_is_not_queued_is_not_found),
		UNIT_TEST(a_cancelled_item_may_be_queued_again),
		UNIT_TEST(of_all_threads_that_want_an_item_one_gets_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
