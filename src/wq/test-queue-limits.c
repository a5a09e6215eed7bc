/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "options/options.h"
#include "proc/thread.h"
#include "wq/wqint.h"
#include "items.h"
#include "threads.h"

static uint32_t may_begin;

static bool hold_threads(long nr, const long args[6], long *ret_res)
{
	(void)ret_res;
	if (nr == SYS_prctl && args[0] == PR_SET_NAME)
		while (!load_acquire(&may_begin))
			sched_yield();
	return false;
}

static bool all_are_gone(void *arg)
{
	(void)arg;
	return uaio_wq_nr_threads() == 0;
}

/*
 * After the first item is queued, the limit of workers is set to 0, before there is a
 * worker. The item must run.
 */
static int no_worker_yet(void)
{
	static struct item item = { .work.may_block = true };

	if (items_start() < 0)
		return 1;
	unit_hook(hold_threads);
	items_queue(&item, 1);
	if (uaio_wq_limit_workers(UAIO_BOUNDED, 0) != 32)
		return 2;
	store_release(&may_begin, 1);
	items_await_end(&item, 1);
	return 0;
}

static void work_queued_before_the_limit_was_0_is_run(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(no_worker_yet), 0);
}

/*
 * There is no worker, so the manager runs an item itself. A thread queues two items,
 * sees no worker, and is about to take the items back, to run them itself. At that
 * moment the manager creates a worker. One worker is not enough, so the thread must
 * call the manager for the second item. The hook stops the new worker, which could
 * otherwise call the manager first.
 */
static struct {
	struct item_gate gate;
	struct item held, items[2];
} helped;

static long queue_beside_the_helper(void *arg)
{
	(void)arg;
	items_queue(helped.items, NR_ELEMENTS(helped.items));
	return 0;
}

static bool has_worker_or_nothing_to_do(void *arg)
{
	struct uaio_wq_account *account =
		&uaio_wq_crews[0].accounts[UAIO_BOUNDED];
	bool has;

	(void)arg;
	uaio_wq_lock(account);
	has = account->nr_workers ||
	      (!account->is_helped && !load_relaxed(&account->nr_public));
	uaio_wq_unlock(account);
	return has;
}

static long have_a_worker(void *arg)
{
	(void)arg;
	item_gate_open(&helped.gate);
	unit_await(has_worker_or_nothing_to_do, NULL);
	return 0;
}

static bool hold_stepping_threads(long nr, const long args[6], long *ret_res)
{
	if (nr == SYS_prctl)
		unit_let_step();
	return hold_threads(nr, args, ret_res);
}

static bool has_nobody_and_nothing(void *arg)
{
	return uaio_wq_nr_workers(UAIO_BOUNDED) == 0 &&
	       items_manager_rests(NULL) && has_worker_or_nothing_to_do(arg);
}

/*
 * Let the worker be created when the thread that queues items has executed n
 * instructions.
 * Return: how many instructions that thread executes in all.
 */
static unsigned meet_the_helper(unsigned n)
{
	unsigned nr;
	long rets[2];

	store_release(&may_begin, 1);
	memset(&helped, 0, sizeof(helped));
	helped.held.gate = &helped.gate;
	helped.held.work.may_block = true;
	for (unsigned i = 0; i < NR_ELEMENTS(helped.items); i++)
		helped.items[i].work.may_block = true;
	/*
	 * In the first round (n is 0) the library may create one thread: the manager.
	 * In later rounds the manager exists already.
	 */
	unit_allow_threads(n == 0);
	items_queue(&helped.held, 1);
	item_gate_await(&helped.gate, 1);
	unit_allow_threads(UINT32_MAX);
	store_release(&may_begin, 0);

	nr = unit_interleave(n, queue_beside_the_helper, have_a_worker, NULL,
			     rets);
	assert_null(items_find_breach(UAIO_BOUNDED, true));
	store_release(&may_begin, 1);
	items_await_end(helped.items, NR_ELEMENTS(helped.items));
	assert_true(items_ran_once(helped.items, NR_ELEMENTS(helped.items)));
	assert_true(items_ran_once(&helped.held, 1));
	assert_int_equal(uaio_wq_limit_workers(UAIO_BOUNDED, 0), 32);
	unit_await(has_nobody_and_nothing, NULL);
	assert_int_equal(uaio_wq_limit_workers(UAIO_BOUNDED, 32), 0);
	return nr;
}

static int queue_as_the_helper_gets_a_worker(void)
{
	/*
	 * To save time test only every fifth instruction: each step of the code that
	 * matters has more than five instructions.
	 */
	enum { STRIDE = 5 };
	unsigned nr = 0;

	if (items_start() < 0)
		return 1;
	unit_hook(hold_stepping_threads);
	for (unsigned n = 0; n <= nr; n += STRIDE)
		nr = meet_the_helper(n);
	print_message("%u instructions\n", nr);
	return UNIT_CAN_STEP && nr < 100 ? 2 : 0;
}

static void the_manager_is_told_of_items_that_are_not_given_back(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(queue_as_the_helper_gets_a_worker), 0);
}

/*
 * The manager has ended, and a worker cannot create a new one. Later another thread
 * must create it.
 */
static int watcher_refused_to_a_worker(void)
{
	static struct item_gate gates[2];
	static struct item items[] = {
		{ .work.may_block = true, .gate = &gates[0] },
		{ .work.may_block = true, .gate = &gates[1] },
		{ .work.may_block = true },
		{ .work.may_block = true },
	};

	if (items_start() < 0)
		return 1;
	/* Run one item, so that there is one worker. Then let the manager end. */
	items_queue(&items[0], 1);
	item_gate_await(&gates[0], 1);
	unit_hook(items_hurry);
	items_hurry_manager();
	unit_hook(items_stay);
	/*
	 * Neither the submitter, nor the worker that blocks, can create the manager.
	 */
	unit_allow_threads(0);
	items_queue(&items[1], 2);
	item_gate_open(&gates[0]);
	item_gate_await(&gates[1], 1);
	item_gate_open(&gates[1]);
	items_await_end(items, 3);
	unit_hook(items_hurry);
	/*
	 * The hook ends a thread that begins to sleep. Setting a limit wakes the
	 * worker, which then sleeps again, and so ends.
	 */
	uaio_wq_limit_workers(UAIO_BOUNDED, 31);
	unit_await(all_are_gone, NULL);
	unit_hook(items_stay);
	unit_allow_threads(UINT32_MAX);
	items_queue(&items[3], 1);
	items_await_end(items, 4);
	return 0;
}

static void a_manager_refused_to_a_worker_comes_later(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(watcher_refused_to_a_worker), 0);
}

/*
 * The only worker is a fixed one, which has a private list, and an item blocks this
 * worker. Then the test raises the limit: new workers must run the other items.
 */
static int raise_limit(enum uaio_wq_placement placement)
{
	static struct item_gate gate;
	static struct item items[] = {
		{ .work.may_block = true },
		{ .work.may_block = true, .gate = &gate },
		{ .work.may_block = true },
	};

	if (items_start() < 0)
		return 1;
	items_set_placement(placement);
	uaio_wq_limit_workers(UAIO_BOUNDED, 1);
	items_set_fixed(UAIO_BOUNDED, 1, 64);
	items_queue(&items[0], 1);
	items_await_end(items, 1);
	unit_await(items_manager_rests, NULL);
	items_queue(&items[1], 1);
	item_gate_await(&gate, 1);
	items_queue(&items[2], 1);
	if (uaio_wq_limit_workers(UAIO_BOUNDED, 2) != 1)
		return 2;
	items_await_end(&items[2], 1);
	item_gate_open(&gate);
	items_await_end(items, 3);
	return 0;
}

static int raise_limit_round_robin(void)
{
	return raise_limit(UAIO_PLACE_ROUND_ROBIN);
}

static int raise_limit_packed(void)
{
	return raise_limit(UAIO_PLACE_PACKED);
}

static void a_limit_raised_helps_a_private_list_at_once(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(raise_limit_packed), 0);
	assert_int_equal(unit_in_child(raise_limit_round_robin), 0);
}

/* Binding to processors */

static struct uaio_cpus where;

static void note_processors(struct item *item, struct uaio_worker *worker)
{
	(void)item;
	(void)worker;
	memset(&where, 0, sizeof(where));
	(void)sched_getaffinity(0, sizeof(where), (cpu_set_t *)(void *)&where);
}

/*
 * Return: whether a worker that takes an item now may use the processors `cpus`, and no
 * others.
 */
static bool runs_on(const struct uaio_cpus *cpus)
{
	struct item item = { .work.may_block = true, .act = note_processors };

	items_queue(&item, 1);
	items_await_end(&item, 1);
	return memcmp(&where, cpus, sizeof(where)) == 0;
}

static unsigned last_of(const struct uaio_cpus *cpus)
{
	const unsigned bits = 8 * sizeof(cpus->words[0]);
	unsigned cpu = UAIO_CPUS_MAX - 1;

	while (!(cpus->words[cpu / bits] >> cpu % bits & 1))
		cpu--;
	return cpu;
}

static int bind_workers(void)
{
	const unsigned bits = 8 * sizeof(unsigned long);
	struct uaio_cpus all = { { 0 } }, one = { { 0 } }, none = { { 0 } };
	struct uaio_cpus other = { { 0 } };
	unsigned last;

	if (items_start() < 0 ||
	    sched_getaffinity(0, sizeof(all), (cpu_set_t *)(void *)&all) < 0)
		return 1;
	last = last_of(&all);
	one.words[last / bits] |= 1ul << last % bits;
	other.words[(last + 1) / bits] |= 1ul << (last + 1) % bits;
	/* Bind first a worker that is yet to be created, then one that exists. */
	if (uaio_threads_bind(&one) < 0 || !runs_on(&one))
		return 2;
	if (uaio_threads_bind(&all) < 0 || !runs_on(&all))
		return 3;
	if (uaio_threads_bind(&one) < 0 || !runs_on(&one))
		return 4;
	if (uaio_threads_bind(&other) != -EINVAL || !runs_on(&one))
		return 5;
	return uaio_threads_bind(&none) == 0 && runs_on(&all) ? 0 : 6;
}

static void workers_go_where_they_are_bound(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(bind_workers), 0);
}

static int set_workers(int nr)
{
	return uaio_wq_limit_workers(UAIO_BOUNDED, nr);
}

static int set_fixed(int nr_workers, int max_items,
		     struct uaio_wq_fixed_limits *ret_old)
{
	const struct uaio_wq_fixed_limits limits = { nr_workers, max_items };

	return uaio_wq_limit_fixed(UAIO_BOUNDED, &limits, ret_old);
}

static void assert_limits(int workers, int nr_fixed, int max_items)
{
	struct uaio_wq_fixed_limits now;

	assert_int_equal(set_workers(-1), workers);
	assert_int_equal(set_fixed(-1, -1, &now), 0);
	assert_int_equal(now.nr_workers, nr_fixed);
	assert_int_equal(now.max_items, max_items);
}

static int set_limits(void)
{
	static const struct {
		int nr_workers, max_items;
	} wrong[] = {
		{ -2, 9 },       { 1, -2 }, { INT_MIN, -1 },
		{ -1, INT_MIN }, { 8, 9 },  { UAIO_WQ_FIXED_MAX + 1, 9 },
		{ INT_MAX, 9 },
	};
	struct uaio_wq_fixed_limits old;

	assert_int_equal(items_start(), 0);
	assert_limits(32, 0, 64);
	assert_int_equal(uaio_wq_limit_workers(UAIO_UNBOUNDED, 6), 256);
	assert_int_equal(uaio_wq_limit_workers(UAIO_UNBOUNDED, -1), 6);
	assert_int_equal(set_workers(7), 32);
	assert_int_equal(set_fixed(3, 5, &old), 0);
	assert_int_equal(old.nr_workers, 0);
	assert_int_equal(old.max_items, 64);
	assert_limits(7, 3, 5);

	/*
	 * If the number of fixed workers or the length of their lists is invalid, both
	 * limits stay as they were.
	 */
	for (size_t i = 0; i < NR_ELEMENTS(wrong); i++) {
		assert_int_equal(set_fixed(wrong[i].nr_workers,
					   wrong[i].max_items, &old),
				 -EINVAL);
		assert_limits(7, 3, 5);
	}
	assert_int_equal(set_workers(-2), -EINVAL);
	assert_int_equal(set_workers(INT_MIN), -EINVAL);
	assert_int_equal(set_workers(UAIO_WQ_WORKERS_MAX + 1), -EINVAL);
	assert_int_equal(set_workers(INT_MAX), -EINVAL);
	assert_int_equal(set_workers(2), -EINVAL); /* three workers are fixed */
	assert_limits(7, 3, 5);

	/* Set only one of both limits; then set the largest and the smallest limits. */
	assert_int_equal(set_fixed(7, -1, &old), 0);
	assert_limits(7, 7, 5);
	assert_int_equal(set_fixed(-1, 0, &old), 0);
	assert_limits(7, 7, 0);
	assert_int_equal(set_workers(UAIO_WQ_WORKERS_MAX), 7);
	assert_int_equal(set_fixed(UAIO_WQ_FIXED_MAX, INT_MAX, &old), 0);
	assert_int_equal(old.nr_workers, 7);
	assert_limits(UAIO_WQ_WORKERS_MAX, UAIO_WQ_FIXED_MAX,
		      UAIO_WQ_ITEMS_MAX);
	assert_int_equal(set_fixed(0, -1, &old), 0);
	assert_int_equal(set_workers(0), UAIO_WQ_WORKERS_MAX);
	assert_limits(0, 0, UAIO_WQ_ITEMS_MAX);
	return 0;
}

static void limits_tell_what_they_were_and_refuse_what_is_wrong(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(set_limits), 0);
}

/* Two threads queue items all the time. Some of the items sleep for 300 us. */
enum { NR_LOADS = 2, NR_ITEMS = 60 };

static uint32_t is_over;             /* atomic */
static uint32_t nr_rounds[NR_LOADS]; /* atomic */

static void linger(struct item *item, struct uaio_worker *worker)
{
	(void)item;
	(void)worker;
	usleep(300);
}

static long load(void *arg)
{
	static struct item all[NR_LOADS][NR_ITEMS];
	unsigned nr = *(unsigned *)arg;
	struct item *items = all[nr];

	while (!load_relaxed(&is_over)) {
		for (unsigned i = 0; i < NR_ITEMS; i++)
			items[i] = (struct item){
				.work.may_block = i % 2,
				.act = i % 15 == 1 ? linger : NULL,
			};
		for (unsigned i = 0; i < NR_ITEMS; i += 20)
			items_queue(&items[i], 20);
		items_await_end(items, NR_ITEMS);
		if (!items_ran_once(items, NR_ITEMS))
			return 1;
		add_relaxed(&nr_rounds[nr], 1);
	}
	return 0;
}

static bool are_fixed(void *arg)
{
	return items_count(UAIO_BOUNDED).nr_fixed == *(unsigned *)arg;
}

static bool are_at_most(void *arg)
{
	return items_count(UAIO_BOUNDED).nr_workers <= *(unsigned *)arg;
}

static bool have_gone_on(void *arg)
{
	const uint32_t *since = arg;

	return load_relaxed(&nr_rounds[0]) >= since[0] + 2 &&
	       load_relaxed(&nr_rounds[1]) >= since[1] + 2;
}

static void await_rounds(void)
{
	uint32_t since[NR_LOADS];

	for (unsigned i = 0; i < NR_LOADS; i++)
		since[i] = load_relaxed(&nr_rounds[i]);
	unit_await(have_gone_on, since);
}

static enum uaio_wq_placement placement;

/* Limits that the test sets one after another while items run */
static const struct step {
	int nr_fixed, nr_workers;
} steps[] = {
	{ 4, 32 }, { 2, 32 }, { 0, 32 }, { 8, 32 }, { 8, 8 },  { 8, 32 },
	{ 3, 32 }, { 3, 3 },  { 3, 32 }, { 0, 32 }, { 0, 1 },  { 0, 5 },
	{ 0, 0 },  { 0, 32 }, { 1, 32 }, { 1, 1 },  { 1, 32 }, { 0, 32 },
};

static void take_step(const struct step *step, const struct step *last)
{
	struct uaio_wq_fixed_limits old;

	assert_int_equal(set_fixed(step->nr_fixed, 4, &old), 0);
	assert_int_equal(old.nr_workers, last->nr_fixed);
	assert_int_equal(set_workers(step->nr_workers), last->nr_workers);
	unit_await(are_at_most, &(unsigned){ (unsigned)step->nr_workers });
	await_rounds();
	/*
	 * If a fixed worker has ended, another worker must take over its private list.
	 */
	unit_await(are_fixed, &(unsigned){ (unsigned)step->nr_fixed });
}

static int change_limits(void)
{
	struct step last = { 0, 32 };
	unsigned numbers[] = { 0, 1 };
	struct unit_thread loads[NR_LOADS];

	assert_int_equal(items_start(), 0);
	items_set_placement(placement);
	for (unsigned i = 0; i < NR_LOADS; i++)
		unit_thread_start(&loads[i], load, &numbers[i]);
	for (unsigned round = 0; round < unit_rounds(10); round++)
		for (size_t i = 0; i < NR_ELEMENTS(steps); i++) {
			take_step(&steps[i], &last);
			last = steps[i];
		}
	store_relaxed(&is_over, 1);
	for (unsigned i = 0; i < NR_LOADS; i++)
		assert_int_equal(unit_thread_join(&loads[i]), 0);
	items_await_rest();
	return 0;
}

static void limits_changed_under_load_come_about_and_lose_nothing(void **state)
{
	(void)state;
	for (placement = UAIO_PLACE_PUBLIC; placement <= UAIO_PLACE_PACKED;
	     placement++)
		assert_int_equal(unit_in_child(change_limits), 0);
}

/*
 * While workers run patient items, the limit does not count them. Later it counts them
 * again.
 */
#define PATIENT(at)                                                \
	{                                                          \
		.account = UAIO_UNBOUNDED, .gate = (at),           \
		.work = { .may_block = true, .is_patient = true }, \
	}
#define OTHER(at)                                        \
	{                                                \
		.account = UAIO_UNBOUNDED, .gate = (at), \
		.work.may_block = true,                  \
	}

static bool has_one_worker(void *arg)
{
	(void)arg;
	return uaio_wq_nr_workers(UAIO_UNBOUNDED) == 1;
}

static int run_beside_the_patient(void)
{
	static struct item_gate gates[2];
	static struct item patient[] = { PATIENT(&gates[0]), PATIENT(&gates[0]),
					 PATIENT(&gates[0]) };
	static struct item others[] = { OTHER(NULL), OTHER(&gates[1]),
					OTHER(NULL) };

	if (items_start() < 0)
		return 1;
	uaio_wq_limit_workers(UAIO_UNBOUNDED, 1);
	items_queue(patient, NR_ELEMENTS(patient));
	item_gate_await(&gates[0], NR_ELEMENTS(patient));
	if (uaio_wq_is_full(UAIO_UNBOUNDED))
		return 2;
	items_queue(&others[0], 1);
	items_await_end(&others[0], 1);
	items_queue(&others[1], 1);
	item_gate_await(&gates[1], 1);
	if (!uaio_wq_is_full(UAIO_UNBOUNDED))
		return 3;
	items_queue(&others[2], 1);
	if (items_find_breach(UAIO_UNBOUNDED, true))
		return 4;
	item_gate_open(&gates[0]);
	items_await_end(patient, NR_ELEMENTS(patient));
	item_gate_open(&gates[1]);
	items_await_end(others, NR_ELEMENTS(others));
	unit_await(has_one_worker, NULL);
	return items_ran_once(patient, NR_ELEMENTS(patient)) &&
			       items_ran_once(others, NR_ELEMENTS(others)) &&
			       uaio_wq_is_full(UAIO_UNBOUNDED)
		       ? 0
		       : 5;
}

static void the_limit_does_not_count_patient_workers(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(run_beside_the_patient), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(work_queued_before_the_limit_was_0_is_run),
		UNIT_TEST(the_manager_is_told_of_items_that_are_not_given_back),
		UNIT_TEST(a_manager_refused_to_a_worker_comes_later),
		UNIT_TEST(a_limit_raised_helps_a_private_list_at_once),
		UNIT_TEST(the_limit_does_not_count_patient_workers),
		UNIT_TEST(workers_go_where_they_are_bound),
		UNIT_TEST(limits_tell_what_they_were_and_refuse_what_is_wrong),
		UNIT_TEST(
			limits_changed_under_load_come_about_and_lose_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
