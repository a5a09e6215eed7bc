/* SPDX-License-Identifier: MIT */
/*
 * Terminals: every call on them may block, and another reader may consume their input.
 * The tests use both ends of a pseudoterminal.
 */
#undef NDEBUG
#include <errno.h>
#include <signal.h>

#include "aio/handle.h"
#include "file/test-tty.h"

/* Tests of how much data a read gets */

static void a_read_waits_for_its_line(void **state)
{
	(void)state;
	submit_read(terminal);
	assert_nothing_yet();
	put(master, "half");
	assert_nothing_yet();
	put(master, " a line\n");
	assert_reads("half a line\n");
	/*
	 * Now the input comes before the reads. A read must not get bytes of two lines;
	 * several reads with short buffers get the first line in parts.
	 */
	put(master, "first\nsecond\n");
	submit_read_into(terminal, buffer, 3);
	assert_reads("fir");
	submit_read(terminal);
	assert_reads("st\n");
	submit_read(terminal);
	assert_reads("second\n");
}

static void the_end_character_ends_a_read(void **state)
{
	(void)state;
	submit_read(terminal);
	put(master, "\4");
	assert_int_equal(unit_reap_one(handle), 0);
	/*
	 * Control-D ends one read. After that the terminal can still deliver input,
	 * unlike a pipe at its end of file.
	 */
	submit_read(terminal);
	put(master, "ab\4");
	assert_reads("ab");
	submit_read(terminal);
	assert_nothing_yet();
	put(master, "c\n");
	assert_reads("c\n");
}

static void a_hang_up_ends_what_waits(void **state)
{
	int64_t res;

	(void)state;
	submit_read(terminal);
	assert_nothing_yet();
	unit_close(master);
	master = -1;
	/*
	 * Closing the master ends the read. Depending on when the read is tried, it
	 * gets EIO or, after the hang-up, end of file.
	 */
	res = unit_reap_one(handle);
	assert_true(res == 0 || res == -EIO);
	submit_read(terminal);
	assert_int_equal(unit_reap_one(handle), 0);
	submit_write(terminal, "x", 1);
	assert_int_equal(unit_reap_one(handle), -EIO);
}

static void the_master_reads_to_the_last_close(void **state)
{
	(void)state;
	submit_read(master);
	assert_nothing_yet();
	put(terminal, "out");
	assert_reads("out");
	submit_read(master);
	assert_nothing_yet();
	unit_close(terminal);
	assert_int_equal(unit_reap_one(handle), -EIO);
	/* The closed terminal can be opened again, and then works as before. */
	terminal = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	put(terminal, "more");
	submit_read(master);
	assert_reads("more");
}

static void a_raw_read_waits_for_its_minimum(void **state)
{
	(void)state;
	set_mode(0, 5, 0);
	submit_read(terminal);
	put(master, "ab");
	assert_nothing_yet();
	put(master, "cde");
	assert_reads("abcde");
	/*
	 * VMIN is 5. Two bytes are in the terminal, so a new read must wait for three
	 * more.
	 */
	put(master, "fg");
	submit_read(terminal);
	assert_nothing_yet();
	put(master, "hij");
	assert_reads("fghij");
	set_mode(0, 1, 0);
	submit_read(terminal);
	assert_nothing_yet();
	put(master, "a");
	assert_reads("a");
}

static void a_raw_read_ends_without_bytes_as_it_is_told_to(void **state)
{
	(void)state;
	set_mode(0, 0, 0);
	submit_read(terminal);
	assert_int_equal(unit_reap_one(handle), 0);
	/* VTIME is 1: the read must end after a tenth of a second without input. */
	set_mode(0, 0, 1);
	submit_read(terminal);
	assert_int_equal(unit_reap_one(handle), 0);
	put(master, "ab");
	submit_read(terminal);
	assert_reads("ab");
}

static bool has_event(void *arg)
{
	(void)arg;
	return !uaio_ctx_is_empty(handle);
}

/*
 * With VMIN 0 a read completes without input. poll() does not report that, and the
 * client makes no call. So the library must find out by itself that the read can
 * complete.
 */
static void a_read_without_minimum_ends_without_a_call(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		open_pty(4);
		set_mode(0, 0, (cc_t)(i / 2));
		if (i % 2)
			submit_read(terminal);
		submit_read(terminal);
		unit_await(has_event, NULL);
		assert_int_equal(unit_reap_one(handle), 0);
		if (i % 2)
			assert_int_equal(unit_reap_one(handle), 0);
		close_pty();
	}
}

/*
 * After a hang-up the terminal can be opened again, but reads by the old descriptor
 * return 0.
 */
static int read_what_was_hung_up(void)
{
	int fd;

	signal(SIGHUP, SIG_IGN);
	open_pty(4);
	if (setsid() < 0 || ioctl(terminal, TIOCSCTTY, 0) < 0 || vhangup() < 0)
		return errno == EPERM ? 0 : 1;
	fd = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	put(master, "line\n");
	submit_read(terminal);
	if (unit_reap_one(handle) != 0)
		return 2;
	submit_read(fd);
	assert_reads("line\n");
	return 0;
}

static void a_terminal_that_was_hung_up_is_at_its_end(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(read_what_was_hung_up), 0);
}

/*
 * Writes
 */

enum { MUCH = 100000 };

static void fill(char *bytes)
{
	for (unsigned i = 0; i < MUCH; i++)
		bytes[i] = (char)(i * 7 >> 3);
}

static void write_much(int from, int to)
{
	static char out[MUCH], in[MUCH];
	ssize_t got = 0;

	open_pty(4);
	set_mode(0, 1, 0);
	fill(out);
	submit_write(from ? master : terminal, out, MUCH);
	assert_nothing_yet();
	while (got < MUCH) {
		ssize_t part = read(to ? master : terminal, in + got,
				    (size_t)(MUCH - got));

		assert_true(part > 0);
		got += part;
	}
	assert_int_equal(unit_reap_one(handle), MUCH);
	assert_memory_equal(in, out, MUCH);
	close_pty();
}

static void a_write_waits_for_room_and_is_executed_in_full(void **state)
{
	(void)state;
	write_much(0, 1);
	write_much(1, 0);
}

/* Requests that wait */

static void a_read_that_waits_is_cancelled(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		submit_read(i % 2 ? terminal : master);
		cancel_read();
	}
	/*
	 * The library must not have a request any more that consumes these lines.
	 */
	put(master, "in\n");
	assert_int_equal(read(terminal, buffer, sizeof(buffer)), 3);
	put(terminal, "out");
	assert_int_equal(read(master, buffer, sizeof(buffer)), 3);
}

static void destroy_does_not_wait_for_a_line(void **state)
{
	static char buffers[10][16];

	(void)state;
	open_pty(10);
	for (unsigned i = 0; i < 10; i++)
		submit_read_into(i % 2 ? terminal : master, buffers[i], 16);
	close_pty();
}

/*
 * Another thread has tried these reads, and got EAGAIN. Destroying the context must
 * cancel them at once.
 */
static void destroy_does_not_wait_for_a_read_that_was_tried(void **state)
{
	char buffers[4][16];

	(void)state;
	for (int of_both = 0; of_both < 2; of_both++) {
		open_pty(4);
		for (int i = 0; i < 4; i++) {
			submit_read_into(of_both && i % 2 ? master : terminal,
					 buffers[i], sizeof(buffers[i]));
			pass_by();
		}
		assert_nothing_yet();
		close_pty();
	}
}

/*
 * The reads were tried before they are cancelled. Afterwards no request must be left
 * that consumes the output.
 */
static void a_read_that_was_tried_is_cancelled(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		submit_read(i % 2 ? terminal : master);
		pass_by();
		cancel_read();
	}
	put(terminal, "out");
	assert_int_equal(read(master, buffer, sizeof(buffer)), 3);
}

static void a_closed_number_leaves_a_read_its_terminal(void **state)
{
	int other;

	(void)state;
	for (unsigned i = 0; i < unit_rounds(100); i++) {
		open_pty(4);
		submit_read(terminal);
		if (i % 2)
			pass_by();
		/* Now the descriptor refers to a file that is always ready. */
		other = open("/dev/zero", O_RDONLY | O_CLOEXEC);
		unit_dup2(other, terminal);
		unit_close(other);
		put(master, "in\n");
		assert_reads("in\n");
		close_pty();
	}
}

static void a_poll_tells_of_a_line(void **state)
{
	struct iocb iocb;

	(void)state;
	iocb = unit_iocb(IOCB_CMD_POLL, terminal, (void *)POLLIN, 0, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	put(master, "half");
	assert_nothing_yet();
	put(master, " a line\n");
	assert_int_equal(unit_reap_one(handle), POLLIN);
	assert_int_equal(read(terminal, buffer, sizeof(buffer)), 12);
}

static void the_flags_of_a_terminal_are_left_alone(void **state)
{
	char other[16];
	int flags;

	(void)state;
	open_pty(4);
	flags = fcntl(terminal, F_GETFL);
	submit_read(terminal);
	submit_read_into(master, other, sizeof(other));
	assert_nothing_yet();
	assert_int_equal(fcntl(terminal, F_GETFL), flags);
	assert_int_equal(fcntl(master, F_GETFL), flags);
	put(master, "in\n");
	assert_reads("in\n");
	put(terminal, "out");
	assert_read_into(other, "out");
	close_pty();
	/*
	 * If the client itself has set O_NONBLOCK, a read without input completes with
	 * EAGAIN.
	 */
	open_pty(4);
	assert_int_equal(fcntl(terminal, F_SETFL, flags | O_NONBLOCK), 0);
	submit_read(terminal);
	assert_int_equal(unit_reap_one(handle), -EAGAIN);
	assert_int_equal(fcntl(terminal, F_GETFL), flags | O_NONBLOCK);
	close_pty();
}

static void read_a_pipe(unsigned nr)
{
	int ends[2];
	char byte;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	for (unsigned i = 0; i < nr; i++) {
		submit_read_into(ends[0], &byte, 1);
		assert_int_equal(write(ends[1], "x", 1), 1);
		assert_int_equal(unit_reap_one(handle), 1);
	}
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void a_read_that_lost_the_race_waits_for_the_next_line(void **state)
{
	(void)state;
	for (int of_master = 0; of_master < 2; of_master++) {
		open_pty(4);
		lose_the_race(of_master);
		assert_nothing_yet();
		put(of_master ? terminal : master, "second\n");
		assert_reads("second\n");
		close_pty();
	}
}

static void a_read_that_lost_the_race_blocks_no_other(void **state)
{
	char other[16];

	(void)state;
	for (int of_master = 0; of_master < 2; of_master++) {
		open_pty(4);
		lose_the_race(of_master);
		read_a_pipe(10);
		/*
		 * The first read waits, because another reader has consumed its line.
		 * Meanwhile a read from the pseudoterminal's other end must complete,
		 * and so must a write to this end.
		 */
		submit_read_into(of_master ? terminal : master, other,
				 sizeof(other));
		put(of_master ? master : terminal, "across\n");
		assert_read_into(other, "across\n");
		submit_write(of_master ? master : terminal, "back\n", 5);
		assert_int_equal(unit_reap_one(handle), 5);
		put(of_master ? terminal : master, "second\n");
		assert_reads("second\n");
		close_pty();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TTY_TEST(a_read_waits_for_its_line),
		TTY_TEST(the_end_character_ends_a_read),
		TTY_TEST(a_hang_up_ends_what_waits),
		TTY_TEST(the_master_reads_to_the_last_close),
		TTY_TEST(a_raw_read_waits_for_its_minimum),
		TTY_TEST(a_raw_read_ends_without_bytes_as_it_is_told_to),
		UNIT_TEST(a_read_without_minimum_ends_without_a_call),
		UNIT_TEST(a_terminal_that_was_hung_up_is_at_its_end),
		UNIT_TEST(a_write_waits_for_room_and_is_executed_in_full),
		TTY_TEST(a_read_that_waits_is_cancelled),
		UNIT_TEST(destroy_does_not_wait_for_a_line),
		UNIT_TEST(destroy_does_not_wait_for_a_read_that_was_tried),
		TTY_TEST(a_read_that_was_tried_is_cancelled),
		UNIT_TEST(a_closed_number_leaves_a_read_its_terminal),
		TTY_TEST(a_poll_tells_of_a_line),
		UNIT_TEST(the_flags_of_a_terminal_are_left_alone),
		UNIT_TEST(a_read_that_lost_the_race_waits_for_the_next_line),
		UNIT_TEST(a_read_that_lost_the_race_blocks_no_other),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
