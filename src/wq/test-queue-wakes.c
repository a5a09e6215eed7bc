/* SPDX-License-Identifier: MIT */
/* Which threads the queue wakes for a work item; threads without work must sleep */
#undef NDEBUG
#include <dirent.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/sleep.h"
#include "wq/wqint.h"
#include "items.h"

enum { WORKERS = 8, NR = 64 };

static struct item items[NR];
static struct item held;
static struct item_gate gate;

static void prepare(unsigned nr, bool may_block)
{
	gate = (struct item_gate){ 0 };
	for (unsigned i = 0; i < nr; i++)
		items[i] = (struct item){
			.work.may_block = may_block,
			.gate = may_block ? &gate : NULL,
		};
}

/* Start nr workers, and return when all of them sleep. */
static void start(unsigned nr)
{
	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_PACKED);
	uaio_wq_limit_workers(UAIO_BOUNDED, (int)nr);
	prepare(nr, true);
	items_queue(items, nr);
	item_gate_await(&gate, nr);
	item_gate_open(&gate);
	items_await_end(items, nr);
	items_await_rest();
}

/* Counts the submitter's FUTEX_WAKE calls. */
static _Thread_local bool is_submitter;
static struct {
	unsigned nr;
	/* how many threads the last FUTEX_WAKE was to wake */
	unsigned nr_to_wake;
} calls;

static bool count_wakes(long nr, const long args[6], long *ret_res)
{
	struct uaio_wq_account *account =
		&uaio_wq_crews[0].accounts[UAIO_BOUNDED];

	/* Do not count the calls that release the account's lock. */
	if (is_submitter && nr == SYS_futex &&
	    (args[1] & FUTEX_CMD_MASK) == FUTEX_WAKE &&
	    (uint32_t *)args[0] != &account->lock.word) {
		calls.nr++;
		calls.nr_to_wake = (unsigned)args[2];
	}
	return items_stay(nr, args, ret_res);
}

/*
 * Queue n items.
 * Return: how many FUTEX_WAKE calls this took.
 */
static unsigned calls_to_queue(unsigned from, unsigned n)
{
	calls.nr = calls.nr_to_wake = 0;
	is_submitter = true;
	unit_hook(count_wakes);
	items_queue(&items[from], n);
	unit_hook(items_stay);
	is_submitter = false;
	return calls.nr;
}

static int wake_sleepers(void)
{
	start(WORKERS);
	for (unsigned nr = 1; nr <= WORKERS + 4; nr++) {
		unsigned nr_awake = nr < WORKERS ? nr : WORKERS;
		uint64_t before = items_count(UAIO_BOUNDED).nr_wakes;

		prepare(nr, true);
		assert_int_equal(calls_to_queue(0, nr), 1);
		assert_int_equal(calls.nr_to_wake, nr_awake);
		item_gate_await(&gate, nr_awake);
		assert_int_equal(items_count(UAIO_BOUNDED).nr_wakes - before,
				 nr_awake);
		assert_int_equal(items_count(UAIO_BOUNDED).nr_idle,
				 WORKERS - nr_awake);
		item_gate_open(&gate);
		items_await_end(items, nr);
		items_await_rest();
	}
	/* However many short items there are, only one worker is woken. */
	prepare(NR, false);
	assert_int_equal(calls_to_queue(0, NR), 1);
	assert_int_equal(calls.nr_to_wake, 1);
	items_await_end(items, NR);
	return 0;
}

static void one_call_wakes_as_many_as_are_needed(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(wake_sleepers), 0);
}

/*
 * A worker that runs a short item counts as awake, and will run the items that are
 * queued meanwhile: one item that may block, or many short ones. So queueing these
 * items must wake no thread. (The worker's short item waits at the gate.)
 */
static int wake_nobody(void)
{
	start(WORKERS);
	for (unsigned may_block = 0; may_block < 2; may_block++) {
		gate = (struct item_gate){ 0 };
		held = (struct item){ .gate = &gate };
		items_queue(&held, 1);
		item_gate_await(&gate, 1);
		for (unsigned i = 0; i < NR; i++)
			items[i] = (struct item){ 0 };
		items[0].work.may_block = may_block;
		assert_int_equal(calls_to_queue(0, 1), 0);
		for (unsigned i = 1; i < NR && !may_block; i++)
			assert_int_equal(calls_to_queue(i, 1), 0);
		assert_int_equal(items_count(UAIO_BOUNDED).nr_idle,
				 WORKERS - 1);
		item_gate_open(&gate);
		items_await_end(items, may_block ? 1 : NR);
		items_await_rest();
	}
	return 0;
}

static void a_worker_awake_already_is_not_woken(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(wake_nobody), 0);
}

/*
 * Workers sleep and wake all the time. Nevertheless each submission must make at most
 * one call that wakes threads.
 */
static int wake_under_load(void)
{
	start(WORKERS);
	for (unsigned i = 0; i < unit_rounds(5000); i++) {
		unsigned nr = 1 + i % 16;

		for (unsigned j = 0; j < nr; j++)
			items[j] = (struct item){
				.work.may_block = (i + j) % 3 == 0,
			};
		assert_in_range(calls_to_queue(0, nr), 0, 1);
		items_await_end(items, nr);
		assert_true(items_ran_once(items, nr));
		if (i % 5 == 0)
			items_await_rest();
	}
	return 0;
}

static void a_submission_makes_one_call_at_most(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(wake_under_load), 0);
}

/*
 * A thread checks the account's invariants under the lock all the time, and not only
 * when all items are done.
 */
static uint32_t is_over; /* atomic */

static long look_all_the_time(void *arg)
{
	(void)arg;
	while (!load_relaxed(&is_over))
		if (items_find_breach(UAIO_BOUNDED, true))
			return 1;
	return 0;
}

static int look_on(void)
{
	struct unit_thread observer;

	assert_int_equal(items_start(), 0);
	items_set_placement(UAIO_PLACE_ROUND_ROBIN);
	items_set_fixed(UAIO_BOUNDED, 2, 8);
	unit_thread_start(&observer, look_all_the_time, NULL);
	for (unsigned i = 0; i < unit_rounds(1000); i++) {
		unsigned nr = 1 + i % 12;

		/*
		 * Every third item blocks a worker at the gate. The other items do not
		 * wait.
		 */
		prepare(nr, true);
		for (unsigned j = 0; j < nr; j++)
			if ((i + j) % 3)
				items[j].gate = NULL;
		items_queue(items, nr);
		item_gate_await(&gate, (nr + (i % 3 ? i % 3 - 1 : 2)) / 3);
		item_gate_open(&gate);
		items_await_end(items, nr);
		assert_null(items_find_breach(UAIO_BOUNDED, true));
	}
	store_relaxed(&is_over, 1);
	assert_int_equal(unit_thread_join(&observer), 0);
	items_await_rest();
	return 0;
}

static void nobody_sleeps_while_work_waits_at_any_moment(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(look_on), 0);
}

/*
 * An item counts as late only if it waits while a worker sleeps. Here the only worker
 * is busy.
 */
static int wait_for_the_only_worker(void)
{
	int64_t since;

	start(1);
	prepare(2, true);
	items_queue(items, 2);
	item_gate_await(&gate, 1);
	since = uaio_now_ns();
	while (uaio_now_ns() - since < 2 * UAIO_WQ_STALE_NS)
		sched_yield();
	item_gate_open(&gate);
	items_await_end(items, 2);
	assert_int_equal(items_count(UAIO_BOUNDED).nr_late, 0);
	return 0;
}

static void only_items_that_wait_beside_a_sleeper_are_late(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(wait_for_the_only_worker), 0);
}

/*
 * Nothing to do
 */

/* What the kernel reports of the library's threads */
struct activity {
	unsigned nr_awake;
	/* how often the threads have gone to sleep */
	uint64_t nr_switches;
};

/* Add what the kernel reports of thread tid, unless it has just ended. */
static void add_thread(struct activity *activity, const char *tid)
{
	char path[300], line[128], state = 'S';
	unsigned long long nr_switches = 0;
	bool is_engines = false;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", tid);
	status = fopen(path, "re");
	if (!status)
		return;
	while (fgets(line, sizeof(line), status)) {
		is_engines |= !strncmp(line, "Name:\tuaio-", 11);
		(void)sscanf(line, "State: %c", &state);
		(void)sscanf(line, "voluntary_ctxt_switches: %llu",
			     &nr_switches);
	}
	(void)fclose(status);
	if (!is_engines)
		return;
	activity->nr_awake += state != 'S';
	activity->nr_switches += nr_switches;
}

static struct activity look_at_threads(void)
{
	struct activity activity = { 0 };
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *entry;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			add_thread(&activity, entry->d_name);
	closedir(dir);
	return activity;
}

/*
 * Return: whether all threads of the library sleep for LOOK_NS. A thread that spins is
 * awake; a thread that polls at intervals goes to sleep often. The test does not use
 * processor time: in a virtual machine that may include the time of other machines.
 */
static bool all_sleep_for_a_while(void)
{
	enum { LOOK_NS = 100000000, MAX_SWITCHES = 20 };
	const struct timespec pause = { .tv_nsec = LOOK_NS };
	struct activity before = look_at_threads(), after;

	nanosleep(&pause, NULL);
	after = look_at_threads();
	return !before.nr_awake && !after.nr_awake &&
	       after.nr_switches - before.nr_switches <= MAX_SWITCHES;
}

/* Repeat the check for up to 10 s, as a thread may be about to sleep or to end. */
static void assert_all_sleep(void)
{
	int64_t deadline = uaio_now_ns() + 10000000000;

	while (!all_sleep_for_a_while())
		assert_true(uaio_now_ns() < deadline);
}

/*
 * After short items workers spin: they poll for further items without sleeping. If none
 * comes, they must sleep soon.
 */
static int rest_after_quick_items(void)
{
	start(WORKERS);
	items_set_fixed(UAIO_BOUNDED, 2, 64);
	for (unsigned i = 0; i < 1000; i++) {
		prepare(1, false);
		items_queue(items, 1);
		items_await_end(items, 1);
	}
	items_await_rest();
	unit_await(items_manager_rests, NULL);
	assert_all_sleep();
	return 0;
}

/*
 * Items block all workers that the limit allows except one, then all workers while more
 * items wait. In both cases the manager must sleep, too.
 */
static int rest_while_blocked(void)
{
	assert_int_equal(items_start(), 0);
	uaio_wq_limit_workers(UAIO_BOUNDED, WORKERS);
	for (unsigned nr = WORKERS - 1; nr <= WORKERS + 10; nr += 11) {
		unsigned nr_held = nr < WORKERS ? nr : WORKERS;

		prepare(nr, true);
		items_queue(items, nr);
		item_gate_await(&gate, nr_held);
		unit_await(items_manager_rests, NULL);
		assert_all_sleep();
		item_gate_open(&gate);
		items_await_end(items, nr);
	}
	return 0;
}

static void a_worker_with_nothing_to_do_sleeps(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(rest_after_quick_items), 0);
	assert_int_equal(unit_in_child(rest_while_blocked), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(one_call_wakes_as_many_as_are_needed),
		UNIT_TEST(a_worker_awake_already_is_not_woken),
		UNIT_TEST(a_submission_makes_one_call_at_most),
		UNIT_TEST(nobody_sleeps_while_work_waits_at_any_moment),
		UNIT_TEST(only_items_that_wait_beside_a_sleeper_are_late),
		UNIT_TEST(a_worker_with_nothing_to_do_sleeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
