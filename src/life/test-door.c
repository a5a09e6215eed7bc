/* SPDX-License-Identifier: MIT */
/*
 * Tests that the core calls the functions of a front-end (door.h). The test adds a
 * second front-end beside kernel AIO, whose functions count their calls.
 */
#undef NDEBUG
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc/entry.h"
#include "file/file.h"
#include "life/door.h"
#include "life/report.h"
#include "unit.h"

enum { COUNTED = 1000000 };

static struct {
	unsigned nr_loads;
	unsigned nr_starts;
	/* whether load() had been called before the last start() */
	bool was_loaded;
	/* whether the library was already started at the last start() */
	bool was_up;
	unsigned first, last; /* range of closed descriptors */
	/* a descriptor of the library that the front-end uses */
	int own;
	/* device and inode number of the front-end's ring */
	uint64_t dev, ino;
	int ret; /* what start returns */
} called;

static void load(void)
{
	called.nr_loads++;
}

static int start(void)
{
	called.nr_starts++;
	called.was_loaded = called.nr_loads > 0;
	called.was_up = uaio_engine_is_up();
	return called.ret;
}

static void count(struct uaio_counters *counters)
{
	counters->nr_setups += COUNTED;
	counters->nr_inline += 2 * COUNTED;
	counters->nr_worker += 3 * COUNTED;
}

static void closed(unsigned first, unsigned last)
{
	called.first = first;
	called.last = last;
}

static int yield(int fd)
{
	return fd == called.own ? 0 : -ENOENT;
}

static bool has_ring(uint64_t dev, uint64_t ino)
{
	return dev == called.dev && ino == called.ino;
}

static const struct uaio_door door = {
	.first_call = "open_door",
	.load = load,
	.start = start,
	.count = count,
	.closed = closed,
	.yield = yield,
	.has_ring = has_ring,
};

UAIO_DOOR(door);

static int start_entered(void)
{
	int ret;

	assert_true(uaio_enter());
	ret = uaio_engine_start();
	uaio_leave();
	return ret;
}

/* unit_engine() loads and starts the library. */
static void a_door_is_loaded_then_started_before_the_engine_is_up(void **state)
{
	(void)state;
	assert_int_equal(called.nr_loads, 1);
	assert_int_equal(called.nr_starts, 1);
	assert_true(called.was_loaded);
	assert_false(called.was_up);
	assert_int_equal(start_entered(), 0);
	assert_int_equal(called.nr_starts, 1);
}

static int start_in_child(void)
{
	if (uaio_engine_is_up() || called.nr_starts != 1)
		return 1;
	if (start_entered() < 0 || !uaio_engine_is_up())
		return 2;
	return called.nr_starts == 2 && !called.was_up ? 0 : 3;
}

static void a_door_is_started_again_in_a_child(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(start_in_child), 0);
}

static int fail_to_start(void)
{
	called.ret = -ENOMEM;
	for (unsigned i = 0; i < 2; i++)
		if (start_entered() != -ENOMEM || uaio_engine_is_up())
			return 1;
	called.ret = 0;
	if (start_entered() < 0 || !uaio_engine_is_up())
		return 2;
	return called.nr_starts == 4 ? 0 : 3;
}

static void where_a_door_cannot_start_the_engine_stays_down(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(fail_to_start), 0);
}

static void what_all_doors_have_counted_is_added_up(void **state)
{
	/* The counters also include this context of kernel AIO. */
	uint64_t handle = unit_context(1);
	struct uaio_counters counters;

	(void)state;
	memset(&counters, 0xff, sizeof(counters));
	uaio_counters_read(&counters);
	assert_int_equal(counters.nr_contexts, 1);
	assert_int_equal(counters.nr_setups, COUNTED + 1);
	assert_int_equal(counters.nr_inline, 2 * COUNTED);
	assert_int_equal(counters.nr_worker, 3 * COUNTED);
	assert_int_equal(counters.nr_requests, 5 * COUNTED);
	unit_destroy(handle);
}

static bool is_ring(int fd)
{
	struct uaio_file *file;
	bool is_ring;

	assert_true(uaio_enter());
	assert_int_equal(uaio_file_get(fd, &file), 0);
	is_ring = uaio_file_has(file, UAIO_FILE_F_RING);
	assert_int_equal(uaio_file_has(file, UAIO_FILE_F_WRITE), !is_ring);
	uaio_file_put(file);
	uaio_leave();
	return is_ring;
}

static void a_door_tells_its_rings_from_files(void **state)
{
	int ring = memfd_create("ring", MFD_CLOEXEC),
	    other = memfd_create("ring", MFD_CLOEXEC);
	struct stat st;

	(void)state;
	assert_int_equal(fstat(ring, &st), 0);
	called.dev = st.st_dev;
	called.ino = st.st_ino;
	assert_true(is_ring(ring));
	assert_false(is_ring(other));
	unit_close(ring);
	unit_close(other);
}

static void a_door_is_asked_for_a_descriptor_of_its_own(void **state)
{
	(void)state;
	called.own = 4000;
	assert_int_equal(uaio_doors_yield(4000), 0);
	assert_int_equal(uaio_doors_yield(4001), -ENOENT);
}

static void the_first_call_of_each_door_is_known(void **state)
{
	bool is_known[2] = { false, false };
	const char *call;
	unsigned n = 0;

	(void)state;
	for (; (call = uaio_door_first_call(n)); n++) {
		is_known[0] |= !strcmp(call, "io_setup");
		is_known[1] |= !strcmp(call, "open_door");
	}
	assert_int_equal(n, 2);
	assert_true(is_known[0] && is_known[1]);
}

static int report_nothing(void)
{
	char report[128] = "", pid[16];
	int fds[2];
	ssize_t got;

	/*
	 * Set up the state of a process that `uaio run` has started, and that has used
	 * no front-end (kernel AIO, io_uring or POSIX AIO).
	 */
	(void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
	if (pipe(fds) < 0 || dup2(fds[1], STDERR_FILENO) < 0 ||
	    setenv("UAIO_STATS", "-", 1) < 0 ||
	    setenv("UAIO_RUN_PID", pid, 1) < 0)
		return 1;
	uaio_engine_load();
	uaio_report(false);
	got = read(fds[0], report, sizeof(report) - 1);
	return got > 0 && (strstr(report,
				  ": made no io_setup or open_door call; ") ||
			   strstr(report,
				  ": made no open_door or io_setup call; "))
		       ? 0
		       : 2;
}

static void the_report_names_the_calls_that_were_not_made(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(report_nothing), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(
			a_door_is_loaded_then_started_before_the_engine_is_up),
		UNIT_TEST(a_door_is_started_again_in_a_child),
		UNIT_TEST(where_a_door_cannot_start_the_engine_stays_down),
		UNIT_TEST(what_all_doors_have_counted_is_added_up),
		UNIT_TEST(a_door_tells_its_rings_from_files),
		UNIT_TEST(a_door_is_asked_for_a_descriptor_of_its_own),
		UNIT_TEST(the_first_call_of_each_door_is_known),
		UNIT_TEST(the_report_names_the_calls_that_were_not_made),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
