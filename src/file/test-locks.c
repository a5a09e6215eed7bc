/* SPDX-License-Identifier: MIT */
/*
 * Tests that the program loses no record lock (fcntl) when the library closes descriptors.
 */
#undef NDEBUG
#include "file/duplicate.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "proc/entry.h"
#include "file/file.h"
#include "file/test-tty.h"

/* Lock or unlock a byte. */
static void lock(int fd, short type, off_t at)
{
	struct flock byte = {
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = at,
		.l_len = 1,
	};

	assert_int_equal(fcntl(fd, F_SETLK, &byte), 0);
}

static int tested;

static int is_locked_by_another(void)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(tested, F_GETLK, &all) == 0 && all.l_type != F_UNLCK;
}

/*
 * Return: whether this process has a lock on fd. A child tests this, as F_GETLK hides the
 * locks of the calling process.
 */
static bool holds_lock(int fd)
{
	tested = fd;
	return unit_in_child(is_locked_by_another);
}

/* Return: how many of the library's own descriptors refer to the file of fd. */
static unsigned nr_own(int fd)
{
	struct stat own, file;
	unsigned at = 0, nr = 0;

	assert_int_equal(fstat(fd, &file), 0);
	for (; uaio_own_fd(at, UINT_MAX, &at); at++)
		nr += fstat((int)at, &own) == 0 && own.st_dev == file.st_dev &&
		      own.st_ino == file.st_ino;
	return nr;
}

/*
 * Return: whether the library has no descriptor of the file any more. Tests wait for this
 * after a close, as a thread of the library may still have a reference to the file.
 */
static bool has_no_own(void *arg)
{
	return nr_own(*(int *)arg) == 0;
}

static void fix_and_put(int fd)
{
	struct uaio_file *file;

	assert_true(uaio_enter());
	assert_int_equal(uaio_file_fix(fd, &file), 0);
	uaio_file_put(file);
	uaio_leave();
}

static void a_terminal_that_is_read_stays_locked(void **state)
{
	(void)state;
	lock(terminal, F_WRLCK, 0);
	put(master, "line\n");
	submit_read(terminal);
	assert_reads("line\n");
	assert_true(holds_lock(terminal));
	submit_read(terminal);
	put(master, "more\n");
	assert_reads("more\n");
	assert_true(holds_lock(terminal));
}

/*
 * The library has reopened the terminal. Then the program locks the terminal, by
 * another descriptor.
 */
static void a_terminal_that_is_closed_late_stays_locked(void **state)
{
	char path[64];
	int other;

	(void)state;
	assert_int_equal(ttyname_r(terminal, path, sizeof(path)), 0);
	submit_read(terminal);
	unit_close(terminal);
	terminal = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(terminal >= 0);
	lock(terminal, F_WRLCK, 0);
	put(master, "line\n");
	assert_reads("line\n");
	other = open("/dev/null", O_RDONLY | O_CLOEXEC);
	unit_close(other);
	assert_true(holds_lock(terminal));
	assert_true(nr_own(terminal) > 0);
	unit_close(terminal);
	terminal = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	unit_await(has_no_own, &terminal);
}

static void a_fixed_file_that_is_let_go_stays_locked(void **state)
{
	int fd = unit_file(true);

	(void)state;
	lock(fd, F_RDLCK, 7);
	fix_and_put(fd);
	assert_true(holds_lock(fd));
	assert_int_equal(nr_own(fd), 1);
	lock(fd, F_UNLCK, 7);
	fix_and_put(fd);
	uaio_kept_close();
	assert_int_equal(nr_own(fd), 0);
	unit_close(fd);
}

static void closing_the_locked_file_closes_what_was_kept(void **state)
{
	int fd = unit_file(true), copy = dup(fd);

	(void)state;
	lock(fd, F_WRLCK, 0);
	fix_and_put(fd);
	assert_int_equal(nr_own(fd), 1);
	unit_close(copy);
	copy = dup(fd);
	assert_int_equal(nr_own(fd), 0);
	unit_close(copy);
	unit_close(fd);
}

/*
 * The library keeps one duplicate of a locked file, and uses it again. Before Linux
 * 6.10 it keeps each duplicate, because the kernel does not report that two
 * descriptors share an open file.
 */
static void what_is_kept_is_used_again(void **state)
{
	int fd = unit_file(true);

	(void)state;
	lock(fd, F_WRLCK, 0);
	for (unsigned i = 0; i < UAIO_KEPT_MAX / 2; i++)
		fix_and_put(fd);
	assert_true(holds_lock(fd));
	if (sys_is_duplicate(fd, fd) == 1)
		assert_int_equal(nr_own(fd), 1);
	unit_close(fd);
}

/*
 * Another process has locked the file, so at first the library keeps its own descriptor
 * of the file. The next uaio_kept_close() closes this descriptor; here the close of
 * another file calls that function.
 */
static void what_another_process_locks_is_closed(void **state)
{
	int fd = unit_file(true), ends[2], go[2], null;
	pid_t child;
	char byte;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(go), 0);
	child = fork();
	if (!child) {
		lock(fd, F_WRLCK, 0);
		(void)!write(ends[1], "x", 1);
		close(go[1]);
		(void)!read(go[0], &byte, 1);
		_exit(0);
	}
	assert_int_equal(read(ends[0], &byte, 1), 1);
	fix_and_put(fd);
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	unit_close(null);
	assert_int_equal(nr_own(fd), 0);
	close(go[1]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(go[0]);
	close(ends[0]);
	close(ends[1]);
	unit_close(fd);
}

static void the_program_can_have_a_kept_descriptor(void **state)
{
	int fd = unit_file(true);
	unsigned own;

	(void)state;
	lock(fd, F_WRLCK, 0);
	fix_and_put(fd);
	for (own = 0; uaio_own_fd(own, UINT_MAX, &own); own++)
		if (sys_is_duplicate(fd, (int)own) == 1)
			break;
	if (uaio_own_fd(own, own, &own)) {
		assert_int_equal(uaio_own_fd_yield((int)own), 0);
		assert_false(uaio_kept_any());
		close((int)own);
	}
	unit_close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TTY_TEST(a_terminal_that_is_read_stays_locked),
		TTY_TEST(a_terminal_that_is_closed_late_stays_locked),
		UNIT_TEST(a_fixed_file_that_is_let_go_stays_locked),
		UNIT_TEST(closing_the_locked_file_closes_what_was_kept),
		UNIT_TEST(what_is_kept_is_used_again),
		UNIT_TEST(what_another_process_locks_is_closed),
		UNIT_TEST(the_program_can_have_a_kept_descriptor),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
