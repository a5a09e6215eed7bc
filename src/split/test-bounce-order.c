/* SPDX-License-Identifier: MIT */
/*
 * Tests misaligned requests with --bounce: their order and their failures.
 *
 * The file is in memory. Hooks for system calls make it look as if it had been opened
 * with O_DIRECT, with blocks of UNIT_KEY_BYTES, and refuse misaligned calls.
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "options/config.h"
#include "proc/entry.h"
#include "aio/handle.h"
#include "unit.h"

enum { NR_BLOCKS = 24, SIZE = UNIT_KEY_BYTES, BUFFER = 1 << 20 };

static struct {
	int fd; /* atomic */
	int other; /* atomic: another descriptor of the same file, without O_DIRECT */
	uint64_t handle;
	struct iocb iocbs[16];
	unsigned nr;
	char expected[NR_BLOCKS * SIZE], is[NR_BLOCKS * SIZE];
	char data[BUFFER] __attribute__((aligned(4096)));
	char target[BUFFER] __attribute__((aligned(4096)));
} test;

/*
 * How the simulated file behaves. All members are atomic, and set before requests are
 * submitted.
 */
static struct {
	/* if not 0: the file is a block device of this size in bytes */
	int64_t device_bytes;
	/*
	 * a write that ends after this offset writes only one block; -1: no write does
	 */
	int64_t short_from;
	int64_t error_from; /* writes ending after this offset fail; -1: no write */
	/* a read at exactly this offset returns half of its bytes; -1: no read does */
	int64_t short_reads;
	/* another process extends the file to this size; 0: no process does */
	int64_t grows_to;
	int truncate_error;
	uint32_t nr_cuts, nr_syncs, syncs_after_cut;
	/* number of aligned calls on the simulated file */
	uint32_t nr_seen;
	uint32_t nr_refused;
} is;

static bool is_blocks(const long args[6])
{
	return !((args[1] | args[2] | args[3]) % SIZE);
}

static bool answer_read(const long args[6], long *ret_res)
{
	if (args[3] != load_relaxed(&is.short_reads))
		return false;
	*ret_res = uaio_sys_raw(SYS_pread64, args[0], args[1], args[2] / 2,
				args[3], 0, 0);
	return true;
}

static bool answer_write(const long args[6], long *ret_res)
{
	int64_t end = args[3] + args[2];

	if (load_relaxed(&is.grows_to)) {
		*ret_res = uaio_sys_raw(SYS_pwrite64, args[0], args[1], args[2],
					args[3], 0, 0);
		assert_int_equal(ftruncate((int)args[0], is.grows_to), 0);
		store_relaxed(&is.grows_to, 0);
		return true;
	}
	if (is.error_from >= 0 && end > is.error_from) {
		*ret_res = -EIO;
		return true;
	}
	if (is.short_from >= 0 && end > is.short_from) {
		*ret_res = uaio_sys_raw(SYS_pwrite64, args[0], args[1], SIZE,
					args[3], 0, 0);
		return true;
	}
	return false;
}

static bool answer_data(long nr, const long args[6], long *ret_res)
{
	if (!is_blocks(args)) {
		add_relaxed(&is.nr_refused, 1);
		*ret_res = -EINVAL;
		return true;
	}
	add_relaxed(&is.nr_seen, 1);
	return nr == SYS_pread64 ? answer_read(args, ret_res)
				 : answer_write(args, ret_res);
}

/* Simulate preadv2() or pwritev2() with one vector by a plain read or write. */
static bool answer_vector(long nr, const long args[6], long *ret_res)
{
	const struct iovec *iov = (void *)args[1];
	const long plain[6] = { args[0], (long)iov->iov_base,
				(long)iov->iov_len, args[3] };

	return answer_data(nr == SYS_preadv2 ? SYS_pread64 : SYS_pwrite64,
			   plain, ret_res);
}

static bool answer_stat(const long args[6], long *ret_res)
{
	struct stat *st = (void *)args[1];

	*ret_res = uaio_sys_raw(SYS_fstat, args[0], args[1], 0, 0, 0, 0);
	if (is.device_bytes) {
		st->st_mode = S_IFBLK;
		st->st_rdev = (dev_t)st->st_ino;
		st->st_size = 0;
	}
	return true;
}

static bool answer_statx(const long args[6], long *ret_res)
{
	uint32_t *answer = (void *)args[4];

	memset(answer, 0, 256);
	answer[0] = 0x2000;
	answer[38] = answer[39] = SIZE;
	*ret_res = 0;
	return true;
}

static bool answer_cut(const long args[6], long *ret_res)
{
	add_relaxed(&is.nr_cuts, 1);
	if (is.truncate_error)
		*ret_res = is.truncate_error;
	else
		*ret_res = uaio_sys_raw(SYS_ftruncate, args[0], args[1], 0, 0,
					0, 0);
	return true;
}

static bool is_of_file(long nr, const long args[6])
{
	return args[0] == load_relaxed(&test.fd) ||
	       (nr == SYS_fstat && args[0] == load_relaxed(&test.other));
}

static bool answer(long nr, const long args[6], long *ret_res)
{
	/* Report ext4, as the library treats files in memory differently. */
	if (nr == SYS_fstatfs && (args[0] == load_relaxed(&test.fd) ||
				  args[0] == load_relaxed(&test.other))) {
		*ret_res = unit_say_ext4(args);
		return true;
	}
	if (!is_of_file(nr, args))
		return false;
	switch (nr) {
	case SYS_fcntl:
		if (args[1] != F_GETFL)
			return false;
		*ret_res = uaio_sys_raw(nr, args[0], args[1], 0, 0, 0, 0) |
			   O_DIRECT;
		return true;
	case SYS_fstat: return answer_stat(args, ret_res);
	case SYS_statx: return answer_statx(args, ret_res);
	case SYS_ioctl:
		if ((unsigned long)args[1] != BLKGETSIZE64)
			return false;
		*(uint64_t *)args[2] = (uint64_t)is.device_bytes;
		*ret_res = 0;
		return true;
	case SYS_pread64:
	case SYS_pwrite64: return answer_data(nr, args, ret_res);
	case SYS_preadv2:
	case SYS_pwritev2: return answer_vector(nr, args, ret_res);
	case SYS_ftruncate: return answer_cut(args, ret_res);
	case SYS_fsync:
		add_relaxed(&is.nr_syncs, 1);
		is.syncs_after_cut = load_relaxed(&is.nr_cuts);
		return false;
	default: return false;
	}
}

static void begin_with(int64_t device_bytes)
{
	char path[32];

	memset(&is, 0, sizeof(is));
	is.device_bytes = device_bytes;
	is.short_from = is.error_from = is.short_reads = -1;
	store_relaxed(&test.fd, unit_numbered_file(true, NR_BLOCKS));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", test.fd);
	store_relaxed(&test.other, open(path, O_RDWR | O_CLOEXEC));
	assert_true(test.other >= 0);
	assert_int_equal(
		pread(test.fd, test.expected, sizeof(test.expected), 0),
		sizeof(test.expected));
	for (unsigned i = 0; i < BUFFER; i++)
		test.data[i] = (char)(i * 11 + 100);
	test.handle = unit_context(32);
	test.nr = 0;
	uaio_config.bounces = true;
	unit_hook(answer);
}

static void begin(void)
{
	begin_with(0);
}

static void end(void)
{
	unit_hook(NULL);
	unit_destroy(test.handle);
	unit_close(test.fd);
	unit_close(test.other);
	uaio_config.bounces = false;
}

static struct iocb *submit_flags(unsigned opcode, unsigned bytes, int64_t off,
				 int flags)
{
	struct iocb *iocb = &test.iocbs[test.nr++];

	assert_true(test.nr <= NR_ELEMENTS(test.iocbs));
	*iocb = unit_iocb(opcode, test.fd,
			  opcode == IOCB_CMD_PREAD ? test.target : test.data,
			  bytes, off);
	iocb->aio_rw_flags = flags;
	assert_int_equal(unit_submit(test.handle, iocb), 1);
	return iocb;
}

static struct iocb *submit(unsigned opcode, unsigned bytes, int64_t off)
{
	return submit_flags(opcode, bytes, off, 0);
}

static struct iocb *write_part(unsigned bytes, int64_t off)
{
	memcpy(test.expected + off, test.data, bytes);
	return submit(IOCB_CMD_PWRITE, bytes, off);
}

static void reap_all(void)
{
	struct io_event events[NR_ELEMENTS(test.iocbs)];

	assert_int_equal(unit_reap(test.handle, test.nr, events), test.nr);
	for (unsigned i = 0; i < test.nr; i++)
		assert_true(events[i].res > 0);
	test.nr = 0;
}

static void assert_content(void)
{
	struct stat st;

	assert_int_equal(fstat(test.fd, &st), 0);
	assert_int_equal(st.st_size, sizeof(test.expected));
	assert_int_equal(pread(test.fd, test.is, sizeof(test.is), 0),
			 sizeof(test.is));
	assert_memory_equal(test.is, test.expected, sizeof(test.is));
}

/* Execute requests on another file: this gives workers the time to run. */
static void let_others_run(void)
{
	int fd = unit_numbered_file(true, 1);
	uint64_t handle = unit_context(1);
	static char buffer[SIZE];
	struct iocb iocb = unit_iocb(IOCB_CMD_PREAD, fd, buffer, SIZE, 0);

	uaio_config.force_worker = true;
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(unit_submit(handle, &iocb), 1);
		assert_int_equal(unit_reap_one(handle), SIZE);
	}
	uaio_config.force_worker = false;
	unit_destroy(handle);
	unit_close(fd);
}

/* order */

static void a_misaligned_write_waits_for_all_older_writes(void **state)
{
	static const unsigned orders[][2] = { { 4, 5 }, { 5, 4 } };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		begin();
		unit_gate_close(test.fd);
		write_part(SIZE, 4 * SIZE);
		write_part(SIZE, 5 * SIZE);
		write_part(10, 4 * SIZE + 100);
		unit_gate_await(2);
		for (unsigned j = 0; j < 2; j++) {
			let_others_run();
			assert_int_equal(load_relaxed(&is.nr_seen), 2);
			assert_int_equal(load_relaxed(&is.nr_refused), 0);
			unit_gate_pass(orders[i][j]);
		}
		unit_gate_open();
		reap_all();
		assert_int_equal(load_relaxed(&is.nr_refused), 1);
		assert_content();
		end();
	}
}

static void later_requests_wait_for_a_misaligned_write(void **state)
{
	(void)state;
	begin();
	unit_gate_close(test.fd);
	write_part(10, 4 * SIZE + 100);
	unit_gate_await_key(4);
	submit(IOCB_CMD_PREAD, SIZE, 7 * SIZE);
	write_part(SIZE, 4 * SIZE);
	write_part(10, 4 * SIZE + 50);
	let_others_run();
	assert_int_equal(unit_gate_began(7), -1);
	assert_int_equal(load_relaxed(&is.nr_seen), 1);
	unit_gate_open();
	reap_all();
	assert_content();
	end();
}

/*
 * A hook stops a write, and a later write waits for it. The later write is cancelled.
 * Requests that are submitted after that must start.
 */
static void cancelling_a_waiting_write_starts_later_requests(void **state)
{
	struct io_event events[3];
	struct iocb *victim;

	(void)state;
	begin();
	unit_gate_close(test.fd);
	write_part(SIZE, 4 * SIZE);
	unit_gate_await_key(4);
	victim = submit(IOCB_CMD_PWRITE, 10, 4 * SIZE + 100);
	assert_true(uaio_enter());
	assert_int_equal(uaio_ctx_cancel(test.handle, (uintptr_t)victim),
			 -EINPROGRESS);
	uaio_leave();
	write_part(SIZE, 5 * SIZE);
	unit_gate_await_key(5);
	unit_gate_open();
	assert_int_equal(unit_reap(test.handle, 3, events), 3);
	assert_content();
	end();
}

/* Tests with writes that other threads make inline */

static struct {
	uint64_t handle;
	struct iocb iocb;
	char data[100];
} inliner;

static long write_inline(void *arg)
{
	(void)arg;
	if (unit_submit(inliner.handle, &inliner.iocb) != 1)
		return -1;
	return unit_reap_one(inliner.handle);
}

static bool is_refused_once(void *arg)
{
	(void)arg;
	return load_relaxed(&is.nr_refused) == 1;
}

static void
a_write_of_a_part_waits_for_one_that_is_executed_inline(void **state)
{
	struct unit_thread thread;

	(void)state;
	begin();
	inliner.handle = unit_context(1);
	memset(inliner.data, 'i', sizeof(inliner.data));
	inliner.iocb = unit_iocb(IOCB_CMD_PWRITE, test.other, inliner.data,
				 sizeof(inliner.data), 4 * SIZE);
	unit_gate_close(test.other);
	unit_thread_start(&thread, write_inline, NULL);
	unit_gate_await_key(4);
	/*
	 * This write changes only a part of a block, so it reads the block first. If
	 * the write did not wait for the inline write, it would read the block now.
	 */
	write_part(10, 4 * SIZE + 200);
	memcpy(test.expected + 4 * SIZE, inliner.data, sizeof(inliner.data));
	unit_await(is_refused_once, NULL);
	let_others_run();
	assert_int_equal(load_relaxed(&is.nr_seen), 0);
	unit_gate_open();
	assert_int_equal(unit_thread_join(&thread), sizeof(inliner.data));
	reap_all();
	assert_content();
	unit_destroy(inliner.handle);
	end();
}

static void no_write_runs_inline_beside_a_misaligned_write(void **state)
{
	uint64_t before;

	(void)state;
	begin();
	inliner.handle = unit_context(1);
	inliner.iocb = unit_iocb(IOCB_CMD_PWRITE, test.other, inliner.data,
				 sizeof(inliner.data), 4 * SIZE);
	memset(inliner.data, 'j', sizeof(inliner.data));
	unit_gate_close(test.fd);
	write_part(10, 4 * SIZE + 200);
	unit_gate_await_key(4);
	before = unit_nr_inline();
	assert_int_equal(unit_submit(inliner.handle, &inliner.iocb), 1);
	assert_int_equal(unit_nr_inline(), before);
	memcpy(test.expected + 4 * SIZE, inliner.data, sizeof(inliner.data));
	unit_gate_open();
	assert_int_equal(unit_reap_one(inliner.handle), sizeof(inliner.data));
	reap_all();
	assert_content();
	/* The misaligned write is complete, so writes are executed inline again. */
	before = unit_nr_inline();
	assert_int_equal(unit_submit(inliner.handle, &inliner.iocb), 1);
	assert_int_equal(unit_nr_inline(), before + 1);
	assert_int_equal(unit_reap_one(inliner.handle), sizeof(inliner.data));
	unit_destroy(inliner.handle);
	end();
}

/* Tests of the file's end */

static int64_t size_of_file(void)
{
	struct stat st;

	assert_int_equal(fstat(test.fd, &st), 0);
	return st.st_size;
}

static int64_t write_and_reap(unsigned bytes, int64_t off, int flags)
{
	submit_flags(IOCB_CMD_PWRITE, bytes, off, flags);
	test.nr = 0;
	return unit_reap_one(test.handle);
}

static void a_file_ends_where_its_last_byte_was_written(void **state)
{
	(void)state;
	begin();
	assert_int_equal(write_and_reap(1000, NR_BLOCKS * SIZE + 3, 0), 1000);
	assert_int_equal(size_of_file(), NR_BLOCKS * SIZE + 1003);
	assert_int_equal(load_relaxed(&is.nr_cuts), 1);
	/* The write is in the file's last block, but not at the end of the file. */
	assert_int_equal(write_and_reap(5, NR_BLOCKS * SIZE + 990, 0), 5);
	assert_int_equal(size_of_file(), NR_BLOCKS * SIZE + 1003);
	assert_int_equal(load_relaxed(&is.nr_cuts), 2);
	assert_int_equal(write_and_reap(5, 990, 0), 5);
	assert_int_equal(load_relaxed(&is.nr_cuts), 2);
	assert_int_equal(load_relaxed(&is.nr_syncs), 0);
	end();
}

static void bytes_added_by_another_process_are_not_truncated(void **state)
{
	(void)state;
	begin();
	is.grows_to = 100 * SIZE + 77;
	assert_int_equal(write_and_reap(10, NR_BLOCKS * SIZE, 0), 10);
	assert_int_equal(size_of_file(), 100 * SIZE + 77);
	end();
}

static void truncating_is_as_synchronous_as_the_write(void **state)
{
	static const int flags[] = { RWF_DSYNC, RWF_SYNC };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		begin();
		assert_int_equal(
			write_and_reap(10, NR_BLOCKS * SIZE + 10, flags[i]),
			10);
		assert_int_equal(load_relaxed(&is.nr_cuts), 1);
		assert_int_equal(load_relaxed(&is.nr_syncs), 1);
		assert_int_equal(is.syncs_after_cut, 1);
		assert_int_equal(write_and_reap(10, 10, flags[i]), 10);
		assert_int_equal(load_relaxed(&is.nr_syncs), 1);
		end();
	}
}

static void a_truncate_that_fails_is_reported(void **state)
{
	(void)state;
	begin();
	is.truncate_error = -EPERM;
	assert_int_equal(write_and_reap(10, NR_BLOCKS * SIZE + 10, 0), -EPERM);
	end();
}

/* Tests of requests that fail after a part was done */

static void bytes_written_before_an_error_are_the_result(void **state)
{
	/*
	 * bytes of the request in the first chunk that is copied; this chunk begins 100
	 * bytes before the request
	 */
	enum { FIRST = 64 * 4096 - 100 };

	(void)state;
	begin();
	is.error_from = 65 * 4096;
	assert_int_equal(write_and_reap(400000, 100, 0), FIRST);
	assert_int_equal(size_of_file(), 64 * 4096);
	assert_int_equal(pread(test.other, test.target, FIRST, 100), FIRST);
	assert_memory_equal(test.target, test.data, FIRST);
	is.error_from = 0;
	assert_int_equal(write_and_reap(400000, 100, 0), -EIO);
	end();
}

static void a_write_cut_short_counts_what_is_there(void **state)
{
	(void)state;
	begin();
	is.short_from = 0;
	assert_int_equal(write_and_reap(1000, 100, 0), SIZE - 100);
	memcpy(test.expected + 100, test.data, SIZE - 100);
	assert_content();
	/* The written data stay: the file is not truncated to its old size. */
	assert_int_equal(write_and_reap(1000, NR_BLOCKS * SIZE + 2, 0),
			 SIZE - 2);
	assert_int_equal(size_of_file(), (NR_BLOCKS + 1) * SIZE);
	end();
}

static void a_short_read_of_a_block_fails_the_write(void **state)
{
	(void)state;
	begin();
	is.short_reads = 4 * SIZE;
	assert_int_equal(write_and_reap(10, 4 * SIZE + 10, 0), -EIO);
	assert_int_equal(write_and_reap(SIZE, 3 * SIZE + 10, 0), -EIO);
	assert_content();
	end();
}

/* block devices */

static void a_device_is_written_to_its_end_and_no_further(void **state)
{
	enum { BYTES = NR_BLOCKS * SIZE };

	(void)state;
	begin_with(BYTES);
	assert_int_equal(write_and_reap(100, BYTES, 0), -ENOSPC);
	assert_int_equal(write_and_reap(100, BYTES + 1000, 0), -ENOSPC);
	assert_int_equal(write_and_reap(100, BYTES - 10, 0), 10);
	memcpy(test.expected + BYTES - 10, test.data, 10);
	assert_int_equal(write_and_reap(700, BYTES - 701, 0), 700);
	memcpy(test.expected + BYTES - 701, test.data, 700);
	assert_int_equal(load_relaxed(&is.nr_cuts), 0);
	assert_content();
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_misaligned_write_waits_for_all_older_writes),
		UNIT_TEST(later_requests_wait_for_a_misaligned_write),
		UNIT_TEST(cancelling_a_waiting_write_starts_later_requests),
		UNIT_TEST(
			a_write_of_a_part_waits_for_one_that_is_executed_inline),
		UNIT_TEST(no_write_runs_inline_beside_a_misaligned_write),
		UNIT_TEST(a_file_ends_where_its_last_byte_was_written),
		UNIT_TEST(bytes_added_by_another_process_are_not_truncated),
		UNIT_TEST(truncating_is_as_synchronous_as_the_write),
		UNIT_TEST(a_truncate_that_fails_is_reported),
		UNIT_TEST(bytes_written_before_an_error_are_the_result),
		UNIT_TEST(a_write_cut_short_counts_what_is_there),
		UNIT_TEST(a_short_read_of_a_block_fails_the_write),
		UNIT_TEST(a_device_is_written_to_its_end_and_no_further),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
