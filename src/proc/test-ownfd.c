/* SPDX-License-Identifier: MIT */
/*
 * Tests that the library never uses or closes the program's file, although the program
 * puts it in the place of a new descriptor of the library. The program does this by
 * system calls that the library does not see.
 */
#undef NDEBUG
#include "proc/ownfd.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "unit.h"

static int host_file; /* the program's file, which replaces a new descriptor */
static int new_fd;    /* the library's descriptor that the program replaces */
static bool is_before;
/* how often the program will still replace a descriptor */
static unsigned nr_left;

static int nameless(void)
{
	FILE *file = tmpfile();
	int fd;

	assert_non_null(file);
	fd = dup(fileno(file));
	(void)fclose(file);
	return fd;
}

static void take(int number)
{
	nr_left--;
	new_fd = number;
	assert_int_equal(uaio_sys_raw(SYS_dup3, host_file, number, 0, 0, 0, 0),
			 number);
}

/*
 * A hook for system calls. When the library moves its new descriptor, the program opens
 * its own file at the descriptor's number, before or after the move.
 */
static bool take_the_number(long nr, const long args[6], long *ret_res)
{
	if (nr != SYS_fcntl || args[1] != F_DUPFD_CLOEXEC || !nr_left)
		return false;
	if (is_before)
		take((int)args[0]);
	*ret_res = uaio_sys_raw(nr, args[0], args[1], args[2], 0, 0, 0);
	if (!is_before)
		take((int)args[0]);
	return true;
}

static bool is_of_host(int fd)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstat(host_file, &b) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

typedef int open_fn(void);

static int open_eventfd(void)
{
	return uaio_ownfd_event(0);
}

static int open_epoll(void)
{
	return uaio_ownfd_epoll();
}

static int open_null(void)
{
	return uaio_ownfd_open("/dev/null", O_RDWR);
}

static open_fn *const opens[] = { open_eventfd, open_epoll, open_null };

static void take_while_opened(open_fn *open_own)
{
	uint64_t one = 1;
	int fd;

	host_file = nameless();
	nr_left = 1;
	fd = open_own();
	assert_int_equal(nr_left, 0);
	/*
	 * The library has got a descriptor of its own, or none, but never the
	 * program's.
	 */
	if (fd >= 0) {
		assert_false(is_of_host(fd));
		(void)!write(fd, &one, sizeof(one));
		uaio_ownfd_close(fd);
	}
	assert_true(is_of_host(new_fd));
	assert_int_equal(lseek(host_file, 0, SEEK_END), 0);
	assert_int_equal(close(new_fd), 0);
	assert_int_equal(close(host_file), 0);
}

static void a_number_that_the_host_takes_is_the_hosts(void **state)
{
	(void)state;
	unit_hook(take_the_number);
	for (unsigned i = 0; i < sizeof(opens) / sizeof(opens[0]); i++)
		for (unsigned before = 0; before < 2; before++) {
			is_before = before;
			take_while_opened(opens[i]);
		}
	unit_hook(NULL);
}

/*
 * A hook for system calls: the program closes a range of descriptors that includes the
 * new descriptor.
 */
static bool close_the_number(long nr, const long args[6], long *ret_res)
{
	(void)ret_res;
	if (nr == SYS_fcntl && args[1] == F_DUPFD_CLOEXEC && nr_left) {
		nr_left--;
		assert_int_equal(
			uaio_sys_raw(SYS_close, args[0], 0, 0, 0, 0, 0), 0);
	}
	return false;
}

static void a_number_that_the_host_closes_is_opened_again(void **state)
{
	(void)state;
	unit_hook(close_the_number);
	for (unsigned i = 0; i < sizeof(opens) / sizeof(opens[0]); i++) {
		int fd;

		nr_left = 1;
		fd = opens[i]();
		assert_int_equal(nr_left, 0);
		assert_true(fd >= 0 && fcntl(fd, F_GETFD) >= 0);
		uaio_ownfd_close(fd);
	}
	unit_hook(NULL);
}

static uint32_t
	/* atomic: how many duplicates of the socket were closed */
	nr_closed;

static long quiesce_and_resume(void *arg)
{
	(void)arg;
	uaio_ownfds_quiesce();
	uaio_ownfds_resume();
	return 0;
}

/*
 * A hook: while the library closes the socket, another thread must be able to acquire
 * the lock of the library's descriptors.
 */
static bool go_on_meanwhile(long nr, const long args[6], long *ret_res)
{
	struct unit_thread thread;
	struct stat st;

	(void)ret_res;
	if ((nr != SYS_close && nr != SYS_dup3) ||
	    fstat((int)args[nr == SYS_dup3], &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	unit_thread_start(&thread, quiesce_and_resume, NULL);
	(void)unit_thread_join(&thread);
	/* Count last, since the test may end as soon as the count changes. */
	add_relaxed(&nr_closed, 1);
	return false;
}

static bool is_closed(void *unused)
{
	(void)unused;
	return load_relaxed(&nr_closed);
}

static void a_socket_that_lingers_is_closed_with_no_lock_held(void **state)
{
	const struct linger linger = { .l_onoff = 1, .l_linger = 1 };
	uint64_t handle = unit_context(1);
	struct io_event event;
	struct iocb iocb;
	int ends[2];
	char byte;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &linger,
				    sizeof(linger)),
			 0);
	iocb = unit_iocb(IOCB_CMD_PREAD, ends[0], &byte, 1, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	unit_close(ends[0]);
	store_relaxed(&nr_closed, 0);
	unit_hook(go_on_meanwhile);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(unit_reap(handle, 1, &event), 1);
	/*
	 * The thread that executed the request may post the event first, and close the
	 * file later. So wait for the close.
	 */
	unit_await(is_closed, NULL);
	unit_hook(NULL);
	assert_int_equal(load_relaxed(&nr_closed), 1);
	unit_destroy(handle);
	assert_int_equal(close(ends[1]), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_number_that_the_host_takes_is_the_hosts),
		UNIT_TEST(a_number_that_the_host_closes_is_opened_again),
		UNIT_TEST(a_socket_that_lingers_is_closed_with_no_lock_held),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
