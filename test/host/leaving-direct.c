/* SPDX-License-Identifier: MIT */
/*
 * Case: each way to end a process, or replace its program, while workers execute a
 * large direct request in segments. A write must be finished; a read is abandoned.
 */
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 4 << 20, NR_SEGMENTS = 16, AT_ONCE = 4, STATUS = 42 };

#define PATH "slow/large"

static char data[BYTES] __attribute__((aligned(4096)));

static void by_exit(void)
{
	exit(STATUS);
}

static void by_underscore_exit(void)
{
	_exit(STATUS);
}

static void by_quick_exit(void)
{
	quick_exit(STATUS);
}

static void by_exec(void)
{
	execl("/bin/sh", "sh", "-c", "exit 42", (char *)NULL);
}

static struct attempt {
	void (*leave)(void);
	int opcode;
} attempt;

static int begin_and_leave(void *arg)
{
	const struct attempt *this = arg;
	aio_context_t ctx = host_context(1);
	int fd = open(PATH, O_RDWR | O_DIRECT | O_CLOEXEC);
	struct iocb iocb = host_iocb(this->opcode, fd, data, BYTES, 0);

	REQUIRE(fd >= 0);
	memset(data, 'n', BYTES);
	REQUIRE(host_submit(ctx, &iocb) == 1);
	host_step(1);
	host_await_step(2);
	this->leave();
	return 1;
}

static void fill_file(void)
{
	int fd = open(PATH, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	REQUIRE(fd >= 0);
	memset(data, 'o', BYTES);
	REQUIRE(pwrite(fd, data, BYTES, 0) == BYTES);
	REQUIRE(close(fd) == 0);
}

static void check_file(char expected)
{
	int fd = open(PATH, O_RDONLY | O_CLOEXEC);

	REQUIRE(fd >= 0);
	REQUIRE(pread(fd, data, BYTES, 0) == BYTES);
	for (unsigned i = 0; i < BYTES; i++)
		REQUIRE(data[i] == expected);
	REQUIRE(close(fd) == 0);
}

static pid_t start(struct slowfs *fs, void (*leave)(void), int opcode)
{
	bool is_read = opcode == IOCB_CMD_PREAD;
	enum slowfs_op op = is_read ? SLOWFS_READ : SLOWFS_WRITE;
	pid_t pid;

	attempt = (struct attempt){ leave, opcode };
	slowfs_hold(fs, op);
	host_step(0);
	pid = host_start(begin_and_leave, &attempt);
	host_await_step(1);
	/*
	 * A read has AT_ONCE segments in flight. A write may have only one: before
	 * Linux 6.2 FUSE executes direct writes of one file one after another.
	 */
	slowfs_await(fs, op, is_read ? AT_ONCE : 1);
	host_step(2);
	return pid;
}

static void leave_writing(struct slowfs *fs, void (*leave)(void))
{
	unsigned nr_done;
	pid_t pid;

	fill_file();
	nr_done = slowfs_nr_done(fs, SLOWFS_WRITE);
	pid = start(fs, leave, IOCB_CMD_PWRITE);
	host_await_sleep(pid);
	slowfs_release(fs, SLOWFS_WRITE);
	REQUIRE(host_finish(pid) == STATUS);
	REQUIRE(slowfs_nr_done(fs, SLOWFS_WRITE) == nr_done + NR_SEGMENTS);
	check_file('n');
}

static void leave_reading(struct slowfs *fs, void (*leave)(void))
{
	unsigned nr_done;
	pid_t pid;

	fill_file();
	nr_done = slowfs_nr_done(fs, SLOWFS_READ);
	pid = start(fs, leave, IOCB_CMD_PREAD);
	REQUIRE(host_finish(pid) == STATUS);
	/*
	 * The file system has not answered any read, so the process ended without
	 * waiting for the reads.
	 */
	REQUIRE(slowfs_nr_done(fs, SLOWFS_READ) == nr_done);
	slowfs_release(fs, SLOWFS_READ);
	check_file('o');
}

void leaving_in_segments(void)
{
	static void (*const ways[])(void) = { by_exit, by_underscore_exit,
					      by_quick_exit, by_exec };
	struct slowfs *fs = host_slow();

	for (size_t i = 0; i < NR_ELEMENTS(ways); i++) {
		leave_writing(fs, ways[i]);
		leave_reading(fs, ways[i]);
	}
	slowfs_stop(fs);
}
