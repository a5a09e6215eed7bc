/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "options/config.h"
#include "aio/aio.h"
#include "base/uaddr.h"
#include "unit.h"

/*
 * A hook fakes the results of system calls on the file: slow, partial, or EAGAIN. The
 * test counts the calls that the library makes. A real disk might be busy with other
 * work, so the file is in memory. The hook reports its file system as ext4, so that
 * the library treats the file as one on a disk.
 */
enum { SIZE = 4096, NR_BLOCKS = 4, NR_CACHESTAT = 451 };

/*
 * policy.c considers a read slow if its call takes longer than this. The test times
 * reads including their reaping, so a measured time is longer than that of the call.
 */
enum { SLOW_READ_NS = 20000 };

static struct {
	int fd; /* atomic */
	/* atomic: the results that the hook fakes */
	/* the error that calls with RWF_NOWAIT return; 0: none */
	uint32_t nowait_error;
	/* the most bytes that a call with RWF_NOWAIT returns; 0: no limit */
	uint32_t nowait_bytes;
	/* how many pages cachestat() reports as cached, for any range */
	uint64_t nr_cached;
	/* the least time that a call without RWF_NOWAIT takes, in us */
	uint32_t slow_us;
	/*
	 * whether a call without RWF_NOWAIT sleeps for slow_us; if not, it keeps the
	 * processor busy
	 */
	uint32_t sleeps;
	/* atomic: how many calls the library made, with RWF_NOWAIT and without */
	uint32_t nr_nowait;
	uint32_t nr_plain;
} file;

static char buffer[SIZE];
static uint64_t handle;

static bool answer_nowait(long nr, const long args[6], long *ret_res)
{
	uint32_t error = load_relaxed(&file.nowait_error);
	uint32_t bytes = load_relaxed(&file.nowait_bytes);
	const struct iovec *iov = (const struct iovec *)args[1];
	struct iovec part = { iov->iov_base, bytes };

	add_relaxed(&file.nr_nowait, 1);
	if (error) {
		*ret_res = -(long)error;
		return true;
	}
	if (!bytes) {
		*ret_res = uaio_sys_raw(nr, args[0], args[1], args[2], args[3],
					args[4], args[5] & ~RWF_NOWAIT);
		return true;
	}
	/* Bytes after the first `bytes` of a block count as not cached. */
	if (args[3] % SIZE >= bytes)
		*ret_res = -EAGAIN;
	else
		*ret_res = uaio_sys_raw(SYS_preadv2, args[0], (long)&part, 1,
					args[3], 0, 0);
	return true;
}

static bool answer(long nr, const long args[6], long *ret_res)
{
	if (nr == SYS_fstatfs) {
		*ret_res = unit_say_ext4(args);
		return true;
	}
	if ((int)args[0] != load_relaxed(&file.fd))
		return false;
	if (nr == NR_CACHESTAT) {
		*(uint64_t *)args[2] = load_relaxed(&file.nr_cached);
		*ret_res = 0;
		return true;
	}
	if ((nr == SYS_preadv2 || nr == SYS_pwritev2) && args[5] & RWF_NOWAIT)
		return answer_nowait(nr, args, ret_res);
	if (nr == SYS_pread64 || nr == SYS_pwrite64 || nr == SYS_preadv2 ||
	    nr == SYS_pwritev2) {
		add_relaxed(&file.nr_plain, 1);
		if (load_relaxed(&file.slow_us))
			unit_take_time(load_relaxed(&file.slow_us),
				       load_relaxed(&file.sleeps));
	}
	return false;
}

static int start(void **state)
{
	int ret = unit_setup(state);
	static const char block[SIZE];

	/* Store atomically, as a worker may still be in the hook of the previous test. */
	store_relaxed(&file.nowait_error, 0);
	store_relaxed(&file.nowait_bytes, 0);
	store_relaxed(&file.nr_cached, 0);
	store_relaxed(&file.slow_us, 0);
	store_relaxed(&file.sleeps, 0);
	store_relaxed(&file.nr_nowait, 0);
	store_relaxed(&file.nr_plain, 0);
	store_relaxed(&file.fd, unit_file(true));
	for (unsigned i = 0; i < NR_BLOCKS; i++)
		if (pwrite(file.fd, block, SIZE, i * SIZE) != SIZE)
			return -1;
	handle = unit_context(64);
	unit_hook(answer);
	return ret;
}

static int stop(void **state)
{
	unit_hook(NULL);
	uaio_config.never_block = false;
	unit_destroy(handle);
	unit_close(file.fd);
	return unit_teardown(state);
}

#define POLICY_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

/* Return: the request's result. ret_inline: whether it was executed inline. */
static int64_t execute_iocb(struct iocb *iocb, bool *ret_inline)
{
	uint64_t before = unit_nr_inline();
	int64_t res;
	long ret;

	ret = unit_submit(handle, iocb);
	assert_int_equal(ret, 1);
	res = unit_reap_one(handle);
	*ret_inline = unit_nr_inline() != before;
	return res;
}

static int64_t execute(unsigned opcode, size_t bytes, int64_t off, int flags,
		       bool *ret_inline)
{
	struct iocb iocb = unit_iocb(opcode, file.fd, buffer, bytes, off);

	iocb.aio_rw_flags = flags;
	return execute_iocb(&iocb, ret_inline);
}

static void assert_inline(unsigned opcode)
{
	bool is_inline;

	assert_int_equal(execute(opcode, SIZE, 0, 0, &is_inline), SIZE);
	assert_true(is_inline);
}

static void assert_in_worker(unsigned opcode)
{
	bool is_inline;

	assert_int_equal(execute(opcode, SIZE, 0, 0, &is_inline), SIZE);
	assert_false(is_inline);
}

static void reset_counts(void)
{
	store_relaxed(&file.nr_nowait, 0);
	store_relaxed(&file.nr_plain, 0);
}

/*
 * Wait until the library knows the rate of the cycle counter, a millisecond after its
 * start: only then it can tell whether reads are fast.
 */
static void let_clock_settle(void)
{
	int64_t end = uaio_now_ns() + 3000000;

	while (uaio_now_ns() < end)
		;
}

/*
 * Read until the library no longer queries the page cache. A read that is slow because its
 * thread was preempted ends the streak, and then 64 more reads are needed.
 * Return: whether the last read was so slow that it may have ended the streak.
 */
static bool become_trusted(void)
{
	int64_t start;

	let_clock_settle();
	do {
		for (unsigned i = 0; i < 64; i++)
			assert_inline(IOCB_CMD_PREAD);
		reset_counts();
		start = uaio_now_ns();
		assert_inline(IOCB_CMD_PREAD);
	} while (load_relaxed(&file.nr_nowait));
	reset_counts();
	return uaio_now_ns() - start >= SLOW_READ_NS;
}

static void reads_ask_the_cache_until_they_are_trusted(void **state)
{
	/* Whether one of the 64 reads was so slow that it may have ended the streak. */
	bool may_have_ended = false;

	(void)state;
	let_clock_settle();
	for (unsigned i = 0; i < 64; i++) {
		int64_t start = uaio_now_ns();

		assert_inline(IOCB_CMD_PREAD);
		may_have_ended |= uaio_now_ns() - start >= SLOW_READ_NS;
	}
	assert_int_equal(load_relaxed(&file.nr_nowait), 64);
	assert_int_equal(load_relaxed(&file.nr_plain), 0);
	for (unsigned nr_seen = 0; nr_seen < 10;) {
		int64_t start = uaio_now_ns();

		reset_counts();
		assert_inline(IOCB_CMD_PREAD);
		if (load_relaxed(&file.nr_nowait)) {
			assert_true(may_have_ended);
			may_have_ended = become_trusted();
			continue;
		}
		assert_int_equal(load_relaxed(&file.nr_plain), 1);
		nr_seen++;
		may_have_ended |= uaio_now_ns() - start >= SLOW_READ_NS;
	}
}

static void one_slow_read_ends_the_trust(void **state)
{
	bool was_trusted;

	(void)state;
	do {
		(void)become_trusted();
		store_relaxed(&file.slow_us, 300);
		assert_inline(IOCB_CMD_PREAD);
		store_relaxed(&file.slow_us, 0);
		was_trusted = !load_relaxed(&file.nr_nowait);
		reset_counts();
	} while (!was_trusted);
	assert_inline(IOCB_CMD_PREAD);
	assert_int_equal(load_relaxed(&file.nr_nowait), 1);
}

static void never_block_always_asks(void **state)
{
	(void)state;
	uaio_config.never_block = true;
	let_clock_settle();
	for (unsigned i = 0; i < 200; i++)
		assert_inline(IOCB_CMD_PREAD);
	assert_int_equal(load_relaxed(&file.nr_nowait), 200);
	assert_int_equal(load_relaxed(&file.nr_plain), 0);
}

static void an_uncached_read_goes_to_a_worker(void **state)
{
	(void)state;
	store_relaxed(&file.nowait_error, EAGAIN);
	for (unsigned i = 0; i < 5; i++)
		assert_in_worker(IOCB_CMD_PREAD);
	/*
	 * There may be more than 5 calls with RWF_NOWAIT, because a worker that has
	 * executed a read may also try the next one.
	 */
	assert_true(load_relaxed(&file.nr_nowait) >= 5);
	assert_int_equal(load_relaxed(&file.nr_plain), 5);
}

static void a_file_that_refuses_nowait_is_asked_once(void **state)
{
	(void)state;
	store_relaxed(&file.nowait_error, EOPNOTSUPP);
	for (unsigned i = 0; i < 5; i++)
		assert_in_worker(IOCB_CMD_PREAD);
	assert_int_equal(load_relaxed(&file.nr_nowait), 1);
	assert_int_equal(load_relaxed(&file.nr_plain), 5);
}

static void a_read_cut_by_the_cache_is_executed_in_full(void **state)
{
	bool is_inline;

	(void)state;
	store_relaxed(&file.nowait_bytes, 1000);
	assert_int_equal(execute(IOCB_CMD_PREAD, SIZE, 0, 0, &is_inline), SIZE);
	assert_false(is_inline);
}

/*
 * A long read of which one page is not cached waits for that page. Otherwise a worker would
 * read all of it again.
 */
static void a_long_read_waits_for_the_page_it_lacks(void **state)
{
	enum { LONG = 1 << 20 };
	const uint64_t nr_pages = LONG / uaio_page_bytes();
	struct iocb iocb;
	char *area = malloc(LONG);
	bool is_inline;

	(void)state;
	assert_non_null(area);
	assert_int_equal(ftruncate(file.fd, LONG), 0);
	store_relaxed(&file.nowait_error, EAGAIN);
	iocb = unit_iocb(IOCB_CMD_PREAD, file.fd, area, LONG, 0);

	store_relaxed(&file.nr_cached, nr_pages - 1);
	assert_int_equal(execute_iocb(&iocb, &is_inline), LONG);
	assert_true(is_inline);
	store_relaxed(&file.nr_cached, nr_pages / 2);
	assert_int_equal(execute_iocb(&iocb, &is_inline), LONG);
	assert_false(is_inline);
	store_relaxed(&file.nr_cached, nr_pages);
	uaio_config.never_block = true;
	assert_int_equal(execute_iocb(&iocb, &is_inline), LONG);
	assert_false(is_inline);
	uaio_config.never_block = false;
	free(area);
}

static void a_long_read_waits_where_pages_are_large(void **state)
{
	const size_t page = uaio_page_bytes();

	uaio_page_known = 65536;
	a_long_read_waits_for_the_page_it_lacks(state);
	uaio_page_known = page;
}

static void a_read_cut_by_the_end_of_the_file_is_complete(void **state)
{
	bool is_inline;

	(void)state;
	assert_int_equal(execute(IOCB_CMD_PREAD, SIZE, NR_BLOCKS * SIZE - 100,
				 0, &is_inline),
			 100);
	assert_true(is_inline);
	assert_int_equal(
		execute(IOCB_CMD_PREAD, SIZE, NR_BLOCKS * SIZE, 0, &is_inline),
		0);
	assert_true(is_inline);
}

/*
 * If the client sets RWF_NOWAIT, the request completes inline with the result of the call,
 * even if that is an error.
 */
static void a_client_that_will_not_wait_is_told_at_once(void **state)
{
	struct iocb iocb = unit_iocb(IOCB_CMD_PREAD, file.fd, buffer, SIZE, 0);
	bool is_inline;

	(void)state;
	assert_int_equal(
		execute(IOCB_CMD_PREAD, SIZE, 0, RWF_NOWAIT, &is_inline), SIZE);
	assert_true(is_inline);
	store_relaxed(&file.nowait_error, EAGAIN);
	assert_int_equal(
		execute(IOCB_CMD_PREAD, SIZE, 0, RWF_NOWAIT, &is_inline),
		-EAGAIN);
	assert_true(is_inline);
	store_relaxed(&file.nowait_error, EOPNOTSUPP);
	iocb.aio_rw_flags = RWF_NOWAIT;
	/*
	 * The file system (ext4) supports RWF_NOWAIT, but refuses it for this request: the
	 * submission succeeds, and the event has the error.
	 */
	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_int_equal(unit_reap_one(handle), -EOPNOTSUPP);
	assert_int_equal(load_relaxed(&file.nr_plain), 0);
}

static void one_slow_write_is_forgiven(void **state)
{
	(void)state;
	let_clock_settle();
	store_relaxed(&file.sleeps, 1);
	store_relaxed(&file.slow_us, 3000);
	assert_inline(IOCB_CMD_PWRITE);
	store_relaxed(&file.slow_us, 0);
	for (unsigned i = 0; i < 5; i++)
		assert_inline(IOCB_CMD_PWRITE);
}

/*
 * Write until a write is executed inline.
 * Return: whether a worker executed an earlier one.
 */
static bool write_until_inline(void)
{
	bool is_inline = false, was_in_worker = false;

	while (!is_inline) {
		assert_int_equal(
			execute(IOCB_CMD_PWRITE, SIZE, 0, 0, &is_inline), SIZE);
		was_in_worker |= !is_inline;
	}
	return was_in_worker;
}

static void slow_writes_go_to_workers_for_a_while(void **state)
{
	bool was_in_worker = false;

	(void)state;
	let_clock_settle();
	store_relaxed(&file.sleeps, 1);
	/*
	 * After slow writes, workers execute the file's writes for a certain time. If this
	 * thread was preempted for that time, repeat.
	 */
	while (!was_in_worker) {
		int64_t start_ns;

		store_relaxed(&file.slow_us, 3000);
		assert_inline(IOCB_CMD_PWRITE);
		start_ns = uaio_now_ns();
		assert_inline(IOCB_CMD_PWRITE);
		store_relaxed(&file.slow_us, 0);
		was_in_worker = write_until_inline();
		assert_true(uaio_now_ns() - start_ns >= 100000000);
	}
	assert_inline(IOCB_CMD_PWRITE);
}

/*
 * The writes take long without sleeping, as if the thread were preempted. So the file does
 * not count as slow.
 */
static void a_write_that_did_not_sleep_is_not_slow(void **state)
{
	(void)state;
	let_clock_settle();
	store_relaxed(&file.slow_us, 3000);
	for (unsigned i = 0; i < 5; i++)
		assert_inline(IOCB_CMD_PWRITE);
}

static void a_write_that_waits_for_the_disk_goes_to_a_worker(void **state)
{
	bool is_inline;

	(void)state;
	assert_int_equal(
		execute(IOCB_CMD_PWRITE, SIZE, 0, RWF_DSYNC, &is_inline), SIZE);
	assert_false(is_inline);
	assert_int_equal(
		execute(IOCB_CMD_PWRITE, SIZE, 0, RWF_SYNC, &is_inline), SIZE);
	assert_false(is_inline);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		POLICY_TEST(reads_ask_the_cache_until_they_are_trusted),
		POLICY_TEST(one_slow_read_ends_the_trust),
		POLICY_TEST(never_block_always_asks),
		POLICY_TEST(an_uncached_read_goes_to_a_worker),
		POLICY_TEST(a_file_that_refuses_nowait_is_asked_once),
		POLICY_TEST(a_read_cut_by_the_cache_is_executed_in_full),
		POLICY_TEST(a_long_read_waits_for_the_page_it_lacks),
		POLICY_TEST(a_long_read_waits_where_pages_are_large),
		POLICY_TEST(a_read_cut_by_the_end_of_the_file_is_complete),
		POLICY_TEST(a_client_that_will_not_wait_is_told_at_once),
		POLICY_TEST(one_slow_write_is_forgiven),
		POLICY_TEST(slow_writes_go_to_workers_for_a_while),
		POLICY_TEST(a_write_that_did_not_sleep_is_not_slow),
		POLICY_TEST(a_write_that_waits_for_the_disk_goes_to_a_worker),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
