/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "options/config.h"
#include "proc/entry.h"
#include "req/stats.h"
#include "aio/aio.h"
#include "aio/ctx.h"
#include "unit.h"

enum { SIZE = UNIT_KEY_BYTES, NR_THREADS = 8 };

static struct uaio_stats_sum sum_now(void)
{
	struct uaio_stats_sum sum;

	uaio_stats_sum(&sum);
	return sum;
}

static int start(void **state)
{
	uaio_config.has_stats = true;
	return unit_setup(state);
}

static int stop(void **state)
{
	uaio_config.has_stats = false;
	return unit_teardown(state);
}

#define STATS_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

/* histogram buckets */

static void a_greater_value_has_no_lower_bucket(void **state)
{
	unsigned last = 0;

	(void)state;
	for (uint64_t value = 0; value < 1ull << 50;
	     value += 1 + (value >> 7)) {
		unsigned bucket = uaio_hist_bucket(value);

		assert_true(bucket >= last && bucket <= last + 1);
		assert_true(bucket < UAIO_NR_BUCKETS);
		last = bucket;
	}
	assert_int_equal(last, UAIO_NR_BUCKETS - 1);
	assert_int_equal(uaio_hist_bucket(UINT64_MAX), UAIO_NR_BUCKETS - 1);
}

/* Record each time from 1 to 1000 microseconds once, in mixed order. */
static int quantiles_of_known_times(void)
{
	struct uaio_stats_sum sum;
	const struct uaio_time_sum *time = &sum.times[UAIO_TIME_WAIT];
	uint64_t rate;

	uaio_config.has_stats = true;
	if (uaio_engine_start())
		return 1;
	while (!(rate = uaio_cycles_per_us()))
		;
	for (uint64_t i = 0; i < 1000; i++)
		uaio_stats_time(uaio_stats_mine(), UAIO_TIME_WAIT, 5,
				5 + (i * 389 % 1000 + 1) * rate, 1);
	/*
	 * If the clock has gone backwards, so that the end is before the start, the
	 * time counts as 0.
	 */
	uaio_stats_time(uaio_stats_mine(), UAIO_TIME_SUBMIT, 7, 6, 1);
	sum = sum_now();
	if (time->nr != 1000 || time->max != 1000000)
		return 2;
	if (time->p50 < 480000 || time->p50 > 520000)
		return 3;
	if (time->p99 < 950000 || time->p99 > 1000000)
		return 4;
	if (time->p999 < time->p99 || time->p999 > time->max)
		return 5;
	if (sum.times[UAIO_TIME_SUBMIT].nr != 1 ||
	    sum.times[UAIO_TIME_SUBMIT].max != 0)
		return 6;
	return 0;
}

static void quantiles_are_those_of_the_times(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(quantiles_of_known_times), 0);
}

/* counts */

static struct iocb *read_of(struct iocb *iocb, int fd, char *buffer)
{
	*iocb = unit_iocb(IOCB_CMD_PREAD, fd, buffer, SIZE, 0);
	return iocb;
}

/* The kernel AIO call submits two requests, and the second is refused. */
static void a_refused_request_is_not_counted(void **state)
{
	char buffer[SIZE];
	int fd = unit_numbered_file(true, 1);
	uint64_t handle = unit_context(8);
	struct uaio_stats_sum before, after;
	struct iocb good, bad, *list[] = { &good, &bad };
	struct io_event event;

	(void)state;
	read_of(&good, fd, buffer);
	read_of(&bad, fd, buffer);
	bad.aio_lio_opcode = 99;
	before = sum_now();
	assert_int_equal(uaio_aio_submit(handle, 2, list), 1);
	assert_int_equal(uaio_aio_submit(handle, 1, &list[1]), -EINVAL);
	assert_int_equal(unit_reap(handle, 1, &event), 1);
	after = sum_now();
	assert_int_equal(after.nr_accepted - before.nr_accepted, 1);
	assert_int_equal(after.nr_completed - before.nr_completed, 1);
	assert_int_equal(after.nr_submits - before.nr_submits, 1);
	unit_close(fd);
	unit_destroy(handle);
}

static void a_call_counts_each_request_under_its_way(void **state)
{
	char buffers[4][SIZE];
	int fd = unit_numbered_file(true, 1), ends[2];
	uint64_t handle = unit_context(8);
	struct uaio_stats_sum before, after;
	struct iocb iocbs[4], *list[4];
	struct io_event events[4];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	for (unsigned i = 0; i < 4; i++)
		list[i] = read_of(&iocbs[i], fd, buffers[i]);
	iocbs[1].aio_fildes = (uint32_t)ends[0];
	iocbs[2] = unit_iocb(IOCB_CMD_FDSYNC, fd, NULL, 0, 0);
	before = sum_now();
	assert_int_equal(uaio_aio_submit(handle, 4, list), 4);
	assert_int_equal(write(ends[1], buffers[0], SIZE), SIZE);
	assert_int_equal(unit_reap(handle, 4, events), 4);
	after = sum_now();
	for (unsigned way = 0; way < UAIO_NR_WAYS; way++)
		assert_int_equal(after.nr_by_way[UAIO_OP_READ][way] -
					 before.nr_by_way[UAIO_OP_READ][way],
				 way == UAIO_WAY_INLINE   ? 2
				 : way == UAIO_WAY_PARKED ? 1
							  : 0);
	assert_int_equal(
		after.nr_by_way[UAIO_OP_FDSYNC][UAIO_WAY_QUEUED] -
			before.nr_by_way[UAIO_OP_FDSYNC][UAIO_WAY_QUEUED],
		1);
	assert_int_equal(after.nr_completed - before.nr_completed, 4);
	assert_int_equal(after.times[UAIO_TIME_SUBMIT].nr -
				 before.times[UAIO_TIME_SUBMIT].nr,
			 1);
	assert_int_equal(after.times[UAIO_TIME_WAIT].nr -
				 before.times[UAIO_TIME_WAIT].nr,
			 2);
	assert_int_equal(after.times[UAIO_TIME_SERVICE].nr -
				 before.times[UAIO_TIME_SERVICE].nr,
			 4);
	assert_int_equal(after.times[UAIO_TIME_TOTAL].nr -
				 before.times[UAIO_TIME_TOTAL].nr,
			 4);
	assert_true(after.peak_in_flight >= 2);
	close(ends[1]);
	unit_close(ends[0]);
	unit_close(fd);
	unit_destroy(handle);
}

/*
 * Let nr reads of the context be in flight at once.
 * Return: the sum, over all contexts, of the largest number of requests in flight.
 */
static uint32_t peaks_after(uint64_t handle, const int ends[2], unsigned nr)
{
	struct iocb iocbs[8], *list[8];
	struct io_event events[8];
	char byte[8];

	for (unsigned i = 0; i < nr; i++) {
		list[i] = read_of(&iocbs[i], ends[0], &byte[i]);
		iocbs[i].aio_nbytes = 1;
	}
	assert_int_equal(uaio_aio_submit(handle, nr, list), nr);
	assert_int_equal(write(ends[1], "12345678", nr), nr);
	assert_int_equal(unit_reap(handle, nr, events), nr);
	return uaio_stats_gauges->queues_peaks;
}

static void peaks_of_contexts_are_added_up(void **state)
{
	uint64_t first = unit_context(8), second = unit_context(8);
	uint32_t before = uaio_stats_gauges->queues_peaks;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(peaks_after(first, ends, 3), before + 3);
	assert_int_equal(peaks_after(first, ends, 2), before + 3);
	assert_int_equal(peaks_after(second, ends, 2), before + 5);
	assert_int_equal(peaks_after(first, ends, 4), before + 6);
	unit_destroy(first);
	assert_int_equal(uaio_stats_gauges->queues_peaks, before + 2);
	assert_true(sum_now().peak_in_flight >= before + 6);
	unit_destroy(second);
	assert_int_equal(uaio_stats_gauges->queues_peaks, before);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/*
 * Three no-op requests are counted under the way in which they were executed: two
 * inline, one by a worker.
 */
static void a_no_op_is_counted_under_its_way(void **state)
{
	uint64_t handle = unit_context(3);
	struct uaio_stats_sum before = sum_now(), after;
	struct uaio_submission submission;
	struct io_event events[3];

	(void)state;
	assert_true(uaio_enter());
	assert_int_equal(uaio_submission_begin(&submission, handle, 3), 3);
	for (unsigned i = 0; i < 3; i++) {
		struct uaio_sqe sqe = {
			.op = UAIO_OP_NOP,
			.is_async = i == 1,
		};

		assert_int_equal(uaio_batch_add(&submission.batch, NULL, &sqe),
				 0);
	}
	uaio_submission_end(&submission, 3);
	uaio_leave();
	assert_int_equal(unit_reap(handle, 3, events), 3);
	after = sum_now();
	assert_int_equal(after.nr_by_way[UAIO_OP_NOP][UAIO_WAY_INLINE] -
				 before.nr_by_way[UAIO_OP_NOP][UAIO_WAY_INLINE],
			 2);
	assert_int_equal(after.nr_by_way[UAIO_OP_NOP][UAIO_WAY_QUEUED] -
				 before.nr_by_way[UAIO_OP_NOP][UAIO_WAY_QUEUED],
			 1);
	assert_int_equal(after.nr_completed - before.nr_completed, 3);
	unit_destroy(handle);
}

/* The request is cancelled before any thread has begun to execute it. */
static void a_cancelled_request_is_complete_without_service(void **state)
{
	char buffer[SIZE];
	int ends[2];
	uint64_t handle = unit_context(8);
	struct uaio_stats_sum before, after;
	struct iocb iocb;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	read_of(&iocb, ends[0], buffer);
	before = sum_now();
	assert_int_equal(unit_submit(handle, &iocb), 1);
	unit_destroy(handle);
	after = sum_now();
	assert_int_equal(after.nr_completed - before.nr_completed, 1);
	assert_int_equal(after.times[UAIO_TIME_WAIT].nr -
				 before.times[UAIO_TIME_WAIT].nr,
			 1);
	close(ends[1]);
	unit_close(ends[0]);
}

/* threads */

static int shared_fd;

static long many_requests(void *arg)
{
	char buffer[SIZE];
	uint64_t handle = unit_context(8);

	for (unsigned i = 0; i < unit_rounds(2000); i++) {
		struct iocb iocb;

		if (unit_submit(handle, read_of(&iocb, shared_fd, buffer)) != 1)
			return 1;
		(void)unit_reap_one(handle);
	}
	unit_destroy(handle);
	if (arg)
		*(const void **)arg = uaio_stats_of_thread;
	return 0;
}

static void threads_lose_no_count(void **state)
{
	struct unit_thread threads[NR_THREADS];
	struct uaio_stats_sum before, after;

	(void)state;
	shared_fd = unit_numbered_file(true, 1);
	before = sum_now();
	for (unsigned round = 0; round < 4; round++) {
		for (unsigned i = 0; i < NR_THREADS; i++)
			unit_thread_start(&threads[i], many_requests, NULL);
		after = sum_now();
		assert_true(after.nr_accepted >= before.nr_accepted);
		for (unsigned i = 0; i < NR_THREADS; i++)
			assert_int_equal(unit_thread_join(&threads[i]), 0);
	}
	after = sum_now();
	assert_int_equal(after.nr_accepted - before.nr_accepted,
			 4 * NR_THREADS * unit_rounds(2000));
	assert_int_equal(after.nr_completed - before.nr_completed,
			 4 * NR_THREADS * unit_rounds(2000));
	unit_close(shared_fd);
}

static void blocks_of_dead_threads_are_used_again(void **state)
{
	enum { NR = 100 };
	const void *blocks[NR];
	unsigned nr_blocks = 0;

	(void)state;
	shared_fd = unit_numbered_file(true, 1);
	for (unsigned i = 0; i < NR; i++) {
		struct unit_thread thread;
		const void *block = NULL;
		unsigned at = 0;

		unit_thread_start(&thread, many_requests, &block);
		assert_int_equal(unit_thread_join(&thread), 0);
		assert_non_null(block);
		while (at < nr_blocks && blocks[at] != block)
			at++;
		blocks[at] = block;
		nr_blocks += at == nr_blocks;
	}
	assert_in_range(nr_blocks, 1, 10);
	unit_close(shared_fd);
}

static bool refuse_blocks(long nr, const long args[6], long *ret_res)
{
	*ret_res = -ENOMEM;
	return nr == SYS_mmap && args[1] == (long)UAIO_LIVE_BYTES;
}

static int counts_without_memory(void)
{
	static char buffer[SIZE];
	int fd = unit_numbered_file(true, 1);
	uint64_t handle;
	struct iocb iocb;

	uaio_config.has_stats = true;
	unit_hook(refuse_blocks);
	handle = unit_context(8);
	if (unit_submit(handle, read_of(&iocb, fd, buffer)) != 1)
		return 1;
	if (unit_reap_one(handle) != SIZE)
		return 2;
	return sum_now().nr_accepted == 1 ? 0 : 3;
}

enum { NR_MET_REQUESTS = 200 };
static uint32_t nr_met; /* atomic */

/*
 * Count only once all threads have a block of statistics. Otherwise a thread could take
 * over the block of a thread that has ended.
 * Return: whether the thread uses the shared block.
 */
static long meet_and_count(void *arg)
{
	struct uaio_live_block *mine;

	(void)arg;
	mine = uaio_stats_mine();
	add_relaxed(&nr_met, 1);
	while (load_relaxed(&nr_met) < UAIO_LIVE_BLOCKS + 7)
		(void)sched_yield();
	for (unsigned i = 0; i < NR_MET_REQUESTS; i++)
		uaio_stats_add(mine, &mine->nr_accepted[UAIO_OP_NOP][0], 1);
	return load_relaxed(&mine->owner) < 0;
}

static void threads_without_a_block_lose_no_count(void **state)
{
	enum { NR = UAIO_LIVE_BLOCKS + 7 };
	static struct unit_thread threads[NR];
	struct uaio_stats_sum before, after;
	unsigned nr_shared = 0;

	(void)state;
	shared_fd = unit_numbered_file(true, 1);
	before = sum_now();
	store_relaxed(&nr_met, 0);
	for (unsigned i = 0; i < NR; i++)
		unit_thread_start(&threads[i], meet_and_count, NULL);
	for (unsigned i = 0; i < NR; i++)
		nr_shared += unit_thread_join(&threads[i]) == 1;
	after = sum_now();
	/*
	 * At least eight threads find no free block of statistics. More do so if
	 * workers and threads of earlier tests own blocks as well.
	 */
	assert_in_range(nr_shared, 8, NR);
	assert_int_equal(after.nr_accepted - before.nr_accepted,
			 NR * NR_MET_REQUESTS);
	unit_close(shared_fd);
}

static void requests_are_counted_where_memory_is_refused(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(counts_without_memory), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STATS_TEST(a_greater_value_has_no_lower_bucket),
		STATS_TEST(quantiles_are_those_of_the_times),
		STATS_TEST(a_refused_request_is_not_counted),
		STATS_TEST(a_call_counts_each_request_under_its_way),
		STATS_TEST(peaks_of_contexts_are_added_up),
		STATS_TEST(a_no_op_is_counted_under_its_way),
		STATS_TEST(a_cancelled_request_is_complete_without_service),
		STATS_TEST(threads_lose_no_count),
		STATS_TEST(blocks_of_dead_threads_are_used_again),
		STATS_TEST(threads_without_a_block_lose_no_count),
		STATS_TEST(requests_are_counted_where_memory_is_refused),
	};

	return cmocka_run_group_tests_name("stats", tests, unit_engine, NULL);
}
