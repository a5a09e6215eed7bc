/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "base/lock.h"

#include "unit.h"

enum { NR_THREADS = 4 };

static struct uaio_lock lock, other;
static unsigned long counter; /* under lock */

static long count(void *arg)
{
	for (unsigned i = 0; i < *(unsigned *)arg; i++) {
		uaio_lock(&lock, UAIO_RANK_GROUP);
		counter++;
		uaio_unlock(&lock, UAIO_RANK_GROUP);
	}
	return 0;
}

static void holders_exclude_each_other(void **state)
{
	struct unit_thread threads[NR_THREADS];
	unsigned rounds = unit_rounds(200000);

	(void)state;
	counter = 0;
	for (unsigned i = 0; i < NR_THREADS; i++)
		unit_thread_start(&threads[i], count, &rounds);
	for (unsigned i = 0; i < NR_THREADS; i++)
		unit_thread_join(&threads[i]);
	assert_int_equal(counter, (unsigned long)NR_THREADS * rounds);
	assert_int_equal(lock.word, 0);
}

static void lock_and_unlock(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < 100; i++) {
		uaio_lock(&lock, UAIO_RANK_GROUP);
		uaio_unlock(&lock, UAIO_RANK_GROUP);
	}
}

static void a_free_lock_takes_no_system_call(void **state)
{
	(void)state;
	assert_int_equal(unit_count_calls(lock_and_unlock, NULL), 0);
}

static long lock_once(void *arg)
{
	(void)arg;
	uaio_lock(&lock, UAIO_RANK_GROUP);
	counter++;
	uaio_unlock(&lock, UAIO_RANK_GROUP);
	return 0;
}

static void a_thread_that_finds_the_lock_taken_sleeps(void **state)
{
	struct unit_thread threads[NR_THREADS];

	(void)state;
	counter = 0;
	uaio_lock(&lock, UAIO_RANK_GROUP);
	for (unsigned i = 0; i < NR_THREADS; i++)
		unit_thread_start(&threads[i], lock_once, NULL);
	for (unsigned i = 0; i < NR_THREADS; i++)
		unit_await_sleep(&threads[i]);
	assert_int_equal(counter, 0);
	uaio_unlock(&lock, UAIO_RANK_GROUP);
	for (unsigned i = 0; i < NR_THREADS; i++)
		unit_thread_join(&threads[i]);
	assert_int_equal(counter, NR_THREADS);
}

static int take_in_rising_rank(void)
{
	uaio_lock(&lock, UAIO_RANK_TABLE);
	uaio_lock(&other, UAIO_RANK_SLAB);
	uaio_unlock(&lock, UAIO_RANK_TABLE);
	uaio_unlock(&other, UAIO_RANK_SLAB);
	return 0;
}

static int take_in_falling_rank(void)
{
	uaio_lock(&lock, UAIO_RANK_SLAB);
	uaio_lock(&other, UAIO_RANK_TABLE);
	return 0;
}

static int take_two_of_one_rank(void)
{
	uaio_lock(&lock, UAIO_RANK_GROUP);
	uaio_lock(&other, UAIO_RANK_GROUP);
	return 0;
}

static int release_what_is_not_held(void)
{
	uaio_unlock(&lock, UAIO_RANK_GROUP);
	return 0;
}

static void assert_trapped(int (*function)(void))
{
	/*
	 * A signal kills the child; with a sanitizer, the child may exit with a status
	 * instead.
	 */
	assert_int_not_equal(unit_in_child(function), 0);
}

static void a_wrong_order_of_locks_is_trapped(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(take_in_rising_rank), 0);
	assert_trapped(take_in_falling_rank);
	assert_trapped(take_two_of_one_rank);
	assert_trapped(release_what_is_not_held);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(holders_exclude_each_other),
		UNIT_TEST(a_free_lock_takes_no_system_call),
		UNIT_TEST(a_thread_that_finds_the_lock_taken_sleeps),
		UNIT_TEST(a_wrong_order_of_locks_is_trapped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
