/* SPDX-License-Identifier: MIT */
/*
 * Case: a program closes or replaces a descriptor while the file system answers no
 * request on its file. Closing must not wait, and no request may touch the next file at
 * that descriptor.
 */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host.h"
#include "ways.h"

enum { NR_HELD = 16, HELD_BLOCK = 4096 };

static char *held_buffers(char fill)
{
	void *memory;

	REQUIRE(!posix_memalign(&memory, HELD_BLOCK, NR_HELD * HELD_BLOCK));
	memset(memory, fill, NR_HELD * HELD_BLOCK);
	return memory;
}

static int held_file(void)
{
	char *blocks = held_buffers('o');
	int fd =
		open("slow/held", O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644);

	REQUIRE(fd >= 0);
	REQUIRE(write(fd, blocks, NR_HELD * HELD_BLOCK) ==
		NR_HELD * HELD_BLOCK);
	REQUIRE(close(fd) == 0);
	free(blocks);
	fd = open("slow/held", O_RDWR | O_DIRECT | O_CLOEXEC);
	REQUIRE(fd >= 0);
	return fd;
}

static unsigned submit_held(aio_context_t ctx, int opcode, char *blocks)
{
	unsigned nr = opcode == IOCB_CMD_FSYNC ? 1 : NR_HELD;

	for (unsigned i = 0; i < nr; i++) {
		struct iocb iocb =
			opcode == IOCB_CMD_FSYNC
				? host_iocb(opcode, FAR, NULL, 0, 0)
				: host_iocb(opcode, FAR,
					    blocks + (size_t)i * HELD_BLOCK,
					    HELD_BLOCK, i * HELD_BLOCK);

		REQUIRE(host_submit(ctx, &iocb) == 1);
	}
	return nr;
}

static void reap_held(aio_context_t ctx, unsigned nr, long res)
{
	struct io_event event;

	for (unsigned i = 0; i < nr; i++)
		REQUIRE(host_reap(ctx, 1, &event) == 1 && event.res == res);
}

static void check_held(char expected)
{
	char *seen = held_buffers(0), *same = held_buffers(expected);
	int fd = open("slow/held", O_RDONLY | O_CLOEXEC);
	size_t bytes = (size_t)NR_HELD * HELD_BLOCK;

	REQUIRE(fd >= 0 && read(fd, seen, bytes + 1) == (ssize_t)bytes);
	REQUIRE(!memcmp(seen, same, bytes) && close(fd) == 0);
	free(seen);
	free(same);
}

static void replace_held(struct slowfs *fs, enum slowfs_op op, int opcode,
			 const struct host_way *way)
{
	char *blocks = held_buffers('w');
	int file = held_file(), other = host_nameless();
	aio_context_t ctx = host_context(NR_HELD);
	unsigned nr_done, nr;

	REQUIRE(write(other, "other", 5) == 5);
	host_move(file, FAR);
	nr_done = slowfs_nr_done(fs, op);
	slowfs_hold(fs, op);
	nr = submit_held(ctx, opcode, blocks);
	way->replace(FAR, other);
	/*
	 * The descriptor has been replaced before the file system has answered any
	 * request. All requests must still arrive at the file system.
	 */
	REQUIRE(slowfs_nr_done(fs, op) == nr_done);
	slowfs_await(fs, op, nr);
	host_check_text(FAR, "other");
	slowfs_release(fs, op);
	reap_held(ctx, nr, opcode == IOCB_CMD_FSYNC ? 0 : HELD_BLOCK);
	if (op == SLOWFS_READ)
		REQUIRE(blocks[0] == 'o' &&
			blocks[NR_HELD * HELD_BLOCK - 1] == 'o');
	check_held(op == SLOWFS_WRITE ? 'w' : 'o');
	host_check_text(other, "other");
	REQUIRE(close(FAR) == 0 && close(other) == 0);
	REQUIRE(host_destroy(ctx) == 0);
	free(blocks);
}

/*
 * O_APPEND is set and cleared after the submission: the writes must keep their
 * positions. Closing the descriptor must not wait for the writes.
 */
static void append_held(struct slowfs *fs)
{
	char *blocks = held_buffers('w');
	aio_context_t ctx = host_context(NR_HELD);

	host_move(held_file(), FAR);
	slowfs_hold(fs, SLOWFS_WRITE);
	(void)submit_held(ctx, IOCB_CMD_PWRITE, blocks);
	REQUIRE(fcntl(FAR, F_SETFL, O_APPEND | O_DIRECT) == 0);
	REQUIRE(fcntl(FAR, F_SETFL, O_DIRECT) == 0);
	slowfs_await(fs, SLOWFS_WRITE, NR_HELD);
	REQUIRE(close(FAR) == 0);
	slowfs_release(fs, SLOWFS_WRITE);
	reap_held(ctx, NR_HELD, HELD_BLOCK);
	check_held('w');
	REQUIRE(host_destroy(ctx) == 0);
	free(blocks);
}

static int flags_by_fcntl(int fd, int flags)
{
	return fcntl(fd, F_SETFL, flags);
}

static int flags_by_number(int fd, int flags)
{
	return (int)syscall(SYS_fcntl, fd, F_SETFL, flags);
}

static void *release_later(void *arg)
{
	host_await_sleep(getpid());
	slowfs_release(arg, SLOWFS_WRITE);
	return NULL;
}

/*
 * O_APPEND is cleared while the second of two writes waits for the first. Both must go
 * to the end of the file, so fcntl() waits for them. A change of O_NONBLOCK does not
 * wait.
 */
static void append_cleared(struct slowfs *fs, int (*set_flags)(int, int))
{
	aio_context_t ctx = host_context(2);
	struct io_event event;
	struct iocb iocb;
	pthread_t thread;
	int fd = open("slow/append",
		      O_CREAT | O_TRUNC | O_RDWR | O_APPEND | O_CLOEXEC, 0644);

	REQUIRE(fd >= 0 && write(fd, "head", 4) == 4);
	slowfs_hold(fs, SLOWFS_WRITE);
	for (unsigned i = 0; i < 2; i++) {
		iocb = host_iocb(IOCB_CMD_PWRITE, fd, &"ab"[i], 1, 0);
		REQUIRE(host_submit(ctx, &iocb) == 1);
	}
	REQUIRE(set_flags(fd, O_APPEND | O_NONBLOCK) == 0);
	REQUIRE(!pthread_create(&thread, NULL, release_later, fs));
	REQUIRE(set_flags(fd, 0) == 0);
	REQUIRE(!pthread_join(thread, NULL));
	for (unsigned i = 0; i < 2; i++)
		REQUIRE(host_reap(ctx, 1, &event) == 1 && event.res == 1);
	host_check_text(fd, "headab");
	REQUIRE(close(fd) == 0 && host_destroy(ctx) == 0);
}

void close_while_held(void)
{
	static const struct {
		enum slowfs_op op;
		int opcode;
	} ops[] = {
		{ SLOWFS_READ, IOCB_CMD_PREAD },
		{ SLOWFS_WRITE, IOCB_CMD_PWRITE },
		{ SLOWFS_SYNC, IOCB_CMD_FSYNC },
	};
	struct slowfs *fs = host_slow_to_close();

	/*
	 * close() need not wait for a worker's system call that has already looked up
	 * the descriptor. The library learns from /proc that the worker sleeps in this
	 * call. If /proc does not show that, close() waits: skip the case.
	 */
	if (fs)
		host_need_sleeps();

	for (const struct host_way *way = host_ways; way->name; way++)
		for (size_t j = 0; j < NR_ELEMENTS(ops); j++)
			replace_held(fs, ops[j].op, ops[j].opcode, way);
	append_held(fs);
	append_cleared(fs, flags_by_fcntl);
	append_cleared(fs, flags_by_number);
	slowfs_stop(fs);
}
