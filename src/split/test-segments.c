/* SPDX-License-Identifier: MIT */
/*
 * Tests which direct requests are cut, and into how many segments, on unusual files:
 * with blocks that are smaller than the memory's alignment, or large compared with the
 * request, and files on which requests are short or fail.
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "options/config.h"
#include "file/file.h"
#include "split/split.h"
#include "split/tune.h"
#include "unit.h"

enum {
	SEGMENT = UAIO_SEGMENT_BYTES,
	DIOALIGN = 0x2000,
};

/*
 * What the simulated kernel reports, and how many calls it got; it transfers no bytes.
 */
static struct {
	uint32_t memory, offset;
	/* atomic */
	uint32_t nr_calls;
	uint32_t nr_misaligned;
} is;

static void note_part(const void *at, uint64_t bytes)
{
	if (((uintptr_t)at & (is.memory - 1)) || bytes & (is.offset - 1))
		add_relaxed(&is.nr_misaligned, 1);
}

static long answer_read(long nr, const long args[6])
{
	const struct iovec *iov = (const struct iovec *)args[1];
	long bytes = 0;

	add_relaxed(&is.nr_calls, 1);
	if (nr == SYS_pread64) {
		note_part((const void *)args[1], (uint64_t)args[2]);
		return args[2];
	}
	for (long i = 0; i < args[2]; i++) {
		note_part(iov[i].iov_base, iov[i].iov_len);
		bytes += (long)iov[i].iov_len;
	}
	return bytes;
}

static bool answer(long nr, const long args[6], long *ret_res)
{
	uint32_t *statx = (uint32_t *)args[4];

	switch (nr) {
	case SYS_fcntl:
		if (args[1] != F_GETFL)
			return false;
		*ret_res = O_RDWR | O_DIRECT;
		return true;
	case SYS_fstatfs: *ret_res = unit_say_ext4(args); return true;
	case SYS_statx:
		memset(statx, 0, 256);
		statx[0] = DIOALIGN;
		statx[38] = is.memory;
		statx[39] = is.offset;
		*ret_res = 0;
		return true;
	case SYS_pread64:
	case SYS_preadv: *ret_res = answer_read(nr, args); return true;
	default: return false;
	}
}

static unsigned nr_calls_for(struct iocb iocb, uint64_t bytes)
{
	uint64_t handle = unit_context(1);
	int fd = unit_file(true);

	unit_hook(answer);
	uaio_config.force_worker = true;
	uaio_config.segments = 4;
	is.nr_calls = is.nr_misaligned = 0;
	iocb.aio_fildes = (unsigned)fd;
	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_int_equal(unit_reap_one(handle), bytes);
	unit_destroy(handle);
	unit_hook(NULL);
	unit_close(fd);
	uaio_config.force_worker = false;
	uaio_config.segments = 0;
	return is.nr_calls;
}

static char buffer[4 * SEGMENT] __attribute__((aligned(65536)));

static void segments_are_as_aligned_as_their_request(void **state)
{
	struct iovec iovs[] = {
		{ buffer, 4096 + 512 },
		{ buffer + 8192, 3 * SEGMENT - 4096 - 512 },
	};

	(void)state;
	is.memory = 4096;
	is.offset = 512;
	assert_int_equal(nr_calls_for(unit_iocb(IOCB_CMD_PREAD, -1, buffer,
						3 * SEGMENT, 8192),
				      3 * SEGMENT),
			 4);
	assert_int_equal(is.nr_misaligned, 0);
	assert_int_equal(nr_calls_for(unit_iocb(IOCB_CMD_PREAD, -1, buffer,
						3 * SEGMENT, 512),
				      3 * SEGMENT),
			 1);
	assert_int_equal(is.nr_misaligned, 0);
	assert_int_equal(
		nr_calls_for(unit_iocb(IOCB_CMD_PREADV, -1, iovs, 2, 0),
			     3 * SEGMENT),
		1);
	assert_int_equal(is.nr_misaligned, 0);
}

/*
 * The kernel shortens a request of 2 GiB to whole pages. If blocks are larger than
 * pages, the shortened request is misaligned.
 */
static void a_huge_request_is_shortened_to_whole_blocks(void **state)
{
	enum { HALF = 1 << 30 };
	const uint64_t bytes = 2ull * HALF;
	char *memory = mmap(NULL, bytes, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct iovec iovs[] = { { memory, HALF }, { memory + HALF, HALF } };
	struct iocb iocb = unit_iocb(IOCB_CMD_PREADV, -1, iovs, 2, 0);

	(void)state;
	assert_ptr_not_equal(memory, MAP_FAILED);
	is.memory = is.offset = 4096;
	assert_int_equal(nr_calls_for(iocb, UAIO_RW_BYTES_MAX),
			 bytes / SEGMENT);
	/*
	 * With blocks of 64 KiB, the shortened request is misaligned. So the library
	 * must make one call for the request, which the kernel can then refuse.
	 */
	is.offset = 65536;
	assert_int_equal(nr_calls_for(iocb, UAIO_RW_BYTES_MAX), 1);
	assert_int_equal(munmap(memory, bytes), 0);
}

enum { BYTES = 1 << 20, TOOK_NS = 1 << 26 };

/*
 * Execute a request, with invented times: it takes longer if it is cut.
 * Return: whether it was cut.
 */
static bool execute_once(struct uaio_file *file, int64_t res, int64_t cut_res)
{
	struct uaio_trial trial;
	unsigned at_once = uaio_tune_begin(file, false, BYTES, &trial);

	trial.start_ns -= TOOK_NS * (int64_t)at_once;
	uaio_tune_end(&trial, at_once > 1 ? cut_res : res);
	return at_once > 1;
}

/*
 * In each round, execute nr requests. The last one is short, as it reaches the end of
 * the file.
 * Return: how many requests were cut.
 */
static unsigned nr_cut_in(struct uaio_file *file, unsigned rounds, unsigned nr)
{
	unsigned nr_cut = 0;

	for (unsigned i = 0; i < rounds * nr; i++) {
		int64_t res = i % nr == nr - 1 ? SEGMENT : BYTES;

		nr_cut += execute_once(file, res, res);
	}
	return nr_cut;
}

/*
 * A client reads a file from start to end, again and again. The library must find out
 * whether cutting is faster. It may try the slower way at most once in 32 requests.
 */
static void rounds_of_any_length_are_measured(void **state)
{
	enum { ROUNDS = 100 };

	(void)state;
	for (unsigned nr = 1; nr <= 12; nr++) {
		struct uaio_file file = { .tuning = NULL };

		(void)nr_cut_in(&file, ROUNDS, nr);
		assert_true(nr_cut_in(&file, ROUNDS, nr) <= ROUNDS * nr / 32);
		uaio_tuning_put(file.tuning);
	}
}

static void requests_that_fail_in_segments_are_not_cut(void **state)
{
	enum { NR = 100 };
	struct uaio_file file = { .tuning = NULL };
	unsigned nr_cut = 0;

	(void)state;
	for (unsigned i = 0; i < NR; i++)
		(void)execute_once(&file, BYTES, -EIO);
	for (unsigned i = 0; i < NR; i++)
		nr_cut += execute_once(&file, BYTES, -EIO);
	assert_true(nr_cut <= NR / 32);
	uaio_tuning_put(file.tuning);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(segments_are_as_aligned_as_their_request),
		UNIT_TEST(a_huge_request_is_shortened_to_whole_blocks),
		UNIT_TEST(rounds_of_any_length_are_measured),
		UNIT_TEST(requests_that_fail_in_segments_are_not_cut),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
