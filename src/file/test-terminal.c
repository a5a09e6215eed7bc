/* SPDX-License-Identifier: MIT */
/* A terminal that is opened anew: nobody blocks on it at all. */
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

static void destroy_does_not_wait_for_who_lost_the_race(void **state)
{
	(void)state;
	open_pty(4);
	lose_the_race(false);
	assert_nothing_yet();
	close_pty();
}

static void who_lost_the_race_is_cancelled(void **state)
{
	(void)state;
	lose_the_race(false);
	assert_nothing_yet();
	cancel_read();
	put(master, "second\n");
	assert_int_equal(read(terminal, buffer, sizeof(buffer)), 7);
}

/* A full terminal is like a full pipe: who writes there can be cancelled. */
static void a_write_that_waits_for_room_is_cancelled(void **state)
{
	static char out[100000];
	int64_t res;

	(void)state;
	set_mode(0, 1, 0);
	submit_write(terminal, out, sizeof(out));
	assert_nothing_yet();
	assert_int_equal(uaio_aio_cancel(handle, &request), -EINPROGRESS);
	/* What has been written has been. */
	res = unit_reap_one(handle);
	assert_true(res > 0 && res < (int64_t)sizeof(out));
}

/* By ^S, as people do: it may be for ever. */
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
	/* Nor does destroy wait for its end. */
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

static void a_terminal_that_cannot_be_opened_anew_is_served(void **state)
{
	(void)state;
	unit_hook(refuse_open);
	read_line("line\n");
	unit_hook(NULL);
}

/* Private duplicates block, as the client's own. */
static bool is_anew(int fd)
{
	return isatty(fd) && fcntl(fd, F_GETFL) & O_NONBLOCK;
}

static int nr_anew(void)
{
	unsigned fd = 0, nr = 0;

	for (; uaio_own_fd(fd, UINT_MAX, &fd); fd++)
		nr += is_anew((int)fd);
	return (int)nr;
}

/* Closed with the file, which a thread of the engine may be looking at yet. */
static bool none_is_anew(void *arg)
{
	(void)arg;
	return nr_anew() == 0;
}

static bool is_hung_up(void *arg)
{
	struct pollfd slot = { .fd = *(int *)arg, .events = POLLIN };

	return poll(&slot, 1, 0) == 1 && slot.revents & POLLHUP;
}

/* Opened once more, a master is another; a hung up terminal another's. */
static void what_is_not_to_be_opened_anew_is_not(void **state)
{
	(void)state;
	submit_read(master);
	assert_int_equal(nr_anew(), 0);
	put(terminal, "out");
	assert_reads("out");
	unit_close(master);
	master = -1;
	unit_await(is_hung_up, &terminal);
	submit_read(terminal);
	assert_int_equal(nr_anew(), 0);
	assert_int_equal(unit_reap_one(handle), 0);
}

/* Or its master would never hear of it. */
static void the_end_of_a_number_ends_what_was_opened_anew(void **state)
{
	(void)state;
	read_line("line\n");
	assert_int_equal(nr_anew(), 1);
	assert_false(is_hung_up(&master));
	unit_close(terminal);
	terminal = -1;
	unit_await(none_is_anew, NULL);
	unit_await(is_hung_up, &master);
}

static bool refuse_duplicates(long nr, const long args[6], long *ret_res)
{
	*ret_res = -EMFILE;
	return nr == SYS_fcntl && args[1] == F_DUPFD_CLOEXEC;
}

/* As on any file: what waits must not wait for what nobody watches. */
static void a_number_that_goes_without_another_ends_the_read(void **state)
{
	(void)state;
	submit_read(terminal);
	pass_by();
	assert_int_equal(nr_anew(), 1);
	unit_hook(refuse_duplicates);
	unit_close(terminal);
	unit_hook(NULL);
	terminal = -1;
	assert_int_equal(unit_reap_one(handle), -EBADF);
	unit_await(none_is_anew, NULL);
}

/* What /dev/tty is depends on who opens it: this was by another session. */
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

static void a_terminal_of_another_session_is_that(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(open_by_another_name), 0);
}

/*
 * Another thread submits a read between the look at what is known of a number
 * and its becoming another terminal.
 */
static void a_number_that_becomes_another_terminal_is_that(void **state)
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

static int find_anew(void)
{
	unsigned fd = 0;

	while (uaio_own_fd(fd, UINT_MAX, &fd) && !is_anew((int)fd))
		fd++;
	return (int)fd;
}

static void the_number_of_what_was_opened_anew_can_be_had(void **state)
{
	char byte;
	int anew, zero;

	(void)state;
	open_pty(4);
	submit_read(terminal);
	zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	anew = find_anew();
	assert_true(is_anew(anew));
	assert_int_equal(uaio_own_fd_yield(anew), 0);
	assert_int_equal(dup2(zero, anew), anew);
	put(master, "line\n");
	assert_reads("line\n");
	/* It is not touched any more. */
	close_pty();
	assert_int_equal(read(anew, &byte, 1), 1);
	unit_close(anew);
	unit_close(zero);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(lines_go_to_reads_in_order),
		UNIT_TEST(destroy_does_not_wait_for_who_lost_the_race),
		TTY_TEST(who_lost_the_race_is_cancelled),
		TTY_TEST(a_write_that_waits_for_room_is_cancelled),
		UNIT_TEST(what_is_written_to_a_stopped_terminal_waits),
		TTY_TEST(a_terminal_that_cannot_be_opened_anew_is_served),
		TTY_TEST(what_is_not_to_be_opened_anew_is_not),
		TTY_TEST(the_end_of_a_number_ends_what_was_opened_anew),
		TTY_TEST(a_number_that_goes_without_another_ends_the_read),
		UNIT_TEST(a_terminal_of_another_session_is_that),
		UNIT_TEST(a_number_that_becomes_another_terminal_is_that),
		UNIT_TEST(the_number_of_what_was_opened_anew_can_be_had),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
