/* SPDX-License-Identifier: MIT */
/*
 * Tests that the library recognizes each kind of anonymous inode, and recognizes an
 * eventfd without calling readlink().
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/atomic.h"
#include "file/file.h"
#include "file/inspect.h"
#include "unit.h"

static uint32_t nr_names; /* atomic: how many readlinkat() calls were made */

static bool count_names(long nr, const long args[6], long *ret_res)
{
	(void)args;
	(void)ret_res;
	if (nr == SYS_readlinkat)
		add_relaxed(&nr_names, 1);
	return false;
}

/*
 * Query fd, then close it.
 * Return: the flags of fd, without the flags of the access mode.
 */
static uint32_t flags_of(int fd)
{
	struct uaio_fd_facts facts = { 0 };

	assert_true(fd >= 0);
	store_relaxed(&nr_names, 0);
	unit_hook(count_names);
	assert_int_equal(uaio_inspect(fd, &facts), 0);
	unit_hook(NULL);
	assert_int_equal(facts.kind, UAIO_KIND_STREAM);
	unit_close(fd);
	return facts.flags &
	       ~(uint32_t)(UAIO_FILE_F_READ | UAIO_FILE_F_WRITE |
			   UAIO_FILE_F_NONBLOCK | UAIO_FILE_F_STREAM);
}

enum {
	EVENTFD = UAIO_FILE_F_EVENTFD | UAIO_FILE_F_OLD_WRITE |
		  UAIO_FILE_F_CERTAIN,
	OLD = UAIO_FILE_F_OLD_READ | UAIO_FILE_F_OLD_WRITE,
};

/* Return: whether the kernel refuses RWF_APPEND with RWF_NOAPPEND (since Linux 6.9). */
static bool kernel_refuses_contradictions(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	char byte;
	struct iovec iov = { &byte, 1 };
	long res = syscall(SYS_preadv2, fd, &iov, 1, 0, 0, 0x30);

	assert_true(res < 0);
	res = errno;
	(void)close(fd);
	return res == EINVAL;
}

static int eventfd_with(uint64_t count)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (count)
		assert_int_equal(write(fd, &count, sizeof(count)),
				 sizeof(count));
	return fd;
}

static void an_eventfd_is_known_without_its_name(void **state)
{
	static const uint64_t counts[] = { 0, 1, UINT64_MAX - 2 };

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(counts); i++) {
		assert_int_equal(flags_of(eventfd_with(counts[i])), EVENTFD);
		assert_int_equal(load_relaxed(&nr_names),
				 !kernel_refuses_contradictions());
	}
}

static void a_full_eventfd_is_known_by_its_name(void **state)
{
	(void)state;
	assert_int_equal(flags_of(eventfd_with(UINT64_MAX - 1)), EVENTFD);
	assert_int_equal(load_relaxed(&nr_names), 1);
}

static void an_eventfd_keeps_its_count(void **state)
{
	struct uaio_fd_facts facts = { 0 };
	int fd = eventfd_with(3);
	uint64_t count;

	(void)state;
	assert_int_equal(uaio_inspect(fd, &facts), 0);
	assert_int_equal(read(fd, &count, sizeof(count)), sizeof(count));
	assert_int_equal(count, 3);
	unit_close(fd);
}

static void what_is_no_eventfd_is_not_taken_for_one(void **state)
{
	struct io_uring_params params = { 0 };
	sigset_t set;
	int ring;

	(void)state;
	sigemptyset(&set);
	assert_int_equal(flags_of(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)),
			 UAIO_FILE_F_OLD_WRITE | UAIO_FILE_F_CERTAIN);
	assert_int_equal(flags_of(signalfd(-1, &set, SFD_CLOEXEC)),
			 UAIO_FILE_F_OLD_WRITE | UAIO_FILE_F_PERSONAL);
	assert_int_equal(flags_of(epoll_create1(EPOLL_CLOEXEC)),
			 OLD | UAIO_FILE_F_EPOLL);
	assert_int_equal(flags_of(inotify_init1(IN_CLOEXEC)), OLD);
	/*
	 * poll() reports a ring of the kernel's io_uring as writable, like an eventfd.
	 * The library must not take the ring for an eventfd.
	 */
	ring = (int)syscall(SYS_io_uring_setup, 1, &params);
	if (ring >= 0)
		assert_int_equal(flags_of(ring), OLD);
}

static bool refuse_offset_of_read(long nr, const long args[6], long *ret_res)
{
	(void)args;
	*ret_res = -ESPIPE;
	return nr == SYS_preadv;
}

static uint32_t position_flags_of(const char *path, int open_flags)
{
	int fd = open(path, open_flags | O_CLOEXEC);
	struct uaio_fd_facts facts = { 0 };

	assert_true(fd >= 0);
	assert_int_equal(uaio_inspect(fd, &facts), 0);
	unit_close(fd);
	return facts.flags & (UAIO_FILE_F_NO_PREAD | UAIO_FILE_F_NO_PWRITE);
}

static void files_that_take_no_offset_are_known(void **state)
{
	static const char text[] = "/proc/self/status";
	static const char name[] = "/proc/self/comm", self[] = "/proc/self/exe";

	(void)state;
	assert_int_equal(position_flags_of(self, O_RDONLY), 0);
	assert_int_equal(position_flags_of("/proc/self/mem", O_RDWR), 0);
	assert_int_equal(position_flags_of(name, O_RDWR),
			 UAIO_FILE_F_NO_PWRITE);
	unit_hook(refuse_offset_of_read);
	assert_true(position_flags_of(text, O_RDONLY) & UAIO_FILE_F_NO_PREAD);
	unit_hook(NULL);
}

static bool refuse_fstat(long nr, const long args[6], long *ret_res)
{
	(void)args;
	*ret_res = -ENOMEM;
#ifdef SYS_fstat
	if (nr == SYS_fstat)
		return true;
#endif
	return nr == SYS_newfstatat;
}

/*
 * If memory is refused, the library must not return EBADF: the client would assume that its
 * descriptor is closed.
 */
static void want_of_memory_is_no_closed_descriptor(void **state)
{
	int fds[2];
	struct uaio_file *file;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	unit_hook(refuse_fstat);
	assert_int_equal(uaio_file_open(fds[0], &file), -ENOMEM);
	assert_int_equal(uaio_file_open_parted(fds[0], &file), -ENOMEM);
	assert_int_equal(uaio_file_fix(fds[0], &file), -ENOMEM);
	unit_hook(NULL);
	unit_close(fds[0]);
	assert_int_equal(uaio_file_open(fds[0], &file), -EBADF);
	unit_close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(an_eventfd_is_known_without_its_name),
		UNIT_TEST(a_full_eventfd_is_known_by_its_name),
		UNIT_TEST(an_eventfd_keeps_its_count),
		UNIT_TEST(what_is_no_eventfd_is_not_taken_for_one),
		UNIT_TEST(files_that_take_no_offset_are_known),
		UNIT_TEST(want_of_memory_is_no_closed_descriptor),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
