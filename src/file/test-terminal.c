/* SPDX-License-Identifier: MIT */
/* Tests that no thread blocks on a terminal that the library has reopened. */
#undef NDEBUG
#include "file/terminal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "file/test-tty.h"

static void lines_go_to_reads_in_order(void **state)
{
	enum { NR = 20 };
	char lines[NR][16], text[16];
	struct io_event events[NR];

	(void)state;
	for (unsigned round = 0; round < unit_rounds(20); round++) {
		open_pty(NR);
		for (unsigned i = 0; i < NR; i++)
			submit_read_into(terminal, lines[i], sizeof(lines[i]));
		for (unsigned i = 0; i < NR; i++) {
			snprintf(text, sizeof(text), "line %u\n", i);
			put(master, text);
		}
		assert_int_equal(unit_reap(handle, NR, events), NR);
		for (unsigned i = 0; i < NR; i++) {
			snprintf(text, sizeof(text), "line %u\n", i);
			assert_memory_equal(lines[i], text, strlen(text));
		}
		close_pty();
	}
}

static void destroy_does_not_wait_for_a_read_that_lost_its_line(void **state)
{
	(void)state;
	open_pty(4);
	lose_the_race(false);
	assert_nothing_yet();
	close_pty();
}

static void a_read_that_lost_its_line_is_cancelled(void **state)
{
	(void)state;
	lose_the_race(false);
	assert_nothing_yet();
	cancel_read();
	put(master, "second\n");
	assert_int_equal(read(terminal, buffer, sizeof(buffer)), 7);
}

/*
 * A write to a terminal whose output buffer is full can be cancelled, as for a full pipe.
 */
static void a_write_that_waits_for_room_is_cancelled(void **state)
{
	static char out[100000];
	int64_t res;

	(void)state;
	set_mode(0, 1, 0);
	submit_write(terminal, out, sizeof(out));
	assert_nothing_yet();
	assert_int_equal(uaio_aio_cancel(handle, &request), -EINPROGRESS);
	/* The result is how many bytes were written before the write was cancelled. */
	res = unit_reap_one(handle);
	assert_true(res > 0 && res < (int64_t)sizeof(out));
}

/*
 * The user can stop the output of a terminal by ^S, perhaps for ever. The test stops
 * the output by TCOOFF.
 */
static void what_is_written_to_a_stopped_terminal_waits(void **state)
{
	(void)state;
	open_pty(4);
	assert_int_equal(tcflow(terminal, TCOOFF), 0);
	submit_write(terminal, "out", 3);
	assert_nothing_yet();
	assert_int_equal(tcflow(terminal, TCOON), 0);
	assert_int_equal(unit_reap_one(handle), 3);
	assert_int_equal(read(master, buffer, sizeof(buffer)), 3);
	/*
	 * Another write waits for the stopped terminal. close_pty() destroys the
	 * context, and must not wait for this write.
	 */
	assert_int_equal(tcflow(terminal, TCOOFF), 0);
	submit_write(terminal, "out", 3);
	assert_nothing_yet();
	close_pty();
}

static bool refuse_open(long nr, const long args[6], long *ret_res)
{
	(void)args;
	*ret_res = -EACCES;
	return nr == SYS_openat;
}

static void a_terminal_that_cannot_be_reopened_is_served(void **state)
{
	(void)state;
	unit_hook(refuse_open);
	read_line("line\n");
	unit_hook(NULL);
}

/*
 * Return: whether fd is a terminal that the library has reopened. Only such a
 * descriptor has O_NONBLOCK: the client's descriptor and the library's duplicates of
 * it do not.
 */
static bool is_reopened(int fd)
{
	return isatty(fd) && fcntl(fd, F_GETFL) & O_NONBLOCK;
}

static int nr_reopened(void)
{
	unsigned fd = 0, nr = 0;

	for (; uaio_own_fd(fd, UINT_MAX, &fd); fd++)
		nr += is_reopened((int)fd);
	return (int)nr;
}

/*
 * Return: whether the library has no reopened terminal any more. Tests wait for this
 * after a close, as a thread of the library may still have a reference to the terminal.
 */
static bool none_is_reopened(void *arg)
{
	(void)arg;
	return nr_reopened() == 0;
}

static bool is_hung_up(void *arg)
{
	struct pollfd pfd = { .fd = *(int *)arg, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1 && pfd.revents & POLLHUP;
}

/*
 * Opening a master again would create another pseudoterminal. The path of a terminal
 * that was hung up may name another terminal by now. So the library must reopen
 * neither.
 */
static void masters_and_hung_up_terminals_are_not_reopened(void **state)
{
	(void)state;
	submit_read(master);
	assert_int_equal(nr_reopened(), 0);
	put(terminal, "out");
	assert_reads("out");
	unit_close(master);
	master = -1;
	unit_await(is_hung_up, &terminal);
	submit_read(terminal);
	assert_int_equal(nr_reopened(), 0);
	assert_int_equal(unit_reap_one(handle), 0);
}

/*
 * The master is hung up only when the library, too, has closed its descriptor of the
 * terminal.
 */
static void closing_a_terminal_closes_what_was_reopened(void **state)
{
	(void)state;
	read_line("line\n");
	assert_int_equal(nr_reopened(), 1);
	assert_false(is_hung_up(&master));
	unit_close(terminal);
	terminal = -1;
	unit_await(none_is_reopened, NULL);
	unit_await(is_hung_up, &master);
}

static void set_flags(int open_flags)
{
	assert_true(uaio_enter());
	uaio_file_flags_change(terminal, open_flags);
	assert_int_equal(fcntl(terminal, F_SETFL, open_flags), 0);
	uaio_file_flags_change(terminal, -1);
	uaio_leave();
}

/* While a terminal is O_NONBLOCK, its reads do not wait, so it is not reopened. */
static void a_terminal_is_reopened_once_its_reads_may_wait(void **state)
{
	(void)state;
	set_flags(O_NONBLOCK);
	submit_read(terminal);
	assert_int_equal(unit_reap_one(handle), -EAGAIN);
	assert_int_equal(nr_reopened(), 0);
	set_flags(0);
	read_line("line\n");
	assert_int_equal(nr_reopened(), 1);
}

static bool refuse_duplicates(long nr, const long args[6], long *ret_res)
{
	*ret_res = -EMFILE;
	return nr == SYS_fcntl && args[1] == F_DUPFD_CLOEXEC;
}

/*
 * If the library cannot keep a duplicate of a closed descriptor, a waiting read fails
 * with EBADF: no epoll watches its file any more.
 */
static void closing_without_a_duplicate_ends_the_read(void **state)
{
	(void)state;
	submit_read(terminal);
	pass_by();
	assert_int_equal(nr_reopened(), 1);
	unit_hook(refuse_duplicates);
	unit_close(terminal);
	unit_hook(NULL);
	terminal = -1;
	assert_int_equal(unit_reap_one(handle), -EBADF);
	unit_await(none_is_reopened, NULL);
}

/*
 * of_another_session: a descriptor of /dev/tty that the parent has opened in its session;
 * its_master: that terminal's master. In the child's session /dev/tty is the child's
 * terminal.
 */
static int of_another_session, its_master;

static int read_in_a_session_of_its_own(void)
{
	open_pty(4);
	if (setsid() < 0 || ioctl(terminal, TIOCSCTTY, 0) < 0)
		return 1;
	put(its_master, "theirs\n");
	put(master, "ours\n");
	submit_read(of_another_session);
	assert_reads("theirs\n");
	return 0;
}

static int open_by_another_name(void)
{
	open_pty(4);
	if (setsid() < 0 || ioctl(terminal, TIOCSCTTY, 0) < 0)
		return 2;
	its_master = master;
	of_another_session = open("/dev/tty", O_RDWR | O_CLOEXEC);
	return of_another_session < 0
		       ? 3
		       : unit_in_child(read_in_a_session_of_its_own);
}

static void the_terminal_of_another_session_is_not_reopened(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(open_by_another_name), 0);
}

/*
 * Between uaio_fds_closing() and the dup2() by which the descriptor gets another
 * terminal, a thread submits a read. That read gets the old terminal's input. The next
 * read must get the input of the other terminal.
 */
static void a_descriptor_that_becomes_another_terminal_reads_it(void **state)
{
	int fd, old;

	(void)state;
	open_pty(4);
	unit_destroy(handle);
	fd = terminal;
	old = master;
	open_pty(4);
	uaio_fds_closing((unsigned)fd, (unsigned)fd);
	put(old, "old\n");
	submit_read(fd);
	assert_reads("old\n");
	assert_int_equal(dup2(terminal, fd), fd);
	uaio_fds_closed((unsigned)fd, (unsigned)fd);
	put(master, "new\n");
	submit_read(fd);
	assert_reads("new\n");
	unit_close(fd);
	unit_close(old);
	close_pty();
}

static int find_reopened(void)
{
	unsigned fd = 0;

	while (uaio_own_fd(fd, UINT_MAX, &fd) && !is_reopened((int)fd))
		fd++;
	return (int)fd;
}

static void the_program_can_have_the_descriptor_of_the_reopened(void **state)
{
	char byte;
	int reopened, zero;

	(void)state;
	open_pty(4);
	submit_read(terminal);
	zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	reopened = find_reopened();
	assert_true(is_reopened(reopened));
	assert_int_equal(uaio_own_fd_yield(reopened), 0);
	assert_int_equal(dup2(zero, reopened), reopened);
	put(master, "line\n");
	assert_reads("line\n");
	/*
	 * The program has opened a file at the library's descriptor, and the library has
	 * moved its terminal elsewhere. Closing the terminal must not close the program's
	 * file.
	 */
	close_pty();
	assert_int_equal(read(reopened, &byte, 1), 1);
	unit_close(reopened);
	unit_close(zero);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(lines_go_to_reads_in_order),
		UNIT_TEST(destroy_does_not_wait_for_a_read_that_lost_its_line),
		TTY_TEST(a_read_that_lost_its_line_is_cancelled),
		TTY_TEST(a_write_that_waits_for_room_is_cancelled),
		UNIT_TEST(what_is_written_to_a_stopped_terminal_waits),
		TTY_TEST(a_terminal_that_cannot_be_reopened_is_served),
		TTY_TEST(masters_and_hung_up_terminals_are_not_reopened),
		TTY_TEST(closing_a_terminal_closes_what_was_reopened),
		TTY_TEST(a_terminal_is_reopened_once_its_reads_may_wait),
		TTY_TEST(closing_without_a_duplicate_ends_the_read),
		UNIT_TEST(the_terminal_of_another_session_is_not_reopened),
		UNIT_TEST(a_descriptor_that_becomes_another_terminal_reads_it),
		UNIT_TEST(the_program_can_have_the_descriptor_of_the_reopened),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
