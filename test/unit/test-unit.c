/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit.h"

/* What stays is there at any time. */
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
		UNIT_TEST(the_end_of_a_child_is_seen),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
