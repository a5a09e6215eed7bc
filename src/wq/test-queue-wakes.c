/* SPDX-License-Identifier: MIT */
/* What is woken for a work, what is not, and that who has nothing to do sleeps. */
#undef NDEBUG
#include <dirent.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/sleep.h"
#include "wq/wqint.h"
#include "works.h"

enum { WORKERS = 8, NR = 64 };

static struct works_item items[NR];
static struct works_item held;
static struct works_gate gate;

static void prepare(unsigned nr, bool may_block)
{
	gate = (struct works_gate){ 0 };
	for (unsigned i = 0; i < nr; i++)
		items[i] = (struct works_item){
			.work.may_block = may_block,
			.gate = may_block ? &gate : NULL,
		};
}

/* So many workers, all asleep. */
static void start(unsigned nr)
{
	assert_int_equal(works_start(), 0);
	works_set_placement(UAIO_PLACE_PACKED);
	uaio_wq_limit_workers(UAIO_BOUNDED, (int)nr);
	prepare(nr, true);
	works_queue(items, nr);
	works_gate_await(&gate, nr);
	works_gate_open(&gate);
	works_await_end(items, nr);
	works_await_rest();
}

/* Calls of the submitter that wake. */
static _Thread_local bool is_submitter;
static struct {
	unsigned nr;
	unsigned nr_to_wake; /* how many the last one was to wake */
} calls;

static bool count_wakes(long nr, const long args[6], long *ret_res)
{
	struct uaio_wq_account *account = &uaio_wq_accounts[UAIO_BOUNDED];

	/* That somebody waits for the lock has nothing to do with works. */
	if (is_submitter && nr == SYS_futex &&
	    (args[1] & FUTEX_CMD_MASK) == FUTEX_WAKE &&
	    (uint32_t *)args[0] != &account->lock.word) {
		calls.nr++;
		calls.nr_to_wake = (unsigned)args[2];
	}
	return works_stay(nr, args, ret_res);
}

/* Return: calls that queueing n works took. */
static unsigned calls_to_queue(unsigned from, unsigned n)
{
	calls.nr = calls.nr_to_wake = 0;
	is_submitter = true;
	unit_hook(count_wakes);
	works_queue(&items[from], n);
	unit_hook(works_stay);
	is_submitter = false;
	return calls.nr;
}

static int wake_sleepers(void)
{
	start(WORKERS);
	for (unsigned nr = 1; nr <= WORKERS + 4; nr++) {
		unsigned nr_awake = nr < WORKERS ? nr : WORKERS;
		uint64_t before = works_count(UAIO_BOUNDED).nr_wakes;

		prepare(nr, true);
		assert_int_equal(calls_to_queue(0, nr), 1);
		assert_int_equal(calls.nr_to_wake, nr_awake);
		works_gate_await(&gate, nr_awake);
		assert_int_equal(works_count(UAIO_BOUNDED).nr_wakes - before,
				 nr_awake);
		assert_int_equal(works_count(UAIO_BOUNDED).nr_idle,
				 WORKERS - nr_awake);
		works_gate_open(&gate);
		works_await_end(items, nr);
		works_await_rest();
	}
	/* However many they are, short ones need one worker. */
	prepare(NR, false);
	assert_int_equal(calls_to_queue(0, NR), 1);
	assert_int_equal(calls.nr_to_wake, 1);
	works_await_end(items, NR);
	return 0;
}

static void one_call_wakes_as_many_as_are_needed(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(wake_sleepers), 0);
}

/* A worker is held in a short work: it is awake, and comes to all that. */
static int wake_nobody(void)
{
	start(WORKERS);
	for (unsigned may_block = 0; may_block < 2; may_block++) {
		gate = (struct works_gate){ 0 };
		held = (struct works_item){ .gate = &gate };
		works_queue(&held, 1);
		works_gate_await(&gate, 1);
		for (unsigned i = 0; i < NR; i++)
			items[i] = (struct works_item){ 0 };
		items[0].work.may_block = may_block;
		assert_int_equal(calls_to_queue(0, 1), 0);
		for (unsigned i = 1; i < NR && !may_block; i++)
			assert_int_equal(calls_to_queue(i, 1), 0);
		assert_int_equal(works_count(UAIO_BOUNDED).nr_idle,
				 WORKERS - 1);
		works_gate_open(&gate);
		works_await_end(items, may_block ? 1 : NR);
		works_await_rest();
	}
	return 0;
}

static void who_is_awake_already_is_not_woken(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(wake_nobody), 0);
}

/* While workers come and go, no submission takes more than one. */
static int wake_under_load(void)
{
	start(WORKERS);
	for (unsigned i = 0; i < unit_rounds(5000); i++) {
		unsigned nr = 1 + i % 16;

		for (unsigned j = 0; j < nr; j++)
			items[j] = (struct works_item){
				.work.may_block = (i + j) % 3 == 0,
			};
		assert_in_range(calls_to_queue(0, nr), 0, 1);
		works_await_end(items, nr);
		assert_true(works_ran_once(items, nr));
		if (i % 5 == 0)
			works_await_rest();
	}
	return 0;
}

static void a_submission_makes_one_call_at_most(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(wake_under_load), 0);
}

/*
 * The promises, each time somebody changes hands: looked at in between, under
 * the lock, and not only in the end.
 */
static uint32_t is_over; /* atomic */

static long look_all_the_time(void *arg)
{
	(void)arg;
	while (!load_relaxed(&is_over))
		if (works_find_breach(UAIO_BOUNDED, true))
			return 1;
	return 0;
}

static int look_on(void)
{
	struct unit_thread observer;

	assert_int_equal(works_start(), 0);
	works_set_placement(UAIO_PLACE_ROUND_ROBIN);
	works_set_fixed(UAIO_BOUNDED, 2, 8);
	unit_thread_start(&observer, look_all_the_time, NULL);
	for (unsigned i = 0; i < unit_rounds(1000); i++) {
		unsigned nr = 1 + i % 12;

		/* Some are held, a few of them behind others. */
		prepare(nr, true);
		for (unsigned j = 0; j < nr; j++)
			if ((i + j) % 3)
				items[j].gate = NULL;
		works_queue(items, nr);
		works_gate_await(&gate, (nr + (i % 3 ? i % 3 - 1 : 2)) / 3);
		works_gate_open(&gate);
		works_await_end(items, nr);
		assert_null(works_find_breach(UAIO_BOUNDED, true));
	}
	store_relaxed(&is_over, 1);
	assert_int_equal(unit_thread_join(&observer), 0);
	works_await_rest();
	return 0;
}

static void nobody_sleeps_while_work_waits_at_any_moment(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(look_on), 0);
}

/* Work that waits for want of workers is not said to be late. */
static int wait_for_the_only_worker(void)
{
	int64_t since;

	start(1);
	prepare(2, true);
	works_queue(items, 2);
	works_gate_await(&gate, 1);
	since = uaio_now_ns();
	while (uaio_now_ns() - since < 2 * UAIO_WQ_STALE_NS)
		sched_yield();
	works_gate_open(&gate);
	works_await_end(items, 2);
	assert_int_equal(works_count(UAIO_BOUNDED).nr_late, 0);
	return 0;
}

static void only_what_waits_beside_a_sleeper_is_late(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(wait_for_the_only_worker), 0);
}

/*
 * Nothing to do
 */

/* What threads of the engine do, as the kernel counts it. */
struct activity {
	unsigned nr_awake;
	uint64_t nr_switches; /* how often they have been put to sleep */
};

/* The thread may just be going. */
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
 * A thread that spins is awake, a thread that looks again and again is put to
 * sleep as often. What processor time they are said to take may be another
 * machine's.
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

/* They may be on their way, or one leaves after its time just now. */
static void assert_all_sleep(void)
{
	int64_t deadline = uaio_now_ns() + 10000000000;

	while (!all_sleep_for_a_while())
		assert_true(uaio_now_ns() < deadline);
}

/* After quick works workers look out for more of them, but not for long. */
static int rest_after_quick_works(void)
{
	start(WORKERS);
	works_set_fixed(UAIO_BOUNDED, 2, 64);
	for (unsigned i = 0; i < 1000; i++) {
		prepare(1, false);
		works_queue(items, 1);
		works_await_end(items, 1);
	}
	works_await_rest();
	unit_await(works_nobody_watches, NULL);
	assert_all_sleep();
	return 0;
}

/* All that there may be are held, or all that are needed. */
static int rest_while_blocked(void)
{
	assert_int_equal(works_start(), 0);
	uaio_wq_limit_workers(UAIO_BOUNDED, WORKERS);
	for (unsigned nr = WORKERS - 1; nr <= WORKERS + 10; nr += 11) {
		unsigned nr_held = nr < WORKERS ? nr : WORKERS;

		prepare(nr, true);
		works_queue(items, nr);
		works_gate_await(&gate, nr_held);
		unit_await(works_nobody_watches, NULL);
		assert_all_sleep();
		works_gate_open(&gate);
		works_await_end(items, nr);
	}
	return 0;
}

static void who_has_nothing_to_do_sleeps(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(rest_after_quick_works), 0);
	assert_int_equal(unit_in_child(rest_while_blocked), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(one_call_wakes_as_many_as_are_needed),
		UNIT_TEST(who_is_awake_already_is_not_woken),
		UNIT_TEST(a_submission_makes_one_call_at_most),
		UNIT_TEST(nobody_sleeps_while_work_waits_at_any_moment),
		UNIT_TEST(only_what_waits_beside_a_sleeper_is_late),
		UNIT_TEST(who_has_nothing_to_do_sleeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
