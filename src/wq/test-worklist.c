/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <sched.h>
#include <stdlib.h>

#include "base/sleep.h"
#include "wq/worklist.h"
#include "wq/wq.h"
#include "unit.h"

enum { SLOTS = UAIO_WORKLIST_SLOTS, NR = 2 * SLOTS + 8 };

static struct uaio_worklist list;

static struct thing {
	struct uaio_work work;
	/* not atomic: written before the item is put in the list */
	uint64_t payload;
	/* atomic: how often a thread took the item */
	uint32_t nr_got;
} things[NR];

static struct thing *thing_of(struct uaio_work *work)
{
	return container_of(work, struct thing, work);
}

static void put(unsigned i)
{
	uaio_worklist_put(&list, &things[i].work, &things[i].work.slot);
}

/*
 * Take an item from the list.
 * Return: its index; -1 if the list is empty.
 */
static long take(void)
{
	struct uaio_work *work = uaio_worklist_take(&list);

	if (!work)
		return -1;
	add_relaxed(&thing_of(work)->nr_got, 1);
	return thing_of(work) - things;
}

static bool cancel(unsigned i)
{
	bool is_ours =
		uaio_worklist_remove(things[i].work.slot, &things[i].work);

	if (is_ours)
		add_relaxed(&things[i].nr_got, 1);
	return is_ours;
}

/*
 * Make a list, and put items 0 to nr - 1 in. `turn` is how often each slot has been
 * used before.
 */
static void start_with(unsigned nr, unsigned turn)
{
	uaio_worklist_init(&list);
	list.head = list.tail = turn * SLOTS;
	for (unsigned i = 0; i < NR; i++)
		things[i].nr_got = 0;
	for (unsigned i = 0; i < nr; i++)
		put(i);
}

/*
 * Take the remaining items, and check that each of the first nr items was taken once.
 */
static void assert_each_got_once(unsigned nr)
{
	while (take() >= 0)
		;
	for (unsigned i = 0; i < nr; i++)
		assert_int_equal(things[i].nr_got, 1);
	assert_int_equal(uaio_worklist_count(&list), 0);
	for (unsigned i = 0; i < SLOTS; i++)
		assert_null(list.slots[i]);
	assert_true(uaio_worklist_has_room(&list, 1));
}

static void the_oldest_is_taken_first(void **state)
{
	(void)state;
	start_with(3, 0);
	assert_int_equal(take(), 0);
	put(3);
	for (long i = 1; i < 4; i++)
		assert_int_equal(take(), i);
	assert_int_equal(take(), -1);
	assert_each_got_once(4);
}

static void there_is_room_up_to_the_limit_and_again(void **state)
{
	(void)state;
	start_with(0, 0);
	assert_false(uaio_worklist_has_room(&list, 0));
	for (unsigned i = 0; i < SLOTS; i++) {
		assert_true(uaio_worklist_has_room(&list, SLOTS));
		assert_true(uaio_worklist_has_room(&list, i + 1));
		assert_false(uaio_worklist_has_room(&list, i));
		put(i);
	}
	assert_false(uaio_worklist_has_room(&list, SLOTS));
	/* From here on the slots are used a second time. */
	for (unsigned i = 0; i < SLOTS; i++) {
		assert_int_equal(take(), i);
		assert_true(uaio_worklist_has_room(&list, SLOTS));
		put(SLOTS + i);
		assert_false(uaio_worklist_has_room(&list, SLOTS));
	}
	assert_each_got_once(2 * SLOTS);
}

/*
 * A cancelled item still counts as an item of the list, until a thread that takes items
 * has passed its slot.
 */
static void a_full_list_of_cancelled_items_is_empty_once_passed(void **state)
{
	(void)state;
	for (unsigned turn = 0; turn < 3; turn++) {
		start_with(SLOTS, turn);
		for (unsigned i = 0; i < SLOTS; i++) {
			assert_true(cancel(i));
			assert_false(cancel(i));
		}
		assert_int_equal(uaio_worklist_count(&list), SLOTS);
		assert_false(uaio_worklist_has_room(&list, SLOTS));
		assert_int_equal(take(), -1);
		assert_int_equal(uaio_worklist_count(&list), 0);
		assert_each_got_once(SLOTS);
	}
}

static void cancelling_leaves_the_others(void **state)
{
	static const unsigned some[] = { 0, 2, 3, 6 };

	(void)state;
	start_with(7, 1);
	for (unsigned i = 0; i < NR_ELEMENTS(some); i++)
		assert_true(cancel(some[i]));
	assert_int_equal(take(), 1);
	assert_false(cancel(1));
	assert_int_equal(take(), 4);
	assert_int_equal(take(), 5);
	assert_int_equal(take(), -1);
	assert_each_got_once(7);
}

/*
 * The first thread (victim) is stopped after each of its instructions in turn. Each
 * time the second thread (intruder) executes all its instructions. These are all
 * interleavings of the two threads with one switch.
 */

static long take_one(void *arg)
{
	(void)arg;
	return take();
}

static long take_until_empty(void *arg)
{
	(void)arg;
	while (take() >= 0)
		;
	return 0;
}

static long cancel_first(void *arg)
{
	(void)arg;
	return cancel(0);
}

static long put_third(void *arg)
{
	(void)arg;
	put(2);
	return 0;
}

/* Empty the list and fill all slots again, so that each slot is used once more. */
static long take_and_fill(void *arg)
{
	unsigned i = 2;

	(void)arg;
	(void)take();
	(void)take();
	while (uaio_worklist_has_room(&list, SLOTS))
		put(i++);
	return i;
}

static const struct {
	const char *name;
	long (*victim)(void *arg);
	long (*intruder)(void *arg);
} meetings[] = {
	{ "a taker and another", take_one, take_one },
	{ "a taker and one who empties it", take_one, take_until_empty },
	{ "a taker and a canceller", take_one, cancel_first },
	{ "a canceller and a taker", cancel_first, take_one },
	{ "a canceller and another", cancel_first, cancel_first },
	{ "one who puts and a taker", put_third, take_one },
	{ "one who puts and one who empties it", put_third, take_until_empty },
	{ "a taker and who puts", take_one, put_third },
	{ "a taker that sleeps through a turn", take_one, take_and_fill },
	{ "a canceller that sleeps through a turn", cancel_first,
	  take_and_fill },
};

static void each_item_goes_to_one_of_the_threads_that_meet(void **state)
{
	(void)state;
	for (size_t i = 0; i < NR_ELEMENTS(meetings); i++) {
		unsigned nr = 0;

		for (unsigned n = 0; n <= nr; n++) {
			unsigned nr_put = 2;
			long rets[2];

			start_with(2, 3);
			nr = unit_interleave(n, meetings[i].victim,
					     meetings[i].intruder, NULL, rets);
			if (meetings[i].intruder == take_and_fill)
				nr_put = (unsigned)rets[1];
			if (meetings[i].victim == put_third ||
			    meetings[i].intruder == put_third)
				nr_put = 3;
			assert_each_got_once(nr_put);
		}
		print_message("%s: %u instructions\n", meetings[i].name, nr);
		assert_true(!UNIT_CAN_STEP || nr > 5);
	}
}

/*
 * One thread puts items in. Other threads take and cancel items at the same time. The
 * list is so short that its slots are soon reused. A thread that takes an item must
 * also see the item's contents.
 */
enum {
	NR_TAKERS = 3,
	NR_PUT = 400000,
	/* On a busy machine the test puts no more items in after this time. */
	PUT_NS = 2000000000,
};

static uint32_t is_over; /* atomic */
static uint32_t nr_put;  /* atomic */

static long take_all(void *arg)
{
	long nr = 0;

	(void)arg;
	for (;;) {
		/*
		 * Read is_over first: if it is set, no item is put in after the
		 * following check.
		 */
		bool is_last = load_acquire(&is_over);
		struct uaio_work *work = uaio_worklist_take(&list);

		if (work) {
			struct thing *thing = thing_of(work);

			if (thing->payload == 0)
				return -1;
			thing->payload = 0;
			nr++;
			/*
			 * From now on the main thread may put this item in the list
			 * again.
			 */
			store_release(&thing->nr_got, 1);
		} else if (is_last) {
			return nr;
		} else {
			sched_yield();
		}
	}
}

/* Cancel the newest item. Item i is always in slot i modulo SLOTS. */
static long cancel_some(void *arg)
{
	long nr = 0;

	(void)arg;
	for (unsigned i = 0; !load_relaxed(&is_over); i++) {
		struct thing *thing = &things[load_relaxed(&nr_put) % SLOTS];

		if (uaio_worklist_remove(
			    uaio_worklist_slot(&list, thing - things),
			    &thing->work)) {
			store_release(&thing->nr_got, 1);
			nr++;
		}
		if (i % 16 == 0)
			sched_yield();
	}
	return nr;
}

static void all_threads_at_once_get_each_item_once(void **state)
{
	int64_t end = uaio_now_ns() + PUT_NS;
	struct unit_thread takers[NR_TAKERS], canceller;
	unsigned nr = 0;
	long nr_got;

	(void)state;
	start_with(0, 0);
	store_relaxed(&is_over, 0);
	store_relaxed(&nr_put, 0);
	for (unsigned i = 0; i < NR_TAKERS; i++)
		unit_thread_start(&takers[i], take_all, NULL);
	unit_thread_start(&canceller, cancel_some, NULL);
	for (unsigned i = 0; i < unit_rounds(NR_PUT) && uaio_now_ns() < end;
	     i++) {
		struct thing *thing = &things[i % SLOTS];

		/*
		 * Wait until the list has room, and until this item has been taken or
		 * cancelled, if it was put in before.
		 */
		while (!uaio_worklist_has_room(&list, 1 + i % 7) ||
		       (i >= SLOTS && !load_acquire(&thing->nr_got)))
			sched_yield();
		store_relaxed(&thing->nr_got, 0);
		thing->payload = i + 1;
		uaio_worklist_put(&list, &thing->work, &thing->work.slot);
		nr = i + 1;
		store_relaxed(&nr_put, nr);
	}
	store_release(&is_over, 1);
	nr_got = unit_thread_join(&canceller);
	for (unsigned i = 0; i < NR_TAKERS; i++) {
		long got = unit_thread_join(&takers[i]);

		assert_true(got >= 0);
		nr_got += got;
	}
	assert_int_equal(nr_got, nr);
	assert_int_equal(uaio_worklist_count(&list), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(the_oldest_is_taken_first),
		UNIT_TEST(there_is_room_up_to_the_limit_and_again),
		UNIT_TEST(a_full_list_of_cancelled_items_is_empty_once_passed),
		UNIT_TEST(cancelling_leaves_the_others),
		UNIT_TEST(each_item_goes_to_one_of_the_threads_that_meet),
		UNIT_TEST(all_threads_at_once_get_each_item_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
