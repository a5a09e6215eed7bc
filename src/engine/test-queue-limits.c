/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <sched.h>
#include <sys/prctl.h>

#include "engine/wqint.h"
#include "works.h"

static uint32_t may_begin;

static bool hold_threads(long nr, const long args[6], long *ret_res)
{
	(void)ret_res;
	if (nr == SYS_prctl && args[0] == PR_SET_NAME)
		while (!load_acquire(&may_begin))
			sched_yield();
	return false;
}

static bool watcher_is_gone(void *arg)
{
	(void)arg;
	return uaio_wq_nr_threads() ==
	       uaio_wq_nr_workers(UAIO_BOUNDED) +
		       uaio_wq_nr_workers(UAIO_UNBOUNDED);
}

static bool nobody_watches(void *arg)
{
	struct uaio_wq_account *account = &uaio_wq_accounts[UAIO_BOUNDED];
	bool is_watched;

	(void)arg;
	uaio_wq_lock(account);
	is_watched = account->is_watched;
	uaio_wq_unlock(account);
	return !is_watched;
}

static bool all_are_gone(void *arg)
{
	(void)arg;
	return uaio_wq_nr_threads() == 0;
}

/* The limit becomes 0 between queueing the first work and its first worker. */
static int no_worker_yet(void)
{
	static struct works_item item = { .work.may_block = true };

	if (works_start() < 0)
		return 1;
	unit_hook(hold_threads);
	works_queue(&item, 1);
	if (uaio_wq_limit_workers(UAIO_BOUNDED, 0) != 32)
		return 2;
	store_release(&may_begin, 1);
	works_await_end(&item, 1);
	return 0;
}

static void work_queued_before_the_limit_was_0_is_made(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(no_worker_yet), 0);
}

/* A worker cannot have the watcher: later, another can. */
static int watcher_refused_to_a_worker(void)
{
	static struct works_gate gates[2];
	static struct works_item items[] = {
		{ .work.may_block = true, .gate = &gates[0] },
		{ .work.may_block = true, .gate = &gates[1] },
		{ .work.may_block = true },
		{ .work.may_block = true },
	};

	if (works_start() < 0)
		return 1;
	/* One worker, and the watcher gone. */
	works_queue(&items[0], 1);
	works_gate_await(&gates[0], 1);
	unit_hook(works_hurry);
	unit_await(watcher_is_gone, NULL);
	unit_hook(NULL);
	/* In vain for who queues, and then for the worker that blocks. */
	works_allow_threads(0);
	works_queue(&items[1], 2);
	works_gate_open(&gates[0]);
	works_gate_await(&gates[1], 1);
	works_gate_open(&gates[1]);
	works_await_end(items, 3);
	unit_hook(works_hurry);
	/* Woken by this, it finds that its time is over. */
	uaio_wq_limit_workers(UAIO_BOUNDED, 31);
	unit_await(all_are_gone, NULL);
	unit_hook(NULL);
	works_allow_threads(UINT32_MAX);
	works_queue(&items[3], 1);
	works_await_end(items, 4);
	return 0;
}

static void a_watcher_refused_to_a_worker_comes_later(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(watcher_refused_to_a_worker), 0);
}

/* The limit is raised while the only worker, a fixed one, blocks. */
static int raise_limit(enum uaio_wq_placement placement)
{
	static struct works_gate gate;
	static struct works_item items[] = {
		{ .work.may_block = true },
		{ .work.may_block = true, .gate = &gate },
		{ .work.may_block = true },
	};

	if (works_start() < 0)
		return 1;
	works_set_placement(placement);
	uaio_wq_limit_workers(UAIO_BOUNDED, 1);
	works_set_fixed(UAIO_BOUNDED, 1, 64);
	works_queue(&items[0], 1);
	works_await_end(items, 1);
	unit_await(nobody_watches, NULL);
	works_queue(&items[1], 1);
	works_gate_await(&gate, 1);
	works_queue(&items[2], 1);
	if (uaio_wq_limit_workers(UAIO_BOUNDED, 2) != 1)
		return 2;
	works_await_end(&items[2], 1);
	works_gate_open(&gate);
	works_await_end(items, 3);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(work_queued_before_the_limit_was_0_is_made),
		UNIT_TEST(a_watcher_refused_to_a_worker_comes_later),
		UNIT_TEST(a_limit_raised_helps_a_private_list_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
