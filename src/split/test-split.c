/* SPDX-License-Identifier: MIT */
/*
 * Tests that the library writes each member of struct uaio_split before it reads it,
 * also where the memory is not cleared. The test fills the memory with a pattern
 * (poison). Under memcheck it marks the memory as undefined, so that memcheck reports
 * each read of it.
 *
 * The file is in memory, and looks as if it had been opened with O_DIRECT on a disk.
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "options/config.h"
#include "split/split.h"
#include "aio/aio.h"
#include "unit.h"

#ifdef HAVE_MEMCHECK
#include <valgrind/memcheck.h>
#else
#define RUNNING_ON_VALGRIND 0
#define VALGRIND_MAKE_MEM_UNDEFINED(at, bytes) ((void)(at), (void)(bytes))
#define VALGRIND_MAKE_MEM_DEFINED(at, bytes) ((void)(at), (void)(bytes))
#endif

enum {
	PAGE = 4096,
	BLOCK = 512,
	SEGMENT = UAIO_SEGMENT_BYTES,
	PAGES_MAX = 1000 + 64 + 1,
	FILE_BYTES = PAGES_MAX * PAGE,
	/* how many bytes the slab maps at once */
	BATCH = 65536,
	NR_OBJECTS = BATCH / sizeof(struct uaio_split),
	POISON = 0xA5,
	NR_CALLS = 256,
	IOVS_MAX = 96,
	DIOALIGN = 0x2000,
};

static union {
	char bytes[BATCH];
	struct uaio_split objects[NR_OBJECTS];
} batch __attribute__((aligned(PAGE)));

static int fd;
static uint64_t handle;
static char file_content[FILE_BYTES] __attribute__((aligned(PAGE)));
static char buffer[FILE_BYTES] __attribute__((aligned(PAGE)));

static struct {
	/* atomic */
	/* if not 0: when the slab next calls mmap(), it gets `batch` */
	uint32_t gives_batch;
	/* how often the hook has refused to map a batch */
	uint32_t nr_refused;
	uint32_t is_refusing;
	/* if not 0: reads succeed without a system call */
	uint32_t is_skipping;

	/* under lock */
	pthread_mutex_t lock;
	struct call {
		uint64_t off, bytes;
	} calls[NR_CALLS];
	unsigned nr_calls;
} hook = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Memory */

static void poison(void *at, size_t bytes)
{
	memset(at, POISON, bytes);
	VALGRIND_MAKE_MEM_UNDEFINED(at, bytes);
}

/* Fill a free struct with poison, except the list node that the slab uses. */
static void poison_free(struct uaio_split *split)
{
	poison((char *)split + sizeof(split->node),
	       sizeof(*split) - sizeof(split->node));
}

static bool is_poison(const void *at, size_t bytes)
{
	const unsigned char *byte = at;
	bool is_so = true;

	VALGRIND_MAKE_MEM_DEFINED(at, bytes);
	for (size_t i = 0; i < bytes && is_so; i++)
		is_so = byte[i] == POISON;
	return is_so;
}

/*
 * A runner executes segments, one after the other (split.h).
 * Return: whether the runners from index nr on still contain only poison.
 */
static bool is_untouched_from(const struct uaio_split *split, unsigned nr)
{
	return is_poison(&split->runners[nr],
			 (UAIO_SPLIT_RUNNERS - nr) * sizeof(split->runners[0]));
}

/* Start the slab anew: the first struct that it returns is then objects[0]. */
static void use_batch(void)
{
	uaio_split_init();
	poison(&batch, sizeof(batch));
	store_release(&hook.gives_batch, 1);
}

/* The kernel */

static bool answer_mmap(const long args[6], long *ret_res)
{
	uint32_t one = 1;

	if (args[1] != BATCH)
		return false;
	if (load_relaxed(&hook.is_refusing)) {
		add_relaxed(&hook.nr_refused, 1);
		*ret_res = -ENOMEM;
		return true;
	}
	if (!cas_relaxed(&hook.gives_batch, &one, 0))
		return false;
	*ret_res = (long)batch.bytes;
	return true;
}

static uint64_t bytes_of(long nr, const long args[6])
{
	const struct iovec *iov = (const struct iovec *)args[1];
	uint64_t bytes = 0;

	if (nr == SYS_pread64 || nr == SYS_pwrite64)
		return (uint64_t)args[2];
	for (long i = 0; i < args[2]; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

static bool answer_data(long nr, const long args[6], long *ret_res)
{
	uint64_t bytes = bytes_of(nr, args);

	if (load_relaxed(&hook.is_skipping)) {
		*ret_res = (long)bytes;
		return true;
	}
	pthread_mutex_lock(&hook.lock);
	if (hook.nr_calls < NR_CALLS)
		hook.calls[hook.nr_calls++] =
			(struct call){ (uint64_t)args[3], bytes };
	pthread_mutex_unlock(&hook.lock);
	return false;
}

static bool answer(long nr, const long args[6], long *ret_res)
{
	switch (nr) {
	case SYS_mmap: return answer_mmap(args, ret_res);
	case SYS_fcntl:
		if (args[1] != F_GETFL)
			return false;
		*ret_res = uaio_sys_raw(nr, args[0], args[1], 0, 0, 0, 0) |
			   O_DIRECT;
		return true;
	case SYS_fstatfs: *ret_res = unit_say_ext4(args); return true;
	case SYS_statx:
		memset((void *)args[4], 0, 256);
		((uint32_t *)args[4])[0] = DIOALIGN;
		((uint32_t *)args[4])[38] = 4; /* alignment of memory */
		((uint32_t *)args[4])[39] = BLOCK;
		*ret_res = 0;
		return true;
	case SYS_pread64:
	case SYS_pwrite64:
	case SYS_preadv:
	case SYS_pwritev:
	case SYS_preadv2:
	case SYS_pwritev2: return answer_data(nr, args, ret_res);
	default: return false;
	}
}

/* Requests */

static const unsigned opcodes[] = { IOCB_CMD_PREAD, IOCB_CMD_PREADV,
				    IOCB_CMD_PWRITE, IOCB_CMD_PWRITEV };

static bool is_read(unsigned opcode)
{
	return opcode == IOCB_CMD_PREAD || opcode == IOCB_CMD_PREADV;
}

static unsigned place_parts(struct iovec iovs[IOVS_MAX], size_t bytes)
{
	static const unsigned blocks[] = { 1, 511, 800, 512, 7, 1023, 3000 };
	unsigned nr = 0;

	for (size_t at = 0; at < bytes; nr++) {
		size_t part = blocks[nr % NR_ELEMENTS(blocks)] * (size_t)BLOCK;

		assert_true(nr < IOVS_MAX);
		part = part < bytes - at ? part : bytes - at;
		iovs[nr] = (struct iovec){ buffer + at, part };
		at += part;
	}
	return nr;
}

static void fill(char *at, size_t bytes, uint64_t factor)
{
	uint64_t *words = (uint64_t *)(void *)at;

	for (size_t i = 0; i < bytes / 8; i++)
		words[i] = (i + 1) * factor;
}

/* Execute one request. Check its result, and its data. */
static void execute(unsigned opcode, uint64_t off, size_t bytes)
{
	bool is_vectored =
		opcode == IOCB_CMD_PREADV || opcode == IOCB_CMD_PWRITEV;
	struct iovec iovs[IOVS_MAX];
	struct iocb iocb;

	fill(buffer, bytes, is_read(opcode) ? 0 : off + bytes);
	iocb = unit_iocb(opcode, fd, is_vectored ? (void *)iovs : buffer,
			 is_vectored ? place_parts(iovs, bytes) : bytes,
			 (int64_t)off);
	hook.nr_calls = 0;
	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_int_equal(unit_reap_one(handle), bytes);
	if (!is_read(opcode))
		assert_int_equal(
			pread(fd, file_content + off, bytes, (off_t)off),
			bytes);
	assert_memory_equal(buffer, file_content + off, bytes);
}

static unsigned nr_segments(uint64_t off, uint64_t bytes)
{
	return (unsigned)((off + bytes - 1) / SEGMENT - off / SEGMENT + 1);
}

/* Tests */

static void only_members_before_the_runners_are_cleared(void **state)
{
	struct uaio_req *req = (struct uaio_req *)(void *)buffer;

	(void)state;
	for (unsigned nr = 1; nr <= UAIO_SPLIT_RUNNERS; nr++) {
		const uint64_t off = 5 * PAGE, bytes = 63 * SEGMENT + PAGE;
		struct uaio_split expected, *split;

		use_batch();
		split = uaio_split_new(req, bytes, off, nr);
		assert_ptr_equal(split, &batch.objects[0]);
		memset(&expected, 0, sizeof(expected));
		expected.req = req;
		expected.bytes = bytes;
		expected.first_bytes = SEGMENT - off;
		expected.nr_segments = UAIO_SPLIT_RUNNERS;
		expected.nr_runners = expected.refs = nr;
		assert_memory_equal(split, &expected, UAIO_SPLIT_CLEARED);
		assert_true(is_untouched_from(split, nr));
		assert_true(is_poison(split + 1, sizeof(*split)));
		for (unsigned i = 0; i < nr; i++) {
			const struct uaio_segment_runner *runner =
				&split->runners[i];

			assert_ptr_equal(runner->split, split);
			assert_false(list_is_linked(&runner->work.link));
			assert_true(is_poison(&runner->begin,
					      sizeof(runner->begin)));
		}
	}
}

static void there_are_no_more_runners_than_segments(void **state)
{
	(void)state;
	for (unsigned nr = 2; nr < UAIO_SPLIT_RUNNERS; nr += 5) {
		struct uaio_split *split;

		use_batch();
		split = uaio_split_new(NULL, nr * SEGMENT, PAGE,
				       UAIO_SPLIT_RUNNERS);
		assert_int_equal(split->nr_segments, nr + 1);
		assert_int_equal(split->nr_runners, nr + 1);
		assert_int_equal(split->refs, nr + 1);
		assert_true(is_untouched_from(split, nr + 1));
	}
}

/*
 * Each request gets a struct with poison, whatever an earlier request has left in it.
 */
static void setting_a_request_up_touches_only_its_runners(void **state)
{
	static const unsigned counts[] = { 2, 64, 3, 16, 4, 33, 5 };

	(void)state;
	use_batch();
	for (unsigned i = 0; i < NR_ELEMENTS(counts) * 4; i++) {
		unsigned at_once = counts[i % NR_ELEMENTS(counts)];
		uint64_t off = i * 3 * PAGE;
		size_t bytes = (128 + i * 31) * (size_t)PAGE;
		unsigned nr = nr_segments(off, bytes);

		uaio_config.segments = at_once;
		execute(opcodes[i / NR_ELEMENTS(counts)], off, bytes);
		assert_int_equal(hook.nr_calls, nr);
		assert_true(is_untouched_from(&batch.objects[0],
					      nr < at_once ? nr : at_once));
		/*
		 * The struct of the earlier request was freed, so the next request gets
		 * the same struct.
		 */
		assert_true(
			is_poison(&batch.objects[1],
				  sizeof(batch) - sizeof(batch.objects[0])));
		poison_free(&batch.objects[0]);
	}
}

static void a_request_is_not_cut_if_memory_is_refused(void **state)
{
	(void)state;
	uaio_config.segments = 16;
	for (unsigned i = 0; i < NR_ELEMENTS(opcodes); i++) {
		unsigned nr = load_relaxed(&hook.nr_refused);

		uaio_split_init();
		store_relaxed(&hook.is_refusing, 1);
		assert_null(uaio_split_new(NULL, SEGMENT, 0, 2));
		execute(opcodes[i], PAGE, 900 * PAGE);
		store_relaxed(&hook.is_refusing, 0);
		assert_int_equal(load_relaxed(&hook.nr_refused), nr + 2);
		assert_int_equal(hook.nr_calls, 1);
	}
}

static int compare_calls(const void *a, const void *b)
{
	const struct call *x = a, *y = b;

	return (x->off > y->off) - (x->off < y->off);
}

/*
 * Check that the system calls cover the whole request, and that each begins at a border
 * between segments.
 */
static void assert_cut(uint64_t off, uint64_t bytes)
{
	uint64_t at = off;

	qsort(hook.calls, hook.nr_calls, sizeof(hook.calls[0]), compare_calls);
	for (unsigned i = 0; i < hook.nr_calls; i++) {
		uint64_t border = (at / SEGMENT + 1) * SEGMENT;
		uint64_t end = border < off + bytes ? border : off + bytes;

		assert_int_equal(hook.calls[i].off, at);
		assert_int_equal(hook.calls[i].bytes, end - at);
		at = end;
	}
	assert_int_equal(at, off + bytes);
}

static void borders_are_those_of_the_file(void **state)
{
	static const unsigned pages[] = { 1, 63, 64, 65, 127, 128, 129, 1000 };
	static const unsigned offs[] = {
		BLOCK, 63 * PAGE, 64 * PAGE - BLOCK, 0, PAGE, 64 * PAGE,
	};
	unsigned nr_offs = RUNNING_ON_VALGRIND ? 2 : NR_ELEMENTS(offs);

	(void)state;
	use_batch();
	uaio_config.segments = 4;
	for (unsigned i = 0; i < NR_ELEMENTS(pages); i++)
		for (unsigned j = 0; j < nr_offs; j++)
			for (unsigned k = 0; k < 4; k++) {
				/*
				 * For odd k, the request uses only a part of its last
				 * page.
				 */
				size_t bytes = pages[i] * (size_t)PAGE +
					       (k & 1) * BLOCK;

				execute(opcodes[k], offs[j], bytes);
				if (bytes >= UAIO_SPLIT_BYTES_MIN)
					assert_cut(offs[j], bytes);
				else
					assert_int_equal(hook.nr_calls, 1);
			}
}

/*
 * If these requests were cut into segments, they would fail or have another effect.
 */
static void misaligned_and_extending_requests_are_not_cut(void **state)
{
	enum { BYTES = 4 * SEGMENT };
	struct iovec iovs[] = { { buffer, SEGMENT + 8 },
				{ buffer + SEGMENT + 8, BYTES - SEGMENT - 8 } };
	const struct iocb iocbs[] = {
		unit_iocb(IOCB_CMD_PREAD, fd, buffer, BYTES, 8),
		unit_iocb(IOCB_CMD_PREAD, fd, buffer + 1, BYTES, 0),
		unit_iocb(IOCB_CMD_PREAD, fd, buffer, BYTES - 1, 0),
		unit_iocb(IOCB_CMD_PREADV, fd, iovs, 2, 0),
		unit_iocb(IOCB_CMD_PWRITE, fd, buffer, BYTES,
			  FILE_BYTES - BYTES + BLOCK),
		unit_iocb(IOCB_CMD_PWRITE, fd, buffer, BYTES, FILE_BYTES),
	};

	(void)state;
	use_batch();
	uaio_config.segments = 4;
	for (unsigned i = 0; i < NR_ELEMENTS(iocbs); i++) {
		struct iocb iocb = iocbs[i];

		hook.nr_calls = 0;
		assert_int_equal(unit_submit(handle, &iocb), 1);
		assert_true(unit_reap_one(handle) > 0);
		assert_int_equal(hook.nr_calls, 1);
		assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
	}
	assert_true(is_poison(&batch, sizeof(batch)));
}

static struct uaio_split *shared;

static long drop_second(void *arg)
{
	(void)arg;
	uaio_split_refuse(&shared->runners[1].work);
	return 0;
}

static long drop_third(void *arg)
{
	(void)arg;
	uaio_split_refuse(&shared->runners[2].work);
	return 0;
}

/*
 * Two threads drop references. In round n, the second thread drops its reference when
 * the first has executed n instructions.
 */
static void references_are_dropped_at_the_same_time(void **state)
{
	unsigned nr = 0;

	(void)state;
	if (RUNNING_ON_VALGRIND)
		skip();
	for (unsigned n = 0; n <= nr; n++) {
		long rets[2];

		use_batch();
		shared = uaio_split_new(NULL, 3 * SEGMENT, 0, 3);
		nr = unit_interleave(n, drop_second, drop_third, NULL, rets);
		assert_int_equal(load_relaxed(&shared->nr_begun), 2);
		/*
		 * The starter (the worker that dequeued the request) still has its
		 * reference, so the request is not complete.
		 */
		assert_int_equal(load_relaxed(&shared->refs), 1);
	}
	if (UNIT_CAN_STEP)
		assert_true(nr > 4);
}

/* Eight requests have four runners each, and all of them end at the same time. */
static void each_request_in_segments_is_completed_once(void **state)
{
	enum { DEPTH = 8 };
	unsigned rounds = RUNNING_ON_VALGRIND ? 50 : unit_rounds(2000);
	struct timespec zero = { 0, 0 };

	(void)state;
	use_batch();
	uaio_config.segments = 4;
	store_relaxed(&hook.is_skipping, 1);
	for (unsigned i = 0; i < rounds; i++) {
		struct iocb iocbs[DEPTH];
		struct io_event events[DEPTH];
		unsigned seen = 0;

		for (unsigned j = 0; j < DEPTH; j++) {
			iocbs[j] = unit_iocb(IOCB_CMD_PREAD, fd, buffer,
					     4 * SEGMENT, 0);
			iocbs[j].aio_data = 1u << j;
			assert_int_equal(unit_submit(handle, &iocbs[j]), 1);
		}
		assert_int_equal(unit_reap(handle, DEPTH, events), DEPTH);
		for (unsigned j = 0; j < DEPTH; j++) {
			assert_int_equal(events[j].res, 4 * SEGMENT);
			seen |= (unsigned)events[j].data;
		}
		assert_int_equal(seen, (1u << DEPTH) - 1);
		assert_int_equal(
			uaio_aio_getevents(handle, 0, 1, (void *)events, &zero),
			0);
	}
	store_relaxed(&hook.is_skipping, 0);
	assert_true(
		is_poison(&batch.objects[DEPTH],
			  sizeof(batch) - DEPTH * sizeof(batch.objects[0])));
}

/* Setup */

static int start(void **state)
{
	int ret = unit_setup(state);

	fd = unit_file(true);
	fill(file_content, FILE_BYTES, 0x9E3779B97F4A7C15);
	if (pwrite(fd, file_content, FILE_BYTES, 0) != FILE_BYTES)
		return -1;
	unit_hook(answer);
	uaio_config.force_worker = true;
	handle = unit_context(16);
	/*
	 * Execute requests once, so that all other memory is already allocated when
	 * tests run.
	 */
	uaio_config.segments = 1;
	for (unsigned i = 0; i < NR_ELEMENTS(opcodes); i++)
		execute(opcodes[i], 0, 2 * SEGMENT);
	return ret;
}

static int stop(void **state)
{
	unit_destroy(handle);
	unit_close(fd);
	unit_hook(NULL);
	uaio_split_init();
	uaio_config.force_worker = false;
	return unit_teardown(state);
}

#define DIRECT_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DIRECT_TEST(only_members_before_the_runners_are_cleared),
		DIRECT_TEST(there_are_no_more_runners_than_segments),
		DIRECT_TEST(setting_a_request_up_touches_only_its_runners),
		DIRECT_TEST(a_request_is_not_cut_if_memory_is_refused),
		DIRECT_TEST(borders_are_those_of_the_file),
		DIRECT_TEST(misaligned_and_extending_requests_are_not_cut),
		DIRECT_TEST(references_are_dropped_at_the_same_time),
		DIRECT_TEST(each_request_in_segments_is_completed_once),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
