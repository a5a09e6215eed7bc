/* SPDX-License-Identifier: MIT */
/*
 * A device (disk or file server) hangs. Its items occupy as many workers as one device
 * may have (I7 of wq.h). Further items of this device wait in the device's list. Items
 * of other devices must still run.
 */
#undef NDEBUG
#include "wq/wqint.h"
#include "items.h"

enum {
	NR = 100,
	LIMIT = 32,
	/*
	 * A device may have seven workers for each free worker. So of 32 workers, 28
	 * are for the device that hangs, and four remain.
	 */
	SHARE = 28,
	REST = LIMIT - SHARE,
	/* the number of the device that hangs */
	HUNG = 1,
};

static struct item hung[NR], others[NR];
static struct item_gate gate;

static void prepare(struct item *item, uint32_t device, struct item_gate *at)
{
	*item = (struct item){
		.work = { .may_block = true, .device = device },
		.account = UAIO_BOUNDED,
		.gate = at,
	};
}

static bool are_held(void *arg)
{
	return items_count(UAIO_BOUNDED).nr_held == *(unsigned *)arg;
}

static void await_held(unsigned nr)
{
	unit_await(are_held, &nr);
}

/*
 * Queue nr items of the device that hangs. Return when all of them are in calls, which
 * do not return, or in the device's list.
 */
static void hang(unsigned nr)
{
	assert_int_equal(items_start(), 0);
	for (unsigned i = 0; i < nr; i++)
		prepare(&hung[i], HUNG, &gate);
	items_queue(hung, nr);
	item_gate_await(&gate, nr < SHARE ? nr : SHARE);
	await_held(nr < SHARE ? 0 : nr - SHARE);
}

static void run_others(unsigned nr_devices)
{
	for (unsigned i = 0; i < NR; i++)
		prepare(&others[i], i % nr_devices ? HUNG + i % nr_devices : 0,
			NULL);
	items_queue(others, NR / 2);
	for (unsigned i = NR / 2; i < NR; i++)
		items_queue(&others[i], 1);
	items_await_end(others, NR);
	assert_true(items_ran_once(others, NR));
}

static void let_go(unsigned nr)
{
	item_gate_open(&gate);
	items_await_end(hung, nr);
	assert_true(items_ran_once(hung, nr));
	items_await_rest();
	assert_int_equal(items_count(UAIO_BOUNDED).nr_held, 0);
}

static int other_devices(void)
{
	hang(NR);
	run_others(5);
	assert_int_equal(load_relaxed(&gate.nr_held), SHARE);
	assert_null(items_find_breach(UAIO_BOUNDED, true));
	let_go(NR);
	return 0;
}

static void items_of_other_devices_run(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(other_devices), 0);
}

/*
 * After a device has hung, further items of this device must go to the end of the
 * device's list, and wake no worker.
 */
static int later_items(void)
{
	hang(SHARE + 1);
	for (unsigned i = SHARE + 1; i < NR; i++) {
		prepare(&hung[i], HUNG, &gate);
		items_queue(&hung[i], 1);
	}
	assert_int_equal(items_count(UAIO_BOUNDED).nr_held, NR - SHARE);
	run_others(2);
	let_go(NR);
	return 0;
}

static void later_items_of_the_device_wait_behind(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(later_items), 0);
}

/*
 * The first device that hangs occupies 28 of 32 workers, so a second one gets the other
 * four.
 */
static int second_device(void)
{
	static struct item_gate second;

	hang(NR);
	for (unsigned i = 0; i < NR; i++)
		prepare(&others[i], HUNG + 1, &second);
	items_queue(others, NR);
	item_gate_await(&second, REST);
	assert_int_equal(items_count(UAIO_BOUNDED).nr_queued, 2 * NR - LIMIT);
	/* If the second device answers, all its items must run. */
	item_gate_open(&second);
	items_await_end(others, NR);
	assert_true(items_ran_once(others, NR));
	assert_int_equal(load_relaxed(&gate.nr_held), SHARE);
	let_go(NR);
	return 0;
}

static void a_second_device_shares_what_is_left(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(second_device), 0);
}

static bool is_last(const struct uaio_work *work, const void *arg)
{
	return work == arg;
}

static int taken_out(void)
{
	struct uaio_work *last = &hung[NR - 1].work;

	hang(NR);
	/*
	 * Remove the newest of the device's waiting items, and one in the middle.
	 */
	assert_true(items_cancel(&hung[NR - 2]));
	assert_false(items_cancel(&hung[NR - 2]));
	assert_ptr_equal(uaio_wq_take(is_last, last), last);
	assert_null(uaio_wq_take(is_last, last));
	assert_int_equal(items_count(UAIO_BOUNDED).nr_held, NR - SHARE - 2);
	assert_int_equal(items_count(UAIO_BOUNDED).nr_queued, NR - SHARE - 2);
	let_go(NR - 2);
	return 0;
}

static void items_that_wait_can_be_taken_out(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(taken_out), 0);
}

static int limits(void)
{
	hang(NR);
	uaio_wq_limit_workers(UAIO_BOUNDED, 2 * LIMIT);
	item_gate_await(&gate, 2 * SHARE);
	await_held(NR - 2 * SHARE);
	/*
	 * Items that are in calls end only in let_go(). Though the limit is 0, the last
	 * worker must run the items that wait.
	 */
	uaio_wq_limit_workers(UAIO_BOUNDED, 0);
	let_go(NR);
	return 0;
}

static void a_change_of_the_limit_is_kept(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(limits), 0);
}

/*
 * An item that cannot block, or that has no known device, must never wait in a device's
 * list.
 */
static int unlimited(void)
{
	hang(NR);
	for (unsigned i = 0; i < NR; i++) {
		prepare(&others[i], i % 2 ? HUNG : 0, NULL);
		others[i].work.may_block = i % 2 == 0;
	}
	items_queue(others, NR);
	items_await_end(others, NR);
	assert_true(items_ran_once(others, NR));
	let_go(NR);
	return 0;
}

static void items_that_cannot_block_are_run(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(unlimited), 0);
}

/*
 * If more devices hang than there are lists, items of a device without a list must
 * still run.
 */
static int many_devices(void)
{
	static struct item many[2 * UAIO_WQ_DEVICES_MAX][2];
	enum { DEVICES = 2 * UAIO_WQ_DEVICES_MAX };

	assert_int_equal(items_start(), 0);
	uaio_wq_limit_workers(UAIO_BOUNDED, DEVICES);
	for (unsigned i = 0; i < DEVICES; i++) {
		prepare(&many[i][0], HUNG + i, &gate);
		prepare(&many[i][1], HUNG + i, &gate);
		items_queue(many[i], 1);
	}
	item_gate_await(&gate, DEVICES);
	for (unsigned i = 0; i < DEVICES; i++)
		items_queue(&many[i][1], 1);
	assert_int_equal(items_count(UAIO_BOUNDED).nr_queued, DEVICES);
	item_gate_open(&gate);
	items_await_end(&many[0][0], 2 * DEVICES);
	assert_true(items_ran_once(&many[0][0], 2 * DEVICES));
	items_await_rest();
	return 0;
}

static void more_devices_than_lists_hang(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(many_devices), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(items_of_other_devices_run),
		UNIT_TEST(later_items_of_the_device_wait_behind),
		UNIT_TEST(a_second_device_shares_what_is_left),
		UNIT_TEST(items_that_wait_can_be_taken_out),
		UNIT_TEST(a_change_of_the_limit_is_kept),
		UNIT_TEST(items_that_cannot_block_are_run),
		UNIT_TEST(more_devices_than_lists_hang),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
