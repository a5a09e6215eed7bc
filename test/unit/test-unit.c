/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/atomic.h"
#include "unit.h"

/* in milliseconds; a leak stays, so a short wait is enough to find it */
enum { SOON_MS = 100 };

static void nothing_left_behind_is_no_leak(void **state)
{
	struct unit_footprint before;
	uint64_t handle;

	(void)state;
	unit_footprint(&before);
	handle = unit_context(10);
	unit_destroy(handle);
	assert_null(unit_find_leak(&before, UNIT_PATIENCE_MS));
}

static void a_descriptor_left_open_is_found(void **state)
{
	struct unit_footprint before;
	int fd;

	(void)state;
	unit_footprint(&before);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_string_equal(unit_find_leak(&before, SOON_MS), "descriptors");
	unit_close(fd);
	assert_null(unit_find_leak(&before, UNIT_PATIENCE_MS));
}

static long wait_for_end_of_file(void *arg)
{
	char byte;

	return read(*(int *)arg, &byte, 1);
}

static void a_thread_left_running_is_found(void **state)
{
	struct unit_footprint before;
	struct unit_thread thread;
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	unit_footprint(&before);
	unit_thread_start(&thread, wait_for_end_of_file, &ends[0]);
	assert_string_equal(unit_find_leak(&before, SOON_MS), "threads");
	unit_close(ends[1]);
	assert_int_equal(unit_thread_join(&thread), 0);
	assert_null(unit_find_leak(&before, UNIT_PATIENCE_MS));
	unit_close(ends[0]);
}

static void a_context_left_alive_is_found(void **state)
{
	struct unit_footprint before;
	uint64_t handle;

	(void)state;
	unit_footprint(&before);
	handle = unit_context(10);
	assert_string_equal(unit_find_leak(&before, SOON_MS), "contexts");
	unit_destroy(handle);
	assert_null(unit_find_leak(&before, UNIT_PATIENCE_MS));
}

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static uint32_t is_held, is_through; /* atomic */

/*
 * Hold the lock for a millisecond of processor time, with a priority so low that this
 * takes long.
 */
static long hold_for_a_moment(void *arg)
{
	const struct sched_param param = { 0 };
	struct timespec start, now;

	(void)arg;
	pthread_mutex_lock(&held);
	pthread_setschedparam(pthread_self(), SCHED_IDLE, &param);
	store_release(&is_held, 1);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000000l + now.tv_nsec -
		       start.tv_nsec <
	       1000000);
	pthread_mutex_unlock(&held);
	return 0;
}

static long lock_and_sleep(void *arg)
{
	pthread_mutex_lock(&held);
	store_release(&is_through, 1);
	pthread_mutex_unlock(&held);
	return wait_for_end_of_file(arg);
}

static long take_the_processor(void *arg)
{
	(void)arg;
	while (!load_acquire(&is_through))
		;
	return 0;
}

static void a_thread_that_sleeps_on_a_lock_is_not_taken_for_asleep(void **state)
{
	struct unit_thread holder, sleeper, others[2];
	cpu_set_t all, one;
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	/*
	 * From here on all threads run on one processor, where some threads never
	 * sleep.
	 */
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	unit_thread_start(&holder, hold_for_a_moment, NULL);
	unit_await(unit_is_set, &is_held);
	unit_thread_start(&sleeper, lock_and_sleep, &ends[0]);
	for (unsigned i = 0; i < 2; i++)
		unit_thread_start(&others[i], take_the_processor, NULL);
	unit_await_sleep(&sleeper);
	assert_true(load_acquire(&is_through));
	unit_close(ends[1]);
	assert_int_equal(unit_thread_join(&sleeper), 0);
	assert_int_equal(unit_thread_join(&holder), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(unit_thread_join(&others[i]), 0);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	unit_close(ends[0]);
}

static int return_three(void)
{
	return 3;
}

static int die(void)
{
	abort();
}

static void the_end_of_a_child_is_seen(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(return_three), 3);
	assert_int_equal(unit_in_child(die), -SIGABRT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(nothing_left_behind_is_no_leak),
		UNIT_TEST(a_descriptor_left_open_is_found),
		UNIT_TEST(a_thread_left_running_is_found),
		UNIT_TEST(a_context_left_alive_is_found),
		UNIT_TEST(
			a_thread_that_sleeps_on_a_lock_is_not_taken_for_asleep),
		UNIT_TEST(the_end_of_a_child_is_seen),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
