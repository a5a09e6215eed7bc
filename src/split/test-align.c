/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file/file.h"
#include "split/align.h"
#include "unit.h"

/* What the simulated kernel reports for the test's file. */
static struct {
	int fd;
	bool has_statx, is_told;
	uint32_t memory, offset; /* if is_told */
	long block;
	mode_t mode;
	unsigned nr_asked;
} is;

static bool answer_statx(const long args[6], long *ret_res)
{
	uint32_t *answer = (void *)args[4];

	is.nr_asked++;
	*ret_res = is.has_statx ? 0 : -ENOSYS;
	if (!is.has_statx)
		return true;
	memset(answer, 0, 256);
	answer[0] = is.is_told ? 0x2000 : 0;
	answer[38] = is.memory;
	answer[39] = is.offset;
	return true;
}

static bool answer(long nr, const long args[6], long *ret_res)
{
	struct stat *st = (void *)args[1];

	if (args[0] != is.fd)
		return false;
	switch (nr) {
	case SYS_statx: return answer_statx(args, ret_res);
	case SYS_ioctl:
		if ((unsigned long)args[1] != BLKSSZGET)
			return false;
		*(int *)args[2] = (int)is.block;
		*ret_res = 0;
		return true;
	case SYS_fcntl:
		if (args[1] != F_GETFL)
			return false;
		*ret_res = O_RDWR | O_DIRECT;
		return true;
	case SYS_fstatfs: *ret_res = unit_say_ext4(args); return true;
	case SYS_fstat:
		*ret_res = uaio_sys_raw(nr, args[0], args[1], 0, 0, 0, 0);
		st->st_blksize = (typeof(st->st_blksize))is.block;
		st->st_mode = (st->st_mode & ~(mode_t)S_IFMT) | is.mode;
		return true;
	default: return false;
	}
}

static void assert_queried(struct uaio_file *file, uint32_t memory,
			   uint32_t offset)
{
	struct uaio_alignment alignment;

	for (int i = 0; i < 2; i++) {
		uaio_alignment_of(file, is.fd, &alignment);
		assert_int_equal(alignment.memory, memory);
		assert_int_equal(alignment.offset, offset);
	}
	assert_int_equal(is.nr_asked, 1);
}

/* Open the file anew, and check the alignment that the library finds. */
static void assert_alignment(uint32_t memory, uint32_t offset)
{
	struct uaio_file *file;

	is.fd = unit_file(true);
	is.nr_asked = 0;
	unit_hook(answer);
	assert_int_equal(uaio_file_get(is.fd, &file), 0);
	assert_queried(file, memory, offset);
	uaio_file_put(file);
	unit_hook(NULL);
	unit_close(is.fd);
}

static void the_alignment_that_the_kernel_reports_is_used(void **state)
{
	(void)state;
	is.has_statx = is.is_told = true;
	is.mode = S_IFREG;
	is.block = 1024;
	is.memory = 4;
	is.offset = 512;
	assert_alignment(4, 512);
	is.memory = 512;
	is.offset = 4096;
	assert_alignment(512, 4096);
	is.memory = is.offset = 65536;
	assert_alignment(65536, 65536);
}

static void zeros_report_no_alignment(void **state)
{
	(void)state;
	is.has_statx = is.is_told = true;
	is.mode = S_IFREG;
	is.block = 1024;
	is.memory = is.offset = 0;
	assert_alignment(1024, 1024);
}

static void an_impossible_alignment_is_ignored(void **state)
{
	(void)state;
	is.has_statx = is.is_told = true;
	is.mode = S_IFREG;
	is.block = 1024;
	is.memory = 3;
	is.offset = 512;
	assert_alignment(1024, 1024);
	is.memory = 512;
	is.offset = 1 << 17;
	assert_alignment(1024, 1024);
}

static void without_a_report_the_block_size_is_used(void **state)
{
	static const struct {
		mode_t mode;
		long block;
		uint32_t expected;
	} rows[] = {
		{ S_IFREG, 512, 512 },       { S_IFREG, 4096, 4096 },
		{ S_IFREG, 65536, 65536 },   { S_IFREG, 1 << 20, 4096 },
		{ S_IFREG, 0, 4096 },        { S_IFREG, 1536, 4096 },
		{ S_IFREG, 1L << 32, 4096 }, { S_IFBLK, 512, 512 },
		{ S_IFBLK, 4096, 4096 },     { S_IFBLK, 0, 4096 },
		{ S_IFBLK, 1 << 20, 4096 },
	};

	(void)state;
	for (size_t i = 0; i < 2 * NR_ELEMENTS(rows); i++) {
		is.has_statx = i < NR_ELEMENTS(rows);
		is.is_told = false;
		is.memory = is.offset = 2;
		is.mode = rows[i % NR_ELEMENTS(rows)].mode;
		is.block = rows[i % NR_ELEMENTS(rows)].block;
		assert_alignment(rows[i % NR_ELEMENTS(rows)].expected,
				 rows[i % NR_ELEMENTS(rows)].expected);
	}
}

static void a_buffered_file_is_not_queried(void **state)
{
	struct uaio_alignment alignment;
	struct uaio_file *file;
	int fd = unit_file(false);

	(void)state;
	assert_int_equal(uaio_file_get(fd, &file), 0);
	uaio_alignment_of(file, fd, &alignment);
	assert_int_equal(alignment.memory, 1);
	assert_int_equal(alignment.offset, 1);
	uaio_file_put(file);
	unit_close(fd);
}

/*
 * The kernel accepts a write and a read with just the alignment that the library has
 * found.
 */
static void the_kernel_accepts_aligned_requests(void **state)
{
	struct uaio_alignment alignment;
	struct uaio_file *file;
	char path[] = "alignXXXXXX", *memory;
	int fd = mkostemp(path, O_DIRECT);

	(void)state;
	if (fd < 0)
		skip();
	unlink(path);
	memory = aligned_alloc(UAIO_ALIGNMENT_MAX, UAIO_ALIGNMENT_MAX * 4);
	assert_non_null(memory);
	memset(memory, 1, UAIO_ALIGNMENT_MAX * 4);
	assert_int_equal(uaio_file_get(fd, &file), 0);
	uaio_alignment_of(file, fd, &alignment);
	assert_int_equal(pwrite(fd, memory + alignment.memory, alignment.offset,
				alignment.offset),
			 alignment.offset);
	assert_int_equal(pread(fd, memory + alignment.memory, alignment.offset,
			       alignment.offset),
			 alignment.offset);
	free(memory);
	uaio_file_put(file);
	unit_close(fd);
}

static void each_part_of_a_request_must_be_aligned(void **state)
{
	const struct uaio_alignment alignment = { 8, 512 };
	static char memory[4096] __attribute__((aligned(4096)));
	struct iovec iov[2] = { { memory, 512 }, { memory + 8, 1024 } };
	struct uaio_sqe sqe = { .op = UAIO_OP_READ };
	static const struct {
		unsigned at, len, off;
		bool is_aligned, is_range_aligned;
	} rows[] = {
		{ 0, 512, 0, true, true },     { 8, 1024, 4096, true, true },
		{ 4, 512, 0, false, true },    { 0, 511, 0, false, false },
		{ 0, 512, 1, false, false },   { 0, 512, 256, false, false },
		{ 1, 1024, 512, false, true }, { 0, 0, 512, true, true },
	};

	(void)state;
	for (size_t i = 0; i < NR_ELEMENTS(rows); i++) {
		sqe.buf = memory + rows[i].at;
		sqe.len = rows[i].len;
		sqe.off = rows[i].off;
		assert_int_equal(uaio_is_aligned(&alignment, &sqe),
				 rows[i].is_aligned);
		assert_int_equal(uaio_is_range_aligned(&alignment, &sqe),
				 rows[i].is_range_aligned);
	}
	sqe = (struct uaio_sqe){ .op = UAIO_OP_WRITEV, .iov = iov, .len = 2 };
	assert_true(uaio_is_aligned(&alignment, &sqe));
	iov[1].iov_base = memory + 1;
	assert_false(uaio_is_aligned(&alignment, &sqe));
	assert_true(uaio_is_range_aligned(&alignment, &sqe));
	iov[1].iov_base = memory;
	iov[0].iov_len = iov[1].iov_len = 256;
	assert_false(uaio_is_aligned(&alignment, &sqe));
	assert_true(uaio_is_range_aligned(&alignment, &sqe));
	iov[1].iov_len = 255;
	assert_false(uaio_is_range_aligned(&alignment, &sqe));
}

static void a_file_that_accepts_anything_finds_all_aligned(void **state)
{
	const struct uaio_alignment alignment = { 1, 1 };
	const struct uaio_sqe sqe = {
		.op = UAIO_OP_READ, .buf = (void *)7, .len = 5, .off = 3
	};

	(void)state;
	assert_true(uaio_is_aligned(&alignment, &sqe));
	assert_true(uaio_is_range_aligned(&alignment, &sqe));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(the_alignment_that_the_kernel_reports_is_used),
		UNIT_TEST(zeros_report_no_alignment),
		UNIT_TEST(an_impossible_alignment_is_ignored),
		UNIT_TEST(without_a_report_the_block_size_is_used),
		UNIT_TEST(a_buffered_file_is_not_queried),
		UNIT_TEST(the_kernel_accepts_aligned_requests),
		UNIT_TEST(each_part_of_a_request_must_be_aligned),
		UNIT_TEST(a_file_that_accepts_anything_finds_all_aligned),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
