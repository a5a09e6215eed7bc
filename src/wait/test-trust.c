/* SPDX-License-Identifier: MIT */
/*
 * Reads of a file on a device that refuses RWF_NOWAIT, simulated by a hook. After
 * enough fast reads by workers, the library trusts the device: then the submitting
 * thread executes the reads (trust.h). Each test has its own device, since the library
 * remembers what it has learnt.
 */
#undef NDEBUG
#include <errno.h>
#include <linux/fs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/atomic.h"
#include "options/config.h"
#include "unit.h"

enum {
	SIZE = 512,
	/*
	 * number of fast reads in a row after which the library first trusts a device
	 * (trust.h)
	 */
	FIRST = 64,
	OVERLAYFS = 0x794c7630,
	FUSE = 0x65735546,
	EXT4 = 0xef53,
};

static struct {
	uint32_t fs_type; /* atomic */
	uint64_t device;  /* atomic */
	/* atomic: the file refuses RWF_NOWAIT */
	uint32_t refuses;
	/* atomic: a plain read takes at least this time, in us */
	uint32_t slow_us;
	/* atomic: a slow read sleeps, and does not spin */
	uint32_t sleeps;
	/* atomic: reads with RWF_NOWAIT */
	uint32_t nr_nowait;
} fs;

static int fd;
static uint64_t handle;

static bool answer(long nr, const long args[6], long *ret_res)
{
	if (nr == SYS_statx) {
		*ret_res = -ENOSYS;
		return true;
	}
	if (nr == SYS_fstatfs || nr == SYS_fstat) {
		*ret_res = uaio_sys_raw(nr, args[0], args[1], 0, 0, 0, 0);
		if (nr == SYS_fstatfs)
			((struct statfs *)args[1])->f_type =
				load_relaxed(&fs.fs_type);
		else
			((struct stat *)args[1])->st_dev =
				load_relaxed(&fs.device);
		return true;
	}
	if (nr == SYS_preadv2 && args[5] & RWF_NOWAIT) {
		add_relaxed(&fs.nr_nowait, 1);
		*ret_res = -EOPNOTSUPP;
		return load_relaxed(&fs.refuses);
	}
	if ((nr == SYS_pread64 || nr == SYS_preadv || nr == SYS_preadv2) &&
	    load_relaxed(&fs.slow_us))
		unit_take_time(load_relaxed(&fs.slow_us),
			       load_relaxed(&fs.sleeps));
	return false;
}

static int start(void **state)
{
	int ret = unit_setup(state);

	store_relaxed(&fs.fs_type, OVERLAYFS);
	add_relaxed(&fs.device, 1);
	store_relaxed(&fs.refuses, 1);
	store_relaxed(&fs.slow_us, 0);
	store_relaxed(&fs.sleeps, 0);
	store_relaxed(&fs.nr_nowait, 0);
	fd = unit_numbered_file(true, 1);
	handle = unit_context(8);
	unit_hook(answer);
	return ret;
}

static int stop(void **state)
{
	unit_hook(NULL);
	uaio_config.never_block = false;
	unit_destroy(handle);
	unit_close(fd);
	return unit_teardown(state);
}

#define TRUST_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

static bool is_read_here(void)
{
	uint64_t before = unit_nr_inline();
	char buffer[SIZE];
	struct iocb iocb = unit_iocb(IOCB_CMD_PREAD, fd, buffer, SIZE, 0);

	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_int_equal(unit_reap_one(handle), SIZE);
	return unit_nr_inline() > before;
}

/*
 * Read until the submitting thread executes a read itself. Workers may have to execute
 * more than FIRST reads, as a read does not count if the worker was preempted.
 * Return: how many reads workers have executed.
 */
static unsigned nr_until_here(void)
{
	unsigned nr = 0;

	while (!is_read_here())
		nr++;
	return nr;
}

static void assert_here(unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		assert_true(is_read_here());
}

static void fast_reads_are_executed_here_after_some_by_workers(void **state)
{
	(void)state;
	assert_true(nr_until_here() >= FIRST);
	/* This file system refuses RWF_NOWAIT: the library tries it once per file. */
	assert_int_equal(load_relaxed(&fs.nr_nowait), 1);
}

static void workers_execute_slow_reads(void **state)
{
	(void)state;
	store_relaxed(&fs.slow_us, 100);
	for (unsigned i = 0; i < 4 * FIRST; i++)
		assert_false(is_read_here());
}

static void with_never_block_reads_are_left_to_workers(void **state)
{
	(void)state;
	nr_until_here();
	uaio_config.never_block = true;
	for (unsigned i = 0; i < 2 * FIRST; i++)
		assert_false(is_read_here());
}

/*
 * A thread that was only preempted has not slept in its read. So this slow read must
 * not end the library's trust in the device.
 */
static void slow_reads_that_did_not_sleep_do_not_end_trust(void **state)
{
	(void)state;
	nr_until_here();
	store_relaxed(&fs.slow_us, 100);
	assert_here(8);
	store_relaxed(&fs.slow_us, 0);
	assert_here(1);
}

/*
 * Make reads sleep until the library no longer trusts the device.
 * Return: how many reads the submitting thread had executed by then.
 */
static unsigned nr_waits(void)
{
	unsigned nr = 0;

	store_relaxed(&fs.slow_us, 1000);
	store_relaxed(&fs.sleeps, 1);
	while (is_read_here())
		nr++;
	store_relaxed(&fs.slow_us, 0);
	store_relaxed(&fs.sleeps, 0);
	return nr;
}

static void each_time_trust_ends_twice_as_many_are_needed(void **state)
{
	(void)state;
	nr_until_here();
	for (unsigned needed = 2 * FIRST; needed <= 16 * FIRST; needed *= 2) {
		assert_in_range(nr_waits(), 1, 2);
		assert_true(nr_until_here() >= needed);
	}
}

/*
 * Like nr_until_here(), but every 16th read is slow, and the function gives up after
 * max reads.
 */
static unsigned nr_until_here_with_slow(unsigned max)
{
	unsigned nr = 0;
	bool is_here = false;

	while (!is_here && nr < max) {
		store_relaxed(&fs.slow_us, nr++ % 16 ? 0 : 100);
		is_here = is_read_here();
	}
	store_relaxed(&fs.slow_us, 0);
	return nr;
}

static void preempted_workers_do_not_prevent_trust(void **state)
{
	(void)state;
	nr_until_here();
	nr_waits();
	assert_true(nr_until_here_with_slow(64 * FIRST) < 64 * FIRST);
}

static void workers_that_sometimes_wait_prevent_trust(void **state)
{
	(void)state;
	store_relaxed(&fs.sleeps, 1);
	assert_int_equal(nr_until_here_with_slow(16 * FIRST), 16 * FIRST);
}

/* Open a new file on the same device: the library knows nothing of the file yet. */
static void open_another(void)
{
	unit_close(fd);
	fd = unit_numbered_file(true, 1);
}

static void a_new_file_uses_the_trust_in_its_device(void **state)
{
	(void)state;
	nr_until_here();
	for (unsigned i = 0; i < 8; i++) {
		open_another();
		assert_here(1);
	}
	/*
	 * A read of one file has waited, so the library no longer trusts the file's
	 * device, either.
	 */
	assert_in_range(nr_waits(), 1, 2);
	open_another();
	assert_false(is_read_here());
}

static void each_file_of_a_server_must_earn_trust(void **state)
{
	(void)state;
	store_relaxed(&fs.fs_type, FUSE);
	open_another();
	assert_true(nr_until_here() >= FIRST);
	open_another();
	assert_true(nr_until_here() >= FIRST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TRUST_TEST(fast_reads_are_executed_here_after_some_by_workers),
		TRUST_TEST(workers_execute_slow_reads),
		TRUST_TEST(with_never_block_reads_are_left_to_workers),
		TRUST_TEST(slow_reads_that_did_not_sleep_do_not_end_trust),
		TRUST_TEST(each_time_trust_ends_twice_as_many_are_needed),
		TRUST_TEST(preempted_workers_do_not_prevent_trust),
		TRUST_TEST(workers_that_sometimes_wait_prevent_trust),
		TRUST_TEST(a_new_file_uses_the_trust_in_its_device),
		TRUST_TEST(each_file_of_a_server_must_earn_trust),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
