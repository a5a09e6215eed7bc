/* SPDX-License-Identifier: MIT */
/*
 * In Linux 5.9 and 5.10 a read with RWF_NOWAIT stops at a page that readahead has
 * marked. A hook simulates these kernels: it executes reads with RWF_NOWAIT itself, and
 * ends them at one block (MARKED) of the test file.
 */
#undef NDEBUG
#include <errno.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/atomic.h"
#include "unit.h"

enum {
	BLOCK = UNIT_KEY_BYTES,
	NR_BLOCKS = 8,
	MARKED = 2,
	EXT4 = 0xef53,
};

static struct {
	/* atomic: fstat() reports a block device */
	uint32_t is_device;
	/* atomic: RWF_NOWAIT reads that the hook has made */
	uint32_t nr_nowait;
} fs;

static int fd;
static uint64_t handle;
static char buffer[NR_BLOCKS * BLOCK];

/* Read up to the block MARKED. A read that begins at this block returns 0 bytes. */
static long read_up_to_mark(const long args[6])
{
	struct iovec iov = *(const struct iovec *)args[1];
	long off = args[3] == -1 ? uaio_sys_raw(SYS_lseek, args[0], 0, SEEK_CUR,
						0, 0, 0)
				 : args[3];
	long left = MARKED * BLOCK - off;

	if (left >= 0 && (size_t)left < iov.iov_len)
		iov.iov_len = (size_t)left;
	return uaio_sys_raw(SYS_pread64, args[0], (long)iov.iov_base,
			    (long)iov.iov_len, off, 0, 0);
}

static bool answer(long nr, const long args[6], long *ret_res)
{
	if (nr == SYS_fstatfs) {
		*ret_res = uaio_sys_raw(nr, args[0], args[1], 0, 0, 0, 0);
		((struct statfs *)args[1])->f_type = EXT4;
		return true;
	}
	if (nr == SYS_fstat && load_relaxed(&fs.is_device)) {
		*ret_res = uaio_sys_raw(nr, args[0], args[1], 0, 0, 0, 0);
		((struct stat *)args[1])->st_mode = S_IFBLK;
		((struct stat *)args[1])->st_size = 0;
		return true;
	}
	if (nr == SYS_preadv2 && args[5] & RWF_NOWAIT && args[2] == 1) {
		add_relaxed(&fs.nr_nowait, 1);
		*ret_res = read_up_to_mark(args);
		return true;
	}
	return false;
}

static int start(void **state)
{
	int ret = unit_setup(state);

	store_relaxed(&fs.is_device, 0);
	store_relaxed(&fs.nr_nowait, 0);
	memset(buffer, 0xff, sizeof(buffer));
	fd = unit_numbered_file(true, NR_BLOCKS);
	handle = unit_context(8);
	unit_hook(answer);
	return ret;
}

static int stop(void **state)
{
	unit_hook(NULL);
	unit_destroy(handle);
	unit_close(fd);
	return unit_teardown(state);
}

#define CACHED_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

/*
 * Read nr blocks, from block first on.
 * Return: the result.
 */
static int64_t read_blocks(unsigned first, unsigned nr, int flags)
{
	struct iocb iocb =
		unit_iocb(IOCB_CMD_PREAD, fd, buffer, (size_t)nr * BLOCK,
			  (int64_t)first * BLOCK);

	iocb.aio_rw_flags = flags;
	assert_int_equal(unit_submit(handle, &iocb), 1);
	return unit_reap_one(handle);
}

static void assert_blocks(unsigned first, unsigned nr)
{
	char expected[BLOCK];

	for (unsigned i = 0; i < nr; i++) {
		assert_int_equal(
			pread(fd, expected, BLOCK, (first + i) * BLOCK), BLOCK);
		assert_memory_equal(&buffer[i * BLOCK], expected, BLOCK);
	}
}

static void a_read_that_begins_at_a_mark_gets_its_data(void **state)
{
	(void)state;
	assert_int_equal(read_blocks(MARKED, 1, 0), BLOCK);
	assert_blocks(MARKED, 1);
	assert_true(load_relaxed(&fs.nr_nowait) >= 1);
}

static void a_read_across_a_mark_is_whole(void **state)
{
	(void)state;
	assert_int_equal(read_blocks(0, NR_BLOCKS, 0), NR_BLOCKS * BLOCK);
	assert_blocks(0, NR_BLOCKS);
	assert_true(load_relaxed(&fs.nr_nowait) >= 1);
}

static void a_read_at_the_end_of_its_file_gets_nothing_at_once(void **state)
{
	uint64_t before = unit_nr_inline();

	(void)state;
	assert_int_equal(read_blocks(NR_BLOCKS, 1, 0), 0);
	assert_int_equal(read_blocks(NR_BLOCKS - 1, 2, 0), BLOCK);
	assert_int_equal(unit_nr_inline(), before + 2);
}

static void a_client_with_nowait_gets_eagain(void **state)
{
	(void)state;
	assert_int_equal(read_blocks(MARKED, 1, RWF_NOWAIT), -EAGAIN);
	assert_int_equal(read_blocks(NR_BLOCKS, 1, RWF_NOWAIT), 0);
}

static int64_t read_now(int64_t off, uint64_t bytes, uint32_t flags)
{
	const struct uaio_sqe sqe = {
		.op = UAIO_OP_READ,
		.fd = fd,
		.buf = buffer,
		.len = bytes,
		.off = off,
		.rw_flags = flags,
	};
	struct uaio_found found = { .rest = UAIO_REST_UNKNOWN };

	return uaio_optab[sqe.op].run(&sqe, fd, &found, RWF_NOWAIT);
}

static void a_read_at_the_position_uses_the_position(void **state)
{
	(void)state;
	assert_int_equal(lseek(fd, MARKED * BLOCK, SEEK_SET), MARKED * BLOCK);
	assert_int_equal(read_now(-1, BLOCK, 0), -EAGAIN);
	assert_int_equal(lseek(fd, NR_BLOCKS * BLOCK, SEEK_SET),
			 NR_BLOCKS * BLOCK);
	assert_int_equal(read_now(-1, BLOCK, 0), 0);
}

static void a_read_of_0_bytes_returns_0_anywhere(void **state)
{
	(void)state;
	assert_int_equal(read_now(MARKED * BLOCK, 0, 0), 0);
}

/*
 * fstat() reports no size for a device. So only a read that may block finds the
 * device's end.
 */
static void a_read_that_may_block_finds_the_end_of_a_device(void **state)
{
	(void)state;
	store_relaxed(&fs.is_device, 1);
	assert_int_equal(read_now(MARKED * BLOCK, BLOCK, 0), -EAGAIN);
	assert_int_equal(read_now(NR_BLOCKS * BLOCK, BLOCK, 0), -EAGAIN);
	assert_int_equal(read_now(NR_BLOCKS * BLOCK, BLOCK, RWF_NOWAIT), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CACHED_TEST(a_read_that_begins_at_a_mark_gets_its_data),
		CACHED_TEST(a_read_across_a_mark_is_whole),
		CACHED_TEST(a_read_at_the_end_of_its_file_gets_nothing_at_once),
		CACHED_TEST(a_client_with_nowait_gets_eagain),
		CACHED_TEST(a_read_at_the_position_uses_the_position),
		CACHED_TEST(a_read_of_0_bytes_returns_0_anywhere),
		CACHED_TEST(a_read_that_may_block_finds_the_end_of_a_device),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
