/* SPDX-License-Identifier: MIT */
/*
 * test-queue-churn [TIMES]: each work item must end exactly once, whatever other
 * threads do at the same time
 *
 * Producers, workers and a canceller queue items of both accounts. Some of the items
 * may block. The canceller also removes items by uaio_wq_take(), as a thread that
 * closes a file does. Another thread changes the limits all the time, and an observer
 * checks the accounts' invariants. The number of items is TIMES million (default 1).
 */
#undef NDEBUG
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/sleep.h"
#include "items.h"

enum {
	NR_PLACEMENTS = 3,
	NR_SETTINGS = 13,
	/*
	 * The number of items for one setting (struct setting: the limits) with one
	 * placement. All pairs of a setting and a placement have a million items
	 * together.
	 */
	NR_ITEMS = 1000000 / (NR_PLACEMENTS * NR_SETTINGS) / 4 * 4 + 4,
	/*
	 * If the machine is busy, the test queues no more items for a setting after
	 * this time.
	 */
	SETTING_NS = 400000000,
	NR_PRODUCERS = 3,
	BATCH = 64,
	HANG_S = 120,
	MAX_WORKERS = 32,
};

static unsigned times = 1;
static uint64_t seed;

static struct item items[NR_ITEMS];
static unsigned nr_items;
static int64_t end_ns;
/* atomic: items that producers have reserved for themselves */
static uint32_t nr_claimed;
static uint32_t is_over; /* atomic: all items of the setting have ended */

struct setting {
	int nr_fixed, max_items;
	/* another thread changes both limits all the time */
	bool varies;
};

static uint32_t draw(uint64_t *state, uint32_t below)
{
	/*
	 * A linear congruential generator. Only the upper bits of its state are random
	 * enough.
	 */
	*state = *state * 6364136223846793005 + 1442695040888963407;
	return (uint32_t)(*state >> 33) % below;
}

/*
 * Items form groups of four. A producer queues the first three. The thread that runs or
 * cancels the third item queues the fourth.
 */

static bool leads(const struct item *item)
{
	return (item - items) % 4 == 2;
}

static void follow(struct item *item, struct uaio_worker *worker)
{
	(void)worker;
	items_queue(item + 1, 1);
}

/*
 * What some items do when they run: they call sched_yield(), so that other threads run.
 * Some items that may block sleep instead, for so long that workers are added.
 */
static void linger(struct item *item, struct uaio_worker *worker)
{
	(void)worker;
	if (item->work.may_block && (item - items) % 16 == 0)
		usleep(200);
	else
		sched_yield();
}

static void prepare(uint64_t *state)
{
	nr_items = unit_rounds(NR_ITEMS) / 4 * 4;
	end_ns = uaio_now_ns() + SETTING_NS;
	store_relaxed(&nr_claimed, 0);
	store_relaxed(&is_over, 0);
	for (unsigned i = 0; i < nr_items; i++)
		items[i] = (struct item){
			.work.may_block = draw(state, 3) == 0,
			.work.device = draw(state, 4),
			.account = i % 8 == 4 ? UAIO_UNBOUNDED : UAIO_BOUNDED,
			.act = i % 4 == 2            ? follow
			       : draw(state, 8) == 0 ? linger
						     : NULL,
		};
}

static long produce(void *arg)
{
	uint64_t state = seed + (uintptr_t)arg;

	while (uaio_now_ns() < end_ns) {
		/*
		 * The last item of each group of four is left out: follow() queues it.
		 */
		unsigned nr = 4 * (1 + draw(&state, BATCH / 4));
		unsigned first = add_relaxed(&nr_claimed, nr);

		for (unsigned i = first; i < first + nr && i < nr_items; i += 4)
			if (nr == BATCH)
				items_queue(&items[i], 3);
			else
				for (unsigned j = 0; j < 3; j++)
					items_queue(&items[i + j], 1);
		if (first + nr >= nr_items)
			break;
		if (draw(&state, 4) == 0)
			sched_yield();
	}
	return 0;
}

static bool is_wanted(const struct uaio_work *work, const void *arg)
{
	const struct item *item = container_of(work, struct item, work);

	return (item - items) % 64 == *(const unsigned *)arg;
}

/* Remove a random item by uaio_wq_take(), as a thread that closes a file does. */
static void take_one(uint64_t *state)
{
	unsigned which = draw(state, 64);
	struct uaio_work *work = uaio_wq_take(is_wanted, &which);
	struct item *item;

	if (!work)
		return;
	item = container_of(work, struct item, work);
	if (leads(item))
		follow(item, NULL);
	add_seq_cst(&item->nr_run, 1);
}

/* Cancel random items among those that were queued last. */
static long cancel(void *arg)
{
	uint64_t state = seed + (uintptr_t)arg;
	long nr = 0;

	while (!load_relaxed(&is_over)) {
		unsigned top = load_relaxed(&nr_claimed);
		struct item *item;

		if (draw(&state, 64) == 0)
			take_one(&state);
		top = top < nr_items ? top : nr_items;
		if (!top)
			continue;
		item = &items[top - 1 -
			      draw(&state, top < 2 * BATCH ? top : 2 * BATCH)];
		if (items_cancel(item)) {
			nr++;
			if (leads(item))
				follow(item, NULL);
		}
		sched_yield();
	}
	return nr;
}

/*
 * Change the limits at random until the setting is over.
 * Return: 0; 1 if a valid limit was refused.
 */
static long change_limits(void *arg)
{
	const struct setting *setting = arg;
	uint64_t state = seed;

	while (!load_relaxed(&is_over)) {
		struct uaio_wq_fixed_limits limits = { -1, -1 }, old;
		int nr = (int)draw(&state, MAX_WORKERS + 1);

		if (nr < setting->nr_fixed)
			nr = setting->nr_fixed;
		if (setting->varies) {
			limits.nr_workers = (int)draw(&state, 9);
			limits.max_items = (int)draw(&state, 100);
		}
		/*
		 * If `varies` is set, there may be more than nr fixed workers. Then the
		 * limit nr is refused.
		 */
		if (uaio_wq_limit_workers(UAIO_BOUNDED, nr) < 0 &&
		    !setting->varies)
			return 1;
		(void)uaio_wq_limit_workers(UAIO_UNBOUNDED, 1 + nr % 7);
		(void)uaio_wq_limit_fixed(UAIO_BOUNDED, &limits, &old);
		sched_yield();
	}
	return 0;
}

static long observe(void *arg)
{
	(void)arg;
	while (!load_relaxed(&is_over)) {
		for (unsigned i = 0; i < UAIO_NR_ACCOUNTS; i++) {
			const char *breach = items_find_breach(i, true);

			if (breach) {
				fprintf(stderr, "account %u: %s\n", i, breach);
				return 1;
			}
		}
		sched_yield();
	}
	return 0;
}

/*
 * Check how each of nr items has ended, and the counters.
 * Return: 0; else which check failed.
 */
static int look_back(unsigned nr, const struct uaio_wq_counters *before,
		     const struct setting *setting, long nr_cancelled)
{
	const struct uaio_wq_counters now = items_count(UAIO_BOUNDED);
	bool is_plain =
		!setting->varies && (!setting->nr_fixed || !setting->max_items);

	for (unsigned i = 0; i < nr; i++) {
		bool was_cancelled = load_seq_cst(&items[i].nr_cancelled);

		nr_cancelled -= was_cancelled;
		if (load_seq_cst(&items[i].nr_run) + was_cancelled != 1 ||
		    load_seq_cst(&items[i].nr_begun) > 1 ||
		    load_seq_cst(&items[i].nr_refused))
			return 1;
	}
	if (nr_cancelled)
		return 2;
	if (is_plain && (now.nr_private != before->nr_private ||
			 now.nr_stolen != before->nr_stolen))
		return 3;
	return now.nr_workers < now.nr_fixed ? 4 : 0;
}

static int churn(const struct setting *setting)
{
	struct unit_thread producers[NR_PRODUCERS], canceller, limiter,
		observer;
	struct uaio_wq_counters before;
	uint64_t state = ++seed;
	unsigned nr;
	int ret = 0;

	items_set_fixed(UAIO_BOUNDED, setting->nr_fixed, setting->max_items);
	prepare(&state);
	nr = nr_items;
	before = items_count(UAIO_BOUNDED);
	for (unsigned i = 0; i < NR_PRODUCERS; i++)
		unit_thread_start(&producers[i], produce,
				  (void *)(uintptr_t)(i + 1));
	unit_thread_start(&canceller, cancel, (void *)(uintptr_t)99);
	unit_thread_start(&limiter, change_limits, (void *)setting);
	unit_thread_start(&observer, observe, NULL);

	for (unsigned i = 0; i < NR_PRODUCERS; i++)
		unit_thread_join(&producers[i]);
	if (load_relaxed(&nr_claimed) < nr)
		nr = load_relaxed(&nr_claimed);
	items_await_end(items, nr);
	store_relaxed(&is_over, 1);
	ret = look_back(nr, &before, setting, unit_thread_join(&canceller));
	if (unit_thread_join(&limiter))
		return 10;
	if (unit_thread_join(&observer))
		return 11;
	if (ret)
		return ret;
	uaio_wq_limit_workers(UAIO_BOUNDED, MAX_WORKERS);
	items_await_rest();
	return 0;
}

static int churn_all(enum uaio_wq_placement placement)
{
	static const int numbers[] = { 0, 1, 3 };
	static const int capacities[] = { 0, 1, 2, 1 << 20 };
	const struct setting varying = { 0, 64, true };
	int ret = 0;

	alarm(times * HANG_S);
	if (items_start() < 0)
		return 100;
	items_set_placement(placement);
	for (unsigned i = 0; i < 12 * times && !ret; i++) {
		const struct setting setting = {
			.nr_fixed = numbers[i % 3],
			.max_items = capacities[i / 3 % 4],
		};

		ret = churn(&setting);
	}
	for (unsigned i = 0; i < times && !ret; i++)
		ret = churn(&varying);
	return ret;
}

static int churn_public(void)
{
	return churn_all(UAIO_PLACE_PUBLIC);
}

static int churn_in_turn(void)
{
	return churn_all(UAIO_PLACE_ROUND_ROBIN);
}

static int churn_packed(void)
{
	return churn_all(UAIO_PLACE_PACKED);
}

static void check(int (*churn_it)(void))
{
	alarm(times * HANG_S);
	print_message("seed %llu\n", (unsigned long long)seed);
	assert_int_equal(unit_in_child(churn_it), 0);
}

static void each_item_ends_once_from_one_list(void **state)
{
	(void)state;
	check(churn_public);
}

static void each_item_ends_once_from_lists_in_turn(void **state)
{
	(void)state;
	check(churn_in_turn);
}

static void each_item_ends_once_from_packed_lists(void **state)
{
	(void)state;
	check(churn_packed);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(each_item_ends_once_from_one_list),
		UNIT_TEST(each_item_ends_once_from_lists_in_turn),
		UNIT_TEST(each_item_ends_once_from_packed_lists),
	};

	times = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	seed = argc > 2 ? strtoull(argv[2], NULL, 0)
			: (uint64_t)time(NULL) * 1000003;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
