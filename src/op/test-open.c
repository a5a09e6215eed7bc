/* SPDX-License-Identifier: MIT */
/*
 * Tests OPENAT. Its request begins without a file, its system call may block, and its path
 * must be copied.
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "op/op.h"
#include "aio/aio.h"
#include "unit.h"

static char directory[] = "/tmp/uaio-open-XXXXXX";
static int folder_fd;

static int make_directory(void **state)
{
	assert_non_null(mkdtemp(directory));
	folder_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(folder_fd >= 0);
	return unit_engine(state);
}

static int remove_directory(void **state)
{
	(void)state;
	close(folder_fd);
	return rmdir(directory);
}

static struct uaio_sqe open_sqe(const char *path, uint32_t flags)
{
	return (struct uaio_sqe){
		.op = UAIO_OP_OPENAT,
		.is_async = true,
		.open_flags = flags | O_CLOEXEC,
		.fd = folder_fd,
		.mode = 0600,
		.path = path,
		.len = strlen(path) + 1,
	};
}

static void a_call_is_executed_by_a_worker(void **state)
{
	struct uaio_sqe sqe = open_sqe("name", O_CREAT | O_RDWR);
	uint64_t handle = unit_context(1);
	struct uaio_counters before, after;
	struct stat st;
	int64_t fd;

	(void)state;
	uaio_counters_read(&before);
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	fd = unit_reap_one(handle);
	uaio_counters_read(&after);
	assert_true(fd >= 0);
	assert_int_equal(after.nr_worker - before.nr_worker, 1);
	assert_int_equal(fstat((int)fd, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_true(fcntl((int)fd, F_GETFD) & FD_CLOEXEC);
	unit_close((int)fd);
	assert_int_equal(unlinkat(folder_fd, "name", 0), 0);

	sqe.open_flags = O_RDONLY;
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	assert_int_equal(unit_reap_one(handle), -ENOENT);
	unit_destroy(handle);
}

/*
 * The library copies a short path into the request itself, and a longer path into an
 * object of one of two slabs (flow/copy.c). At least two of these lengths use each of
 * the three kinds of memory.
 */
static const unsigned lengths[] = { 1, 63, 64, 65, 1023, 1024, 1025, 4095 };

/* Return: a path of this length that leads to the file "x". */
static char *path_to_x(unsigned length)
{
	char *path = malloc(length + 1);

	assert_non_null(path);
	for (unsigned i = 0; i < length; i++)
		path[i] = (length - 1 - i) % 2 ? '/' : '.';
	if (length > 1 && length % 2 == 0)
		/* a path with "../" would lead to another file */
		path[0] = '.';
	if (length > 2 && length % 2 == 0)
		path[1] = '/';
	path[length - 1] = 'x';
	path[length] = '\0';
	return path;
}

static void a_path_outlives_the_submitting_call(void **state)
{
	uint64_t handle = unit_context(NR_ELEMENTS(lengths));
	struct uaio_sqe sqe = open_sqe("x", O_CREAT | O_RDWR);
	int64_t fd;

	(void)state;
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	fd = unit_reap_one(handle);
	assert_true(fd >= 0);
	unit_close((int)fd);
	for (unsigned i = 0; i < NR_ELEMENTS(lengths); i++) {
		char *path = path_to_x(lengths[i]);

		sqe = open_sqe(path, O_RDONLY);
		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
		memset(path, '?', lengths[i]);
		free(path);
	}
	for (unsigned i = 0; i < NR_ELEMENTS(lengths); i++) {
		struct io_event event;

		assert_int_equal(unit_reap(handle, 1, &event), 1);
		assert_true((int64_t)event.res >= 0);
		unit_close((int)event.res);
	}
	assert_int_equal(unlinkat(folder_fd, "x", 0), 0);
	unit_destroy(handle);
}

static void a_path_without_a_0_ends_at_its_length(void **state)
{
	uint64_t handle = unit_context(1);
	struct uaio_sqe sqe = open_sqe("name", O_RDONLY);

	(void)state;
	sqe.len--;
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	assert_int_equal(unit_reap_one(handle), -ENOENT);
	assert_int_equal(mkdirat(folder_fd, "nam", 0700), 0);
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	unit_close((int)unit_reap_one(handle));
	assert_int_equal(unlinkat(folder_fd, "nam", AT_REMOVEDIR), 0);
	unit_destroy(handle);
}

/*
 * Open the path by a request.
 * Return: its result. ret_counters: how many requests were executed inline and by workers.
 */
static int64_t open_counted(const char *path, uint32_t flags,
			    struct uaio_counters *ret_counters)
{
	struct uaio_sqe sqe = open_sqe(path, flags);
	uint64_t handle = unit_context(1);
	struct uaio_counters before, after;
	int64_t fd;

	sqe.is_async = false;
	uaio_counters_read(&before);
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	fd = unit_reap_one(handle);
	uaio_counters_read(&after);
	ret_counters->nr_inline = after.nr_inline - before.nr_inline;
	ret_counters->nr_worker = after.nr_worker - before.nr_worker;
	unit_destroy(handle);
	return fd;
}

/*
 * The path was looked up just before, so the kernel has it cached, and the request opens it
 * inline.
 */
static void a_cached_path_is_opened_at_once(void **state)
{
	static const uint32_t flags[] = { O_RDONLY, O_RDWR | O_APPEND,
					  O_WRONLY | O_NONBLOCK };
	struct uaio_counters counters;
	int64_t fd = openat(folder_fd, "here", O_CREAT | O_WRONLY, 0600);
	int kept;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(close((int)fd), 0);
	for (unsigned i = 0; i < NR_ELEMENTS(flags); i++) {
		fd = open_counted("here", flags[i], &counters);
		assert_true(fd >= 0);
		assert_int_equal(counters.nr_inline, 1);
		kept = fcntl((int)fd, F_GETFL);
		assert_int_equal(kept & (O_ACCMODE | O_APPEND | O_NONBLOCK),
				 flags[i]);
		unit_close((int)fd);
	}
	fd = open_counted("here", O_WRONLY | O_TRUNC, &counters);
	assert_true(fd >= 0);
	assert_int_equal(counters.nr_worker, 1);
	unit_close((int)fd);
	assert_int_equal(open_counted("here", O_DIRECTORY, &counters),
			 -ENOTDIR);
	assert_int_equal(unlinkat(folder_fd, "here", 0), 0);
}

/* As in io_uring, a FIFO is opened as if O_NONBLOCK had been given. */
static void opening_a_fifo_does_not_wait(void **state)
{
	struct uaio_counters counters;
	int64_t fd;

	(void)state;
	assert_int_equal(mkfifoat(folder_fd, "fifo", 0600), 0);
	assert_int_equal(open_counted("fifo", O_WRONLY, &counters), -ENXIO);
	fd = open_counted("fifo", O_RDONLY, &counters);
	assert_true(fd >= 0);
	assert_int_equal(fcntl((int)fd, F_GETFL) & O_NONBLOCK, 0);
	unit_close((int)fd);
	assert_int_equal(unlinkat(folder_fd, "fifo", 0), 0);
}

/*
 * At first there are fewer workers than opens of this test. Each open blocks a worker.
 */
static void blocking_calls_do_not_delay_each_other(void **state)
{
	enum { NR = 4 };
	uint64_t handle = unit_context(2 * NR);
	struct io_event events[2 * NR];
	char names[NR][8];

	(void)state;
	for (unsigned i = 0; i < NR; i++) {
		snprintf(names[i], sizeof(names[i]), "fifo%u", i);
		assert_int_equal(mkfifoat(folder_fd, names[i], 0600), 0);
	}
	/*
	 * The requests 0 to NR - 1 open FIFOs for reading. Each waits until one of the
	 * later requests opens the same FIFO for writing.
	 */
	for (unsigned i = 0; i < 2 * NR; i++) {
		struct uaio_sqe sqe =
			open_sqe(names[i % NR], i < NR ? O_RDONLY : O_WRONLY);

		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	}
	assert_int_equal(unit_reap(handle, 2 * NR, events), 2 * NR);
	for (unsigned i = 0; i < 2 * NR; i++) {
		assert_true((int64_t)events[i].res >= 0);
		unit_close((int)events[i].res);
	}
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(unlinkat(folder_fd, names[i], 0), 0);
	unit_destroy(handle);
}

static void assert_refused(const void *path, uint64_t len, long error)
{
	uint64_t handle = unit_context(1);
	struct uaio_sqe sqe = open_sqe("", O_RDONLY);

	sqe.path = path;
	sqe.len = len;
	assert_int_equal(unit_submit_sqe(handle, &sqe), error);
	unit_destroy(handle);
}

static void an_invalid_path_is_refused(void **state)
{
	static const char path[PATH_MAX + 1];

	(void)state;
	assert_refused(path, 0, -EINVAL);
	assert_refused(path, 1, -ENOENT);
	assert_refused(path, sizeof(path), -ENAMETOOLONG);
	assert_refused(NULL, 1, -EFAULT);
	assert_refused((const void *)(UINTPTR_MAX - 4096), 1, -EFAULT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_call_is_executed_by_a_worker),
		UNIT_TEST(a_path_outlives_the_submitting_call),
		UNIT_TEST(a_path_without_a_0_ends_at_its_length),
		UNIT_TEST(a_cached_path_is_opened_at_once),
		UNIT_TEST(opening_a_fifo_does_not_wait),
		UNIT_TEST(blocking_calls_do_not_delay_each_other),
		UNIT_TEST(an_invalid_path_is_refused),
	};

	return cmocka_run_group_tests_name("open", tests, make_directory,
					   remove_directory);
}
