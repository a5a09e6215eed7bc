/* SPDX-License-Identifier: MIT */
/*
 * Helpers for tests of terminals: a pseudoterminal, a context, and a second reader (the
 * "thief") that consumes the input before the library can
 */
#ifndef TEST_TTY_H
#define TEST_TTY_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/atomic.h"
#include "aio/aio.h"
#include "unit.h"

static int terminal, master;
static uint64_t handle;
static char buffer[16]; /* the buffer into which submit_read() reads */

static inline void set_mode(tcflag_t local, cc_t min, cc_t time)
{
	struct termios mode;

	assert_int_equal(tcgetattr(terminal, &mode), 0);
	cfmakeraw(&mode);
	mode.c_lflag |= local;
	mode.c_cc[VMIN] = min;
	mode.c_cc[VTIME] = time;
	if (local & ICANON)
		mode.c_cc[VEOF] = 4;
	assert_int_equal(tcsetattr(terminal, TCSANOW, &mode), 0);
}

static inline void set_lines(void)
{
	set_mode(ICANON, 0, 0);
}

static inline void open_pty(unsigned nr_events)
{
	char path[64];

	master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(master >= 0);
	assert_int_equal(grantpt(master), 0);
	assert_int_equal(unlockpt(master), 0);
	assert_int_equal(ptsname_r(master, path, sizeof(path)), 0);
	terminal = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(terminal >= 0);
	set_lines();
	handle = unit_context(nr_events);
}

static inline void close_pty(void)
{
	unit_destroy(handle);
	if (terminal >= 0)
		unit_close(terminal);
	if (master >= 0)
		unit_close(master);
}

/* Makes a test with a pseudoterminal and a context for four requests. */
#define TTY_TEST(function) \
	cmocka_unit_test_setup_teardown(function, setup_pty, teardown_pty)

static int setup_pty(void **state)
{
	int ret = unit_setup(state);

	if (ret == 0)
		open_pty(4);
	memset(buffer, 0, sizeof(buffer));
	return ret;
}

static int teardown_pty(void **state)
{
	close_pty();
	return unit_teardown(state);
}

static inline void put(int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static struct iocb request; /* the request submitted last */

static inline void submit_read_into(int fd, void *bytes, size_t nr)
{
	request = unit_iocb(IOCB_CMD_PREAD, fd, bytes, nr, 0);
	assert_int_equal(unit_submit(handle, &request), 1);
}

static inline void submit_read(int fd)
{
	submit_read_into(fd, buffer, sizeof(buffer));
}

static inline void submit_write(int fd, const void *bytes, size_t nr)
{
	request = unit_iocb(IOCB_CMD_PWRITE, fd, (void *)bytes, nr, 0);
	assert_int_equal(unit_submit(handle, &request), 1);
}

static inline void assert_nothing_yet(void)
{
	struct timespec moment = { 0, 50000000 };
	struct uaio_event event;

	assert_int_equal(uaio_aio_getevents(handle, 1, 1, &event, &moment), 0);
}

/* Call io_getevents without waiting: the library then tries the parked requests. */
static inline void pass_by(void)
{
	struct timespec zero = { 0 };
	struct uaio_event event;

	assert_int_equal(uaio_aio_getevents(handle, 0, 1, &event, &zero), 0);
}

/* Check that the next event belongs to a read that has read `text` into `bytes`. */
static inline void assert_read_into(const char *bytes, const char *text)
{
	assert_int_equal(unit_reap_one(handle), strlen(text));
	assert_memory_equal(bytes, text, strlen(text));
}

static inline void assert_reads(const char *text)
{
	assert_read_into(buffer, text);
}

static inline void read_line(const char *text)
{
	submit_read(terminal);
	put(master, text);
	assert_reads(text);
}

static inline void cancel_read(void)
{
	assert_int_equal(uaio_aio_cancel(handle, &request), -EINPROGRESS);
	assert_int_equal(unit_reap_one(handle), -ECANCELED);
}

/*
 * The thief is a hook, a second reader: when poll() has reported input to the library, it
 * reads this input just before the library's read().
 */
static struct {
	uint32_t is_armed;   /* atomic */
	uint32_t has_stolen; /* atomic */
	/* atomic, as another thread that is still in the hook may read fd */
	int fd;
	char loot[16];
} thief;

/*
 * Return: whether both descriptors are the same end of a pseudoterminal; one may be the
 * library's. All masters have the same device number, so TIOCGPTN is needed to tell them
 * apart.
 */
static inline bool is_same_end(int fd, int other)
{
	int number = -1, its_number = -1;
	struct stat st, its;

	(void)ioctl(fd, TIOCGPTN, &number);
	(void)ioctl(other, TIOCGPTN, &its_number);
	return fstat(fd, &st) == 0 && fstat(other, &its) == 0 &&
	       st.st_rdev == its.st_rdev && number == its_number;
}

static inline bool steal(long nr, const long args[6], long *ret_res)
{
	struct pollfd pfd = { .events = POLLIN };
	uint32_t armed = 1;

	(void)ret_res;
	if (nr != SYS_read || !load_acquire(&thief.is_armed))
		return false;
	pfd.fd = load_relaxed(&thief.fd);
	if (!is_same_end((int)args[0], pfd.fd) || poll(&pfd, 1, 0) != 1 ||
	    !__atomic_compare_exchange_n(&thief.is_armed, &armed, 0, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return false;
	if (read(pfd.fd, thief.loot, sizeof(thief.loot)) > 0)
		store_release(&thief.has_stolen, 1);
	return false;
}

/*
 * Submit a read of the master or of the terminal. The thief consumes the first line of
 * input just before the library's read().
 */
static inline void lose_the_race(bool of_master)
{
	int fd = of_master ? master : terminal;

	store_relaxed(&thief.fd, fd);
	store_relaxed(&thief.has_stolen, 0);
	store_release(&thief.is_armed, 1);
	unit_hook(steal);
	submit_read(fd);
	put(of_master ? terminal : master, "first\n");
	unit_await(unit_is_set, &thief.has_stolen);
	unit_hook(NULL);
	assert_memory_equal(thief.loot, "first\n", 6);
}

#endif /* TEST_TTY_H */
