/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "issue/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sleep.h"
#include "options/config.h"
#include "flow/late.h"
#include "flow/test-chain.h"

enum { NR = 64 };

/* A delay so long that no test waits for its end. */
#define FOR_EVER "3600s"

static void have(const char *text)
{
	char expected[96];

	uaio_faults = (struct uaio_faults){ .nr = 0 };
	uaio_config.has_faults = uaio_config.is_examined = *text;
	if (*text)
		assert_int_equal(uaio_faults_parse(text, &uaio_faults, expected,
						   sizeof(expected)),
				 0);
	uaio_fault_init();
}

static int setup(void **state)
{
	int ret = unit_setup(state);

	handle = unit_context(NR);
	return ret;
}

static int teardown(void **state)
{
	have("");
	unit_destroy(handle);
	return unit_teardown(state);
}

static int64_t result_of(struct uaio_sqe sqe)
{
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	return unit_reap_one(handle);
}

static struct uaio_sqe read_of(int fd, char *buffer, uint64_t len)
{
	return (struct uaio_sqe){
		.op = UAIO_OP_READ, .fd = fd, .buf = buffer, .len = len
	};
}

static struct uaio_sqe write_of(int fd, char *buffer, uint64_t len)
{
	return (struct uaio_sqe){
		.op = UAIO_OP_WRITE, .fd = fd, .buf = buffer, .len = len
	};
}

/* Which requests get a fault */

/*
 * Submit NR no-ops.
 * Return: bit i is set if the i-th no-op, counted from 0, gets the fault.
 */
static uint64_t pattern_of(const char *text)
{
	uint64_t bits = 0;

	have(text);
	for (unsigned i = 0; i < NR; i++) {
		int64_t res = result_of(nop(0));

		assert_true(res == 0 || res == -EIO);
		bits |= (uint64_t)(res == -EIO) << i;
	}
	return bits;
}

static void conditions_choose_requests_by_their_number(void **state)
{
	(void)state;
	assert_true(pattern_of("nop:eio") == UINT64_MAX);
	assert_true(pattern_of("nop:eio@after=3") == UINT64_MAX << 3);
	assert_true(pattern_of("nop:eio@after=3,count=2") == 3u << 3);
	assert_true(pattern_of("nop:eio@every=16") == 0x8000800080008000);
	assert_true(pattern_of("nop:eio@every=16,after=1,count=3") ==
		    0x0001000100010000);
	assert_true(pattern_of("nop:eio@only=1+3+64") ==
		    (5 | UINT64_C(1) << 63));
	assert_true(pattern_of("nop:eio@only=5-8+2,count=4") == 0x72);
	assert_true(pattern_of("nop:eio@only=1 nop:eio@only=2+4") == 0xb);
	assert_true(pattern_of("nop:eio@min=1") == 0);
	assert_true(pattern_of("nop:eio@path=*") == 0);
	assert_true(pattern_of("read:eio;fsync:eio") == 0);
	/* Each fault also counts requests that get another fault (fault.h, I1). */
	assert_true(pattern_of("nop:eio@count=1 nop:eio@after=1,count=1") == 3);
}

static void the_seed_decides_and_nothing_else(void **state)
{
	uint64_t first, other;
	unsigned nr;

	(void)state;
	first = pattern_of("nop:eio@p=0.5,seed=1");
	assert_true(pattern_of("nop:eio@p=0.5,seed=1") == first);
	other = pattern_of("nop:eio@p=0.5,seed=2");
	assert_true(other != first);
	/* The seeds are fixed, so each run of the test gets the same numbers. */
	nr = (unsigned)__builtin_popcountll(first);
	assert_true(nr > NR / 4 && nr < NR * 3 / 4);
	assert_true(pattern_of("nop:eio@p=0.5") != first);
	assert_true(pattern_of("nop:eio@p=0.000000001,seed=1") == 0);
	assert_true(pattern_of("nop:eio@p=1,seed=1") == UINT64_MAX);
	/* With only= and p=, p= selects some of the requests that only= names. */
	assert_true(pattern_of("nop:eio@p=0.5,seed=1,only=1-32") ==
		    (first & UINT32_MAX));
	/* Of the requests that p= selects, only the first gets the fault: count=1. */
	assert_true(pattern_of("nop:eio@p=0.5,seed=1,count=1") ==
		    (first & -first));
}

static void a_file_is_known_by_its_path(void **state)
{
	int fd = unit_file(true), other;
	char buffer[SIZE], path[64] = { 0 }, spec[96];

	(void)state;
	(void)snprintf(spec, sizeof(spec), "/proc/self/fd/%d", fd);
	assert_true(readlink(spec, path, sizeof(path) - 1) > 0);
	other = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	have("any:eio@path=/dev/z*o");
	assert_int_equal(result_of(read_of(other, buffer, SIZE)), -EIO);
	assert_int_equal(result_of(read_of(fd, buffer, SIZE)), 0);
	(void)snprintf(spec, sizeof(spec), "any:eio@path=%.*s*",
		       (int)strcspn(path, " "), path);
	have(spec);
	assert_int_equal(result_of(read_of(fd, buffer, SIZE)), -EIO);
	assert_int_equal(result_of(read_of(other, buffer, SIZE)), SIZE);
	unit_close(fd);
	unit_close(other);
}

/* The log of changes that `uaio check` keeps */

static void changes_are_told_only_to_who_checks(void **state)
{
	char folder[] = "/tmp/uaio-fault-XXXXXX", name[64], told[1024] = "";
	char path[64] = "", link[32], expected[1024], buffer[SIZE];
	int fd = unit_numbered_file(true, 1), file;
	int64_t res[4];

	(void)state;
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	assert_true(readlink(link, path, sizeof(path) - 1) > 0);
	assert_non_null(mkdtemp(folder));
	(void)snprintf(name, sizeof(name), "%s/%d.changes", folder, getpid());
	for (unsigned is_told = 0; is_told < 2; is_told++) {
		have("read:short@only=2 nop:delay=1us@count=1 read:eio@only=4");
		strcpy(uaio_check_directory, is_told ? folder : "");
		for (unsigned i = 0; i < NR_ELEMENTS(res); i++)
			res[i] = result_of(read_of(fd, buffer, SIZE));
		(void)result_of(nop(0));
		assert_int_equal(access(name, F_OK), is_told ? 0 : -1);
	}
	uaio_check_directory[0] = '\0';
	file = open(name, O_RDONLY | O_CLOEXEC);
	assert_true(file >= 0 && read(file, told, sizeof(told) - 1) > 0);
	close(file);
	(void)unlink(name);
	(void)rmdir(folder);
	(void)snprintf(expected, sizeof(expected),
		       "change\t1\t2\tshort\t%d of %d\tpread\t%d\t%s\n"
		       "change\t3\t4\terror\tEIO\tpread\t%d\t%s\n"
		       "change\t2\t1\tdelay\t1000\tnop\t-\t-\n",
		       (int)res[1], SIZE, fd, path, fd, path);
	assert_string_equal(told, expected);
	unit_close(fd);
}

/* Errors */

static void an_error_takes_the_place_of_the_call(void **state)
{
	int fd = unit_numbered_file(true, 1);
	char buffer[SIZE], zeros[SIZE] = { 0 };
	struct uaio_sqe sqe;

	(void)state;
	have("read:eio write:enospc sync:EDQUOT");
	for (int is_async = 0; is_async < 2; is_async++) {
		memset(buffer, 'x', SIZE);
		sqe = read_of(fd, buffer, SIZE);
		sqe.is_async = is_async;
		assert_int_equal(result_of(sqe), -EIO);
		assert_int_equal(buffer[0], 'x');
		sqe = write_of(fd, buffer, SIZE);
		sqe.is_async = is_async;
		assert_int_equal(result_of(sqe), -ENOSPC);
		assert_int_equal(pread(fd, buffer, SIZE, 0), SIZE);
		assert_memory_equal(buffer, zeros, SIZE);
		sqe = (struct uaio_sqe){ .op = UAIO_OP_FSYNC, .fd = fd };
		sqe.is_async = is_async;
		assert_int_equal(result_of(sqe), -EDQUOT);
	}
	unit_close(fd);
}

static void a_request_that_would_wait_ends_with_its_error(void **state)
{
	int pipes[2];
	char buffer[SIZE];
	struct uaio_sqe poll_in = { .op = UAIO_OP_POLL, .events = POLLIN };

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	have("read:eio poll:ebadf");
	poll_in.fd = pipes[0];
	assert_int_equal(result_of(read_of(pipes[0], buffer, SIZE)), -EIO);
	assert_int_equal(result_of(poll_in), -EBADF);
	poll_in.is_multishot = true;
	assert_int_equal(result_of(poll_in), -EBADF);
	unit_close(pipes[0]);
	unit_close(pipes[1]);
}

static void what_is_refused_is_not_counted(void **state)
{
	int fd = unit_numbered_file(true, 1);
	struct uaio_sqe sqe = read_of(fd, NULL, SIZE);

	(void)state;
	have("read:eio@count=1");
	sqe.off = -2;
	assert_int_equal(unit_submit_sqe(handle, &sqe), -EINVAL);
	assert_int_equal(result_of(read_of(fd, bytes[0], SIZE)), -EIO);
	assert_int_equal(result_of(read_of(fd, bytes[0], SIZE)), SIZE);
	unit_close(fd);
}

/* Short transfers */

/*
 * Check a short read of `res` bytes, a multiple of `unit`: the first `res` bytes of the
 * buffer are read, the others are unchanged.
 */
static void assert_short_read(struct uaio_sqe sqe, uint64_t unit)
{
	const char *memory = sqe.buf;
	int64_t res = result_of(sqe);

	assert_true(res > 0 && res < (int64_t)sqe.len &&
		    res % (int64_t)unit == 0);
	for (int64_t i = 0; i < (int64_t)sqe.len; i++)
		assert_int_equal(memory[i],
				 i < res ? (char)(i / UNIT_KEY_BYTES) : 'x');
}

static void a_short_read_is_part_of_the_read(void **state)
{
	static char buffer[4 * SIZE];
	int fd = unit_numbered_file(true, 4);

	(void)state;
	have("read:short");
	for (int i = 0; i < 2 * NR; i++) {
		struct uaio_sqe sqe = read_of(fd, buffer, sizeof(buffer));

		memset(buffer, 'x', sizeof(buffer));
		sqe.is_async = i & 1;
		assert_short_read(sqe, 1);
	}
	/* A read of one byte cannot be short. */
	assert_int_equal(result_of(read_of(fd, buffer, 1)), 1);
	unit_close(fd);
}

static void vectors_are_cut_where_the_client_sees_no_change(void **state)
{
	static char buffer[4 * SIZE];
	const struct iovec was[3] = { { buffer, SIZE },
				      { NULL, 0 },
				      { buffer + SIZE, 3 * SIZE } };
	struct iovec iov[3];
	int fd = unit_numbered_file(true, 4);
	bool seen[2] = { false };

	(void)state;
	have("read:short");
	for (int i = 0; i < NR; i++) {
		struct uaio_sqe sqe = { .op = UAIO_OP_READV,
					.fd = fd,
					.iov = iov,
					.len = 3,
					.is_async = i & 1 };
		int64_t res;

		memcpy(iov, was, sizeof(iov));
		res = result_of(sqe);
		assert_true(res > 0 && res <= SIZE);
		seen[res == SIZE] = true;
		assert_memory_equal(iov, was, sizeof(iov));
	}
	/* Some reads were cut inside the first vector, others after it. */
	assert_true(seen[0] && seen[1]);
	unit_close(fd);
}

static void a_short_write_leaves_the_rest(void **state)
{
	static char buffer[4 * SIZE], file[4 * SIZE];
	int fd = unit_numbered_file(true, 4);

	(void)state;
	have("write:short");
	memset(buffer, 'w', sizeof(buffer));
	for (int i = 0; i < NR; i++) {
		struct uaio_sqe sqe = write_of(fd, buffer, sizeof(buffer));
		int64_t res;

		memset(file, 0, sizeof(file));
		assert_int_equal(pwrite(fd, file, sizeof(file), 0),
				 sizeof(file));
		sqe.is_async = i & 1;
		res = result_of(sqe);
		assert_true(res > 0 && res < (int64_t)sizeof(buffer));
		assert_int_equal(pread(fd, file, sizeof(file), 0),
				 sizeof(file));
		assert_true(file[res - 1] == 'w' && file[res] == 0);
	}
	unit_close(fd);
}

static void direct_requests_are_cut_to_whole_blocks(void **state)
{
	enum { BLOCK = 4096, LEN = 16 * BLOCK };
	static char buffer[LEN] __attribute__((aligned(BLOCK)));
	int fd = unit_file(false);

	(void)state;
	assert_int_equal(pwrite(fd, buffer, LEN, 0), LEN);
	assert_int_equal(fcntl(fd, F_SETFL, O_DIRECT), 0);
	have("read:short write:short");
	for (int i = 0; i < NR; i++) {
		int64_t res = result_of(i & 1 ? read_of(fd, buffer, LEN)
					      : write_of(fd, buffer, LEN));

		assert_true(res > 0 && res < LEN && res % 512 == 0);
	}
	unit_close(fd);
}

static void only_streams_of_bytes_are_cut(void **state)
{
	int pipes[2], seqs[2], socks[2];
	char buffer[SIZE] = { 0 };
	int64_t res;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, seqs), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, socks), 0);
	have("any:short");
	/* Writes of at most PIPE_BUF bytes to a pipe, and messages, are never short. */
	assert_int_equal(result_of(write_of(pipes[1], buffer, SIZE)), SIZE);
	res = result_of(read_of(pipes[0], buffer, SIZE));
	assert_true(res > 0 && res < SIZE);
	assert_int_equal(result_of(write_of(seqs[1], buffer, SIZE)), SIZE);
	assert_int_equal(result_of(read_of(seqs[0], buffer, SIZE)), SIZE);
	res = result_of(write_of(socks[1], buffer, SIZE));
	assert_true(res > 0 && res < SIZE);
	for (int i = 0; i < 2; i++) {
		unit_close(pipes[i]);
		unit_close(seqs[i]);
		unit_close(socks[i]);
	}
}

/* Late completions */

static void a_delayed_request_ends_no_sooner(void **state)
{
	const int64_t delay_ns = 5000000;
	int fd = unit_numbered_file(true, 1), pipes[2];

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	have("any:delay=5ms nop:delay=5ms");
	for (int i = 0; i < 4; i++) {
		struct uaio_sqe sqe = read_of(fd, bytes[i], SIZE);
		int64_t start = uaio_now_ns();

		sqe.is_async = i == 1;
		if (i == 2)
			sqe = nop(0);
		if (i == 3)
			sqe.fd = pipes[0];
		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
		if (i == 3)
			assert_int_equal(write(pipes[1], bytes[7], SIZE), SIZE);
		assert_int_equal(unit_reap_one(handle), i == 2 ? 0 : SIZE);
		assert_true(uaio_now_ns() - start >= delay_ns);
	}
	unit_close(fd);
	unit_close(pipes[0]);
	unit_close(pipes[1]);
}

/* While its completion is delayed, a request keeps neither its file nor a thread. */
static void a_late_request_keeps_only_its_completion(void **state)
{
	int fd = unit_numbered_file(true, 1);
	char buffer[SIZE];

	(void)state;
	have("read:delay=" FOR_EVER);
	for (int i = 0; i < 8; i++) {
		struct uaio_sqe sqe = read_of(fd, bytes[i], SIZE);

		sqe.data = sqe.key = (uint64_t)i + 1;
		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
		/* The system call has returned, so the request cannot be cancelled. */
		assert_int_equal(cancel((uint64_t)i + 1), -EALREADY);
	}
	have("");
	assert_int_equal(result_of(write_of(fd, buffer, SIZE)), SIZE);
	expect_nothing();
	/* Neither closing the file nor destroying the context waits for the delays. */
	unit_close(fd);
}

static void a_late_write_has_been_made(void **state)
{
	int fd = unit_numbered_file(true, 1);
	char buffer[SIZE], ws[SIZE];

	(void)state;
	memset(ws, 'w', SIZE);
	have("write:delay=" FOR_EVER);
	for (int is_async = 0; is_async < 2; is_async++) {
		struct uaio_sqe sqe = write_of(fd, ws, SIZE);

		ws[0] = (char)is_async;
		sqe.is_async = is_async;
		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
		/*
		 * A read of the file waits until the write's system call has returned,
		 * but not for the write's delayed completion.
		 */
		assert_int_equal(result_of(read_of(fd, buffer, SIZE)), SIZE);
		assert_memory_equal(buffer, ws, SIZE);
	}
	unit_close(fd);
}

static void the_end_of_a_context_ends_what_is_late(void **state)
{
	int fd = unit_numbered_file(true, 1);
	uint64_t own = unit_context(NR);
	struct uaio_sqe sqe = read_of(fd, bytes[0], SIZE);

	(void)state;
	have("read:delay=" FOR_EVER);
	for (unsigned i = 0; i < NR; i++) {
		sqe.is_async = i & 1;
		assert_int_equal(unit_submit_sqe(own, &sqe), 0);
	}
	unit_destroy(own);
	unit_close(fd);
}

static void completions_come_in_another_order(void **state)
{
	struct io_event events[NR];
	unsigned nr_moved = 0;

	(void)state;
	have("nop:reorder");
	/*
	 * Repeat if all events came in order, which may happen by chance if the submitting
	 * thread is preempted.
	 */
	while (!nr_moved) {
		uint64_t seen = 0;

		for (unsigned i = 0; i < NR; i++) {
			struct uaio_sqe sqe = nop(0);

			sqe.data = i;
			assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
		}
		assert_int_equal(unit_reap(handle, NR, events), NR);
		for (unsigned i = 0; i < NR; i++) {
			nr_moved += events[i].data != i;
			seen |= UINT64_C(1) << events[i].data;
		}
		assert_true(seen == UINT64_MAX);
	}
}

static void links_and_drains_hold_whatever_is_late(void **state)
{
	int fd = unit_numbered_file(true, 2);

	(void)state;
	for (unsigned i = 0; i < unit_rounds(50); i++) {
		have("any:reorder=100us nop:reorder=100us");
		SUBMIT(rw(UAIO_OP_WRITE, fd, SIZE, UAIO_LINK), nop(UAIO_LINK),
		       rw(UAIO_OP_FSYNC, fd, 0, UAIO_LINK),
		       rw(UAIO_OP_READ, fd, SIZE, UAIO_LINK_HARD), nop(0),
		       nop(UAIO_DRAIN), nop(UAIO_DRAIN));
		EXPECT({ 1, SIZE }, { 2, 0 }, { 3, 0 }, { 4, SIZE }, { 5, 0 },
		       { 6, 0 }, { 7, 0 });
	}
	unit_close(fd);
}

static void a_fault_breaks_a_chain_as_its_result_would(void **state)
{
	int fd = unit_numbered_file(true, 2);

	(void)state;
	have("read:eio@count=1 read:delay=1us");
	SUBMIT(rw(UAIO_OP_READ, fd, SIZE, UAIO_LINK), nop(0));
	EXPECT({ 1, -EIO }, { 2, -ECANCELED });
	SUBMIT(rw(UAIO_OP_READ, fd, SIZE, UAIO_LINK), nop(0));
	EXPECT({ 1, SIZE }, { 2, 0 });
	/* A read of two bytes is shortened to one byte. */
	have("read:short");
	SUBMIT(rw(UAIO_OP_READ, fd, 2, UAIO_LINK), nop(0));
	EXPECT({ 1, 1 }, { 2, -ECANCELED });
	have("read:short read:delay=1us");
	SUBMIT(rw(UAIO_OP_READ, fd, 2, UAIO_LINK), nop(0));
	EXPECT({ 1, 1 }, { 2, -ECANCELED });
	SUBMIT(rw(UAIO_OP_READ, fd, 2, UAIO_LINK_HARD), nop(0));
	EXPECT({ 1, 1 }, { 2, 0 });
	unit_close(fd);
}

/* All faults together */

static long submit_many(void *arg)
{
	const int *fds = arg;
	uint64_t own = unit_context(NR);
	unsigned nr_bad = 0;

	for (unsigned round = 0; round < unit_rounds(60); round++) {
		struct io_event events[NR];
		static _Thread_local char memory[NR][SIZE];
		uint64_t seen = 0;

		for (unsigned i = 0; i < NR; i++) {
			struct uaio_sqe sqe =
				read_of(fds[i % 2], memory[i], SIZE);

			sqe.op = i % 4 < 2 ? UAIO_OP_READ : UAIO_OP_WRITE;
			sqe.data = sqe.key = i;
			sqe.is_async = i % 8 == 5;
			nr_bad += unit_submit_sqe(own, &sqe) != 0;
		}
		for (long nr = 0; nr < NR;)
			nr += unit_reap(own, 1, events + nr);
		for (unsigned i = 0; i < NR; i++) {
			int64_t res = (int64_t)events[i].res;

			seen |= UINT64_C(1) << events[i].data;
			nr_bad += res != -EIO && (res <= 0 || res > SIZE);
		}
		nr_bad += seen != UINT64_MAX;
	}
	unit_destroy(own);
	return nr_bad;
}

static void every_request_ends_once_whatever_it_has(void **state)
{
	int fds[2] = { unit_numbered_file(true, 1),
		       unit_numbered_file(false, 1) };
	struct unit_thread threads[3];

	(void)state;
	have("any:eio@p=0.1 any:short@p=0.3 any:delay=20us@p=0.3 "
	     "any:reorder=50us@p=0.3");
	for (unsigned i = 0; i < NR_ELEMENTS(threads); i++)
		unit_thread_start(&threads[i], submit_many, fds);
	for (unsigned i = 0; i < NR_ELEMENTS(threads); i++)
		assert_int_equal(unit_thread_join(&threads[i]), 0);
	unit_close(fds[0]);
	unit_close(fds[1]);
}

#define FAULT_TEST(function) \
	cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAULT_TEST(conditions_choose_requests_by_their_number),
		FAULT_TEST(the_seed_decides_and_nothing_else),
		FAULT_TEST(a_file_is_known_by_its_path),
		FAULT_TEST(changes_are_told_only_to_who_checks),
		FAULT_TEST(an_error_takes_the_place_of_the_call),
		FAULT_TEST(a_request_that_would_wait_ends_with_its_error),
		FAULT_TEST(what_is_refused_is_not_counted),
		FAULT_TEST(a_short_read_is_part_of_the_read),
		FAULT_TEST(vectors_are_cut_where_the_client_sees_no_change),
		FAULT_TEST(a_short_write_leaves_the_rest),
		FAULT_TEST(direct_requests_are_cut_to_whole_blocks),
		FAULT_TEST(only_streams_of_bytes_are_cut),
		FAULT_TEST(a_delayed_request_ends_no_sooner),
		FAULT_TEST(a_late_request_keeps_only_its_completion),
		FAULT_TEST(a_late_write_has_been_made),
		FAULT_TEST(the_end_of_a_context_ends_what_is_late),
		FAULT_TEST(completions_come_in_another_order),
		FAULT_TEST(links_and_drains_hold_whatever_is_late),
		FAULT_TEST(a_fault_breaks_a_chain_as_its_result_would),
		FAULT_TEST(every_request_ends_once_whatever_it_has),
	};

	return cmocka_run_group_tests_name("fault", tests, unit_engine, NULL);
}
