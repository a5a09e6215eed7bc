/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "base/sleep.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "base/atomic.h"
#include "unit.h"

static uint32_t word; /* atomic */

static void a_sleep_ends_at_its_deadline_not_before(void **state)
{
	int64_t deadline = uaio_now_ns() + 10000000;

	(void)state;
	assert_int_equal(uaio_sleep(&word, 0, deadline), -ETIMEDOUT);
	assert_true(uaio_now_ns() >= deadline);
	/* Sleep until a deadline that has already passed. */
	assert_int_equal(uaio_sleep(&word, 0, 1), -ETIMEDOUT);
}

static void a_word_that_differs_does_not_put_to_sleep(void **state)
{
	(void)state;
	assert_int_equal(uaio_sleep(&word, 1, UAIO_FOREVER), 0);
}

static long sleep_for_ever(void *arg)
{
	(void)arg;
	return uaio_sleep(&word, 0, UAIO_FOREVER);
}

static void a_wake_wakes_as_many_as_asked(void **state)
{
	struct unit_thread threads[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		unit_thread_start(&threads[i], sleep_for_ever, NULL);
	for (unsigned i = 0; i < 3; i++)
		unit_await_sleep(&threads[i]);
	uaio_wake(&word, ~0u);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(unit_thread_join(&threads[i]), 0);
}

static void do_nothing(int signal)
{
	(void)signal;
}

static void a_handler_ends_a_sleep_whatever_its_flags(void **state)
{
	static const int flags[] = { 0, SA_RESTART };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct sigaction action = { .sa_handler = do_nothing,
					    .sa_flags = flags[i] };
		struct unit_thread thread;

		assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
		unit_thread_start(&thread, sleep_for_ever, NULL);
		unit_await_sleep(&thread);
		assert_int_equal(pthread_kill(thread.id, SIGUSR1), 0);
		assert_int_equal(unit_thread_join(&thread), -EINTR);
	}
}

static void waking_an_address_that_is_gone_does_no_harm(void **state)
{
	(void)state;
	uaio_wake((uint32_t *)16, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_sleep_ends_at_its_deadline_not_before),
		UNIT_TEST(a_word_that_differs_does_not_put_to_sleep),
		UNIT_TEST(a_wake_wakes_as_many_as_asked),
		UNIT_TEST(a_handler_ends_a_sleep_whatever_its_flags),
		UNIT_TEST(waking_an_address_that_is_gone_does_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
