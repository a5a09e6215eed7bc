/* SPDX-License-Identifier: MIT */
/*
 * Tests that misaligned requests on a file opened with O_DIRECT give the results of
 * plain calls on a file in memory. The O_DIRECT file is in the current directory. If
 * its file system accepts misaligned requests, the library executes none through a
 * copy. Then checks that need a refusal are left out.
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "options/config.h"
#include "req/stats.h"
#include "unit.h"

enum {
	ROOM = 1 << 20,
	CANARY = 0x5a,
	RWF_ATOMIC_ = 0x40,
};

static struct {
	int direct;
	int buffered; /* the same file, without O_DIRECT */
	int reference;
	uint64_t handle;
	/* the file system itself refuses misaligned requests */
	bool is_refused;
	char *memory, *other, *whole[2];
} test;

/*
 * Open the files.
 * Return: whether the file system supports direct I/O.
 */
static bool begin(int flags)
{
	char path[32];
	int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	test.direct = open(path, flags | O_DIRECT | O_CLOEXEC);
	if (test.direct < 0) {
		close(fd);
		return false;
	}
	test.buffered = fd;
	test.reference = unit_file(true);
	test.handle = unit_context(16);
	assert_int_equal(pwrite(test.buffered, test.memory, 4096, 0), 4096);
	test.is_refused = pwrite(test.direct, test.memory + 1, 1, 1) < 0;
	assert_true(!test.is_refused || errno == EINVAL);
	uaio_config.bounces = true;
	return true;
}

static void end(void)
{
	unit_destroy(test.handle);
	unit_close(test.direct);
	unit_close(test.buffered);
	unit_close(test.reference);
	uaio_config.bounces = false;
}

static int make_memory(void **state)
{
	(void)state;
	test.memory = aligned_alloc(65536, ROOM);
	test.other = aligned_alloc(65536, ROOM);
	test.whole[0] = malloc(2 * ROOM);
	test.whole[1] = malloc(2 * ROOM);
	for (unsigned i = 0; i < ROOM; i++)
		test.memory[i] = (char)(i * 7 + i / 256);
	return unit_engine(state);
}

static int free_memory(void **state)
{
	(void)state;
	free(test.memory);
	free(test.other);
	free(test.whole[0]);
	free(test.whole[1]);
	return 0;
}

static void fill(size_t bytes)
{
	const int fds[] = { test.buffered, test.reference };

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ftruncate(fds[i], 0), 0);
		assert_int_equal(pwrite(fds[i], test.memory + 3, bytes, 0),
				 bytes);
	}
}

static void assert_same_files(void)
{
	struct stat st[2];

	assert_int_equal(fstat(test.buffered, &st[0]), 0);
	assert_int_equal(fstat(test.reference, &st[1]), 0);
	assert_int_equal(st[0].st_size, st[1].st_size);
	assert_true(st[0].st_size <= 2 * ROOM);
	assert_int_equal(pread(test.buffered, test.whole[0], 2 * ROOM, 0),
			 st[0].st_size);
	assert_int_equal(pread(test.reference, test.whole[1], 2 * ROOM, 0),
			 st[0].st_size);
	assert_memory_equal(test.whole[0], test.whole[1], st[0].st_size);
}

static int64_t execute(struct iocb *iocb)
{
	assert_int_equal(unit_submit(test.handle, iocb), 1);
	return unit_reap_one(test.handle);
}

static int64_t execute_flags(unsigned opcode, char *memory, size_t bytes,
			     int64_t off, int flags)
{
	struct iocb iocb = unit_iocb(opcode, test.direct, memory, bytes, off);

	iocb.aio_rw_flags = flags;
	return execute(&iocb);
}

static int64_t execute_plain(unsigned opcode, char *memory, size_t bytes,
			     int64_t off)
{
	return execute_flags(opcode, memory, bytes, off, 0);
}

/* all combinations */

static const unsigned shifts[] = { 0, 1, 516 };
static const unsigned offsets[] = { 0, 1, 512, 4095, 5000, 266000 };
static const unsigned lengths[] = { 1, 511, 512, 4096, 9001, 262144 + 777 };
static const unsigned sizes[] = { 0, 300, 4096 + 77, 400000 };

/* Divide the memory into four adjacent vectors, one of them empty. */
static unsigned cut(struct iovec iov[4], char *memory, size_t bytes)
{
	size_t first = bytes / 3, second = bytes / 2;

	iov[0] = (struct iovec){ memory, first };
	iov[1] = (struct iovec){ memory + first, 0 };
	iov[2] = (struct iovec){ memory + first, second };
	iov[3] = (struct iovec){ memory + first + second,
				 bytes - first - second };
	return 4;
}

struct row {
	unsigned shift, off, bytes, size;
	bool is_vectored;
};

static int64_t execute_row(const struct row *row, bool is_write, char *memory)
{
	struct iovec iov[4];
	unsigned nr;

	if (!row->is_vectored)
		return execute_plain(is_write ? IOCB_CMD_PWRITE
					      : IOCB_CMD_PREAD,
				     memory + row->shift, row->bytes, row->off);
	nr = cut(iov, memory + row->shift, row->bytes);
	return execute_plain(is_write ? IOCB_CMD_PWRITEV : IOCB_CMD_PREADV,
			     (char *)iov, nr, row->off);
}

static void assert_reads(const struct row *row)
{
	size_t bytes = row->shift + row->bytes;
	int64_t expected;

	/*
	 * The kernel may overwrite memory beyond the bytes that the read returns, up to
	 * the end of the last sector.
	 */
	memset(test.other, CANARY, bytes + 512);
	memset(test.whole[0], CANARY, bytes + 512);
	expected = pread(test.reference, test.whole[0] + row->shift, row->bytes,
			 row->off);
	assert_int_equal(execute_row(row, false, test.other), expected);
	assert_memory_equal(test.other, test.whole[0], row->shift + expected);
	assert_memory_equal(test.other + bytes, test.whole[0] + bytes, 512);
}

static void assert_writes(const struct row *row)
{
	int64_t expected = pwrite(test.reference, test.memory + row->shift,
				  row->bytes, row->off);

	assert_int_equal(execute_row(row, true, test.memory), expected);
	assert_same_files();
}

static void for_rows(bool is_write, unsigned nr_ways)
{
	unsigned nr = NR_ELEMENTS(shifts) * NR_ELEMENTS(offsets) *
		      NR_ELEMENTS(lengths) * NR_ELEMENTS(sizes);

	if (!begin(O_RDWR))
		skip();
	for (unsigned i = 0; i < nr * nr_ways; i++) {
		unsigned rest = i % nr, size = rest;
		struct row row = { .is_vectored =
					   nr_ways == 1 ? i & 1 : i >= nr };

		row.shift = shifts[rest % NR_ELEMENTS(shifts)];
		rest /= NR_ELEMENTS(shifts);
		row.off = offsets[rest % NR_ELEMENTS(offsets)];
		rest /= NR_ELEMENTS(offsets);
		row.bytes = lengths[rest % NR_ELEMENTS(lengths)];
		rest /= NR_ELEMENTS(lengths);
		row.size = sizes[rest];
		if (is_write || size % (nr / NR_ELEMENTS(sizes)) == 0)
			fill(row.size);
		(is_write ? assert_writes : assert_reads)(&row);
	}
	end();
}

static void reads_are_as_from_any_file(void **state)
{
	(void)state;
	for_rows(false, 2);
}

/*
 * Test each row by one write only, plain or vectored, because a disk needs
 * some time for each write.
 */
static void writes_are_as_to_any_file(void **state)
{
	(void)state;
	for_rows(true, 1);
}

/*
 * Tests of requests that are not executed through a copy, and so keep the kernel's
 * result
 */

static int64_t call(unsigned opcode, char *memory, size_t bytes, int64_t off,
		    int flags)
{
	const struct iovec iov = { memory, bytes };
	int64_t ret = opcode == IOCB_CMD_PREAD
			      ? preadv2(test.direct, &iov, 1, off, flags)
			      : pwritev2(test.direct, &iov, 1, off, flags);

	return ret < 0 ? -errno : ret;
}

/*
 * Check that the request has the kernel's own result, whether the kernel accepts the
 * request or not.
 */
static void assert_the_kernels(unsigned opcode, unsigned shift, size_t bytes,
			       int64_t off, int flags)
{
	const struct iovec iov = { test.memory + shift, bytes };
	int64_t expected = call(opcode, iov.iov_base, bytes, off, flags);
	struct iocb iocb =
		unit_iocb(opcode, test.direct, test.memory + shift, bytes, off);
	long ret;

	iocb.aio_rw_flags = flags;
	ret = unit_submit(test.handle, &iocb);
	if (expected == -EOPNOTSUPP && ret < 0)
		assert_int_equal(ret, expected);
	else
		assert_int_equal(unit_reap_one(test.handle), expected);
	if (expected > 0 && opcode == IOCB_CMD_PWRITE)
		assert_int_equal(pwritev2(test.reference, &iov, 1, off,
					  flags & RWF_APPEND),
				 expected);
}

static void assert_all_the_kernels(int flags)
{
	assert_the_kernels(IOCB_CMD_PWRITE, 1, 512, 0, flags);
	assert_the_kernels(IOCB_CMD_PWRITE, 0, 511, 0, flags);
	assert_the_kernels(IOCB_CMD_PWRITE, 0, 512, 7, flags);
	assert_the_kernels(IOCB_CMD_PWRITE, 0, 300, 8192, flags);
}

static void without_the_option_the_kernels_answer_stays(void **state)
{
	(void)state;
	if (!begin(O_RDWR))
		skip();
	uaio_config.bounces = false;
	fill(8192);
	assert_all_the_kernels(0);
	assert_all_the_kernels(RWF_HIPRI);
	assert_the_kernels(IOCB_CMD_PREAD, 1, 512, 0, 0);
	assert_the_kernels(IOCB_CMD_PREAD, 0, 511, 0, 0);
	assert_the_kernels(IOCB_CMD_PREAD, 0, 512, 7, 0);
	end();
}

static void nowait_and_atomic_keep_the_kernels_answer(void **state)
{
	(void)state;
	if (!begin(O_RDWR))
		skip();
	fill(8192);
	if (test.is_refused) {
		assert_all_the_kernels(RWF_NOWAIT);
		assert_all_the_kernels(RWF_ATOMIC_);
		assert_the_kernels(IOCB_CMD_PREAD, 1, 512, 0, RWF_NOWAIT);
		assert_all_the_kernels(RWF_APPEND);
	}
	end();
}

static void appending_keeps_the_kernels_answer(void **state)
{
	(void)state;
	if (!begin(O_RDWR | O_APPEND))
		skip();
	fill(8192);
	if (test.is_refused)
		assert_all_the_kernels(0);
	end();
}

static void a_write_only_file_is_not_written_in_part(void **state)
{
	struct row row = { .shift = 1, .bytes = 8192, .off = 512 };

	(void)state;
	if (!begin(O_WRONLY))
		skip();
	fill(8192);
	if (test.is_refused) {
		assert_the_kernels(IOCB_CMD_PWRITE, 0, 511, 0, 0);
		assert_the_kernels(IOCB_CMD_PWRITE, 0, 512, 7, 0);
		assert_same_files();
	}
	/*
	 * The range is whole blocks, so the write succeeds whatever the alignment of
	 * its memory.
	 */
	assert_writes(&row);
	end();
}

/* flags and ways */

static void flags_that_any_file_accepts_are_honoured(void **state)
{
	static const int flags[] = { RWF_DSYNC, RWF_SYNC, RWF_HIPRI,
				     RWF_DSYNC | RWF_HIPRI };

	(void)state;
	if (!begin(O_RDWR))
		skip();
	for (unsigned i = 0; i < NR_ELEMENTS(flags); i++) {
		fill(6000);
		for (unsigned off = 1; off < 8000; off += 2333) {
			assert_int_equal(pwrite(test.reference, test.memory + 1,
						777, off),
					 777);
			assert_int_equal(execute_flags(IOCB_CMD_PWRITE,
						       test.memory + 1, 777,
						       off, flags[i]),
					 777);
		}
		assert_same_files();
	}
	assert_int_equal(execute_flags(IOCB_CMD_PREAD, test.other + 1, 777, 5,
				       RWF_HIPRI),
			 777);
	assert_int_equal(pread(test.reference, test.whole[0], 777, 5), 777);
	assert_memory_equal(test.other + 1, test.whole[0], 777);
	end();
}

static void copies_are_the_same_without_workers(void **state)
{
	struct row row = { .shift = 1, .bytes = 3333, .off = 4000 };
	int old;

	(void)state;
	if (!begin(O_RDWR))
		skip();
	old = uaio_wq_limit_workers(UAIO_BOUNDED, 0);
	assert_true(old > 0);
	fill(5000);
	assert_writes(&row);
	assert_reads(&row);
	assert_int_equal(uaio_wq_limit_workers(UAIO_BOUNDED, old), 0);
	end();
}

static void
what_was_submitted_is_executed_before_its_number_is_closed(void **state)
{
	enum { NR = 16 };
	struct iocb iocbs[NR];
	struct io_event events[NR];

	(void)state;
	if (!begin(O_RDWR))
		skip();
	fill(100);
	for (unsigned i = 0; i < NR; i++) {
		iocbs[i] = unit_iocb(IOCB_CMD_PWRITE, test.direct,
				     test.memory + i, 700, 650 * i);
		assert_int_equal(unit_submit(test.handle, &iocbs[i]), 1);
		assert_int_equal(
			pwrite(test.reference, test.memory + i, 700, 650 * i),
			700);
	}
	unit_close(test.direct);
	assert_int_equal(unit_reap(test.handle, NR, events), NR);
	assert_same_files();
	test.direct = dup(test.buffered);
	end();
}

/* memory */

static void unmapped_memory_fails_with_efault(void **state)
{
	char *gone = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec iov[2] = { { test.memory, 100 }, { gone + 4096, 100 } };

	(void)state;
	assert_ptr_not_equal(gone, MAP_FAILED);
	if (!begin(O_RDWR))
		skip();
	assert_int_equal(munmap(gone + 4096, 4096), 0);
	fill(9000);
	assert_int_equal(execute_plain(IOCB_CMD_PREAD, gone + 4097, 100, 3),
			 -EFAULT);
	assert_int_equal(execute_plain(IOCB_CMD_PWRITE, gone + 4097, 100, 3),
			 -EFAULT);
	if (test.is_refused) {
		assert_int_equal(
			execute_plain(IOCB_CMD_PREAD, gone + 1, 5000, 3),
			-EFAULT);
		assert_int_equal(
			execute_plain(IOCB_CMD_PWRITE, gone + 1, 5000, 8000),
			-EFAULT);
		assert_int_equal(
			execute_plain(IOCB_CMD_PWRITEV, (char *)iov, 2, 3),
			-EFAULT);
	}
	assert_same_files();
	munmap(gone, 4096);
	end();
}

static long refusal;

static bool refuse_copies(long nr, const long args[6], long *ret_res)
{
	(void)args;
	if (nr != SYS_process_vm_readv && nr != SYS_process_vm_writev)
		return false;
	*ret_res = refusal;
	return true;
}

static void where_copies_are_refused_the_kernels_answer_stays(void **state)
{
	static const long refusals[] = { -EPERM, -ENOSYS };

	(void)state;
	if (!begin(O_RDWR))
		skip();
	fill(9000);
	unit_hook(refuse_copies);
	for (unsigned i = 0; i < 2; i++) {
		refusal = refusals[i];
		assert_all_the_kernels(0);
		assert_the_kernels(IOCB_CMD_PREAD, 1, 512, 0, 0);
	}
	unit_hook(NULL);
	assert_same_files();
	end();
}

static bool refuse_memory(long nr, const long args[6], long *ret_res)
{
	if (nr != SYS_mmap || args[1] != 64 * 4096 + 65536)
		return false;
	*ret_res = -ENOMEM;
	return true;
}

/*
 * Runs in a child. In this process the library would reuse memory that earlier tests
 * have allocated, so the hook would have no call to refuse.
 */
static int without_memory(void)
{
	int64_t res;

	if (unit_engine(NULL) || !begin(O_RDWR))
		return 1;
	fill(9000);
	unit_hook(refuse_memory);
	res = execute_plain(IOCB_CMD_PWRITE, test.memory + 1, 100, 3);
	unit_hook(NULL);
	if (test.is_refused)
		assert_int_equal(res, -ENOMEM);
	end();
	return 0;
}

static void without_memory_for_the_copy_the_request_fails(void **state)
{
	(void)state;
	if (!begin(O_RDWR))
		skip();
	end();
	assert_int_equal(unit_in_child(without_memory), 0);
}

/* statistics */

static uint64_t nr_bounced(void)
{
	struct uaio_stats_sum sum;

	uaio_stats_sum(&sum);
	return sum.nr_direct[UAIO_DIRECT_BOUNCED];
}

static void each_request_copied_is_counted_once(void **state)
{
	uint64_t before;

	(void)state;
	if (!begin(O_RDWR))
		skip();
	uaio_config.has_stats = true;
	fill(300000);
	before = nr_bounced();
	execute_plain(IOCB_CMD_PREAD, test.other, 4096, 0);
	execute_plain(IOCB_CMD_PWRITE, test.memory, 4096, 4096);
	assert_int_equal(nr_bounced(), before);
	execute_plain(IOCB_CMD_PREAD, test.other + 1, 270000, 1);
	execute_plain(IOCB_CMD_PWRITE, test.memory + 1, 270000, 4096);
	execute_plain(IOCB_CMD_PWRITE, test.memory, 1, 299999);
	execute_flags(IOCB_CMD_PWRITE, test.memory, 1, 1, RWF_HIPRI);
	assert_int_equal(nr_bounced(), before + (test.is_refused ? 4 : 0));
	execute_flags(IOCB_CMD_PWRITE, test.memory, 1, 1, RWF_NOWAIT);
	assert_int_equal(nr_bounced(), before + (test.is_refused ? 4 : 0));
	uaio_config.has_stats = false;
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(reads_are_as_from_any_file),
		UNIT_TEST(writes_are_as_to_any_file),
		UNIT_TEST(without_the_option_the_kernels_answer_stays),
		UNIT_TEST(nowait_and_atomic_keep_the_kernels_answer),
		UNIT_TEST(appending_keeps_the_kernels_answer),
		UNIT_TEST(a_write_only_file_is_not_written_in_part),
		UNIT_TEST(flags_that_any_file_accepts_are_honoured),
		UNIT_TEST(copies_are_the_same_without_workers),
		UNIT_TEST(
			what_was_submitted_is_executed_before_its_number_is_closed),
		UNIT_TEST(unmapped_memory_fails_with_efault),
		UNIT_TEST(where_copies_are_refused_the_kernels_answer_stays),
		UNIT_TEST(without_memory_for_the_copy_the_request_fails),
		UNIT_TEST(each_request_copied_is_counted_once),
	};

	return cmocka_run_group_tests(tests, make_memory, free_memory);
}
