/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "base/eventcount.h"

#include <errno.h>

#include "base/lock.h"
#include "unit.h"

/*
 * Two threads pass a ball to each other. If one wake-up is lost, both threads hang.
 */
static struct {
	struct uaio_eventcount sides[2];
	struct uaio_lock lock;
	unsigned turn; /* under lock */
	unsigned rounds;
} game;

static bool take_ball(unsigned side)
{
	bool is_mine;

	uaio_lock(&game.lock, UAIO_RANK_ACCOUNT);
	is_mine = game.turn % 2 == side;
	uaio_unlock(&game.lock, UAIO_RANK_ACCOUNT);
	return is_mine;
}

static void await_ball(unsigned side)
{
	for (;;) {
		uint32_t key = uaio_ec_prepare(&game.sides[side]);

		if (take_ball(side)) {
			uaio_ec_cancel(&game.sides[side]);
			return;
		}
		(void)uaio_ec_wait(&game.sides[side], key, UAIO_FOREVER);
	}
}

static void pass_ball(unsigned side)
{
	uaio_lock(&game.lock, UAIO_RANK_ACCOUNT);
	game.turn++;
	uaio_unlock(&game.lock, UAIO_RANK_ACCOUNT);
	uaio_ec_notify(&game.sides[!side], 1);
}

static long play(void *arg)
{
	unsigned side = *(unsigned *)arg;

	for (unsigned i = 0; i < game.rounds; i++) {
		await_ball(side);
		pass_ball(side);
	}
	return 0;
}

static void no_wake_up_is_lost(void **state)
{
	struct unit_thread thread;
	unsigned left = 0, right = 1;

	(void)state;
	game.rounds = unit_rounds(100000);
	unit_thread_start(&thread, play, &right);
	play(&left);
	unit_thread_join(&thread);
	assert_int_equal(game.turn, 2 * game.rounds);
	assert_int_equal(game.sides[0].nr_waiters, 0);
	assert_int_equal(game.sides[1].nr_waiters, 0);
}

static void a_change_after_the_look_prevents_the_sleep(void **state)
{
	struct uaio_eventcount ec = { 0 };
	uint32_t key = uaio_ec_prepare(&ec);

	(void)state;
	uaio_ec_notify(&ec, 1);
	assert_int_equal(uaio_ec_wait(&ec, key, UAIO_FOREVER), 0);
}

static void nobody_waiting_costs_a_notifier_no_call(void **state)
{
	struct uaio_eventcount ec = { 0 };

	(void)state;
	uaio_ec_notify(&ec, 1);
	assert_int_equal(ec.sequence, 0);
}

static void a_wait_ends_at_its_deadline(void **state)
{
	struct uaio_eventcount ec = { 0 };
	int64_t deadline = uaio_now_ns() + 5000000;
	uint32_t key = uaio_ec_prepare(&ec);

	(void)state;
	assert_int_equal(uaio_ec_wait(&ec, key, deadline), -ETIMEDOUT);
	assert_true(uaio_now_ns() >= deadline);
	assert_int_equal(ec.nr_waiters, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(no_wake_up_is_lost),
		UNIT_TEST(a_change_after_the_look_prevents_the_sleep),
		UNIT_TEST(nobody_waiting_costs_a_notifier_no_call),
		UNIT_TEST(a_wait_ends_at_its_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
