/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <string.h>

#include "base/atomic.h"
#include "live/live.h"
#include "options/config.h"
#include "proc/entry.h"
#include "req/sample.h"
#include "req/stats.h"
#include "aio/aio.h"
#include "aio/ctx.h"
#include "unit.h"

enum {
	EVERY = UAIO_SAMPLE_EVERY,
	FIRST = UAIO_SAMPLE_FIRST,
	NR_RUNS = 4096,
	/*
	 * the expected number of runs (of EVERY submissions each) whose timed
	 * submission has a given position
	 */
	SHARE = NR_RUNS / EVERY,
};

/*
 * Put the thread into the state after its first UAIO_SAMPLE_FIRST submissions. No tool
 * reads the thread's block of statistics.
 */
static void begin_late(struct uaio_live_block *block)
{
	memset(block, 0, sizeof(*block));
	block->owner = 1;
	uaio_sampler =
		(struct uaio_sampler){ .nr_first = FIRST / UAIO_SAMPLE_EVERY };
}

static uint64_t weigh(struct uaio_live_block *block, unsigned nr)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < nr; i++)
		sum += uaio_sample_begin(block);
	return sum;
}

static void the_first_submissions_of_a_thread_are_all_timed(void **state)
{
	static struct uaio_live_block block;

	(void)state;
	begin_late(&block);
	uaio_sampler.nr_first = 0;
	for (unsigned i = 0; i < FIRST; i++) {
		assert_int_equal(uaio_sample_begin(&block), 1);
		assert_int_not_equal(uaio_sample_now(), 0);
	}
	assert_int_equal(block.nr_sampled, 0);
	assert_int_equal(weigh(&block, EVERY), EVERY);
	assert_int_equal(block.nr_sampled, 1);
}

/*
 * In each run of EVERY submissions one is timed, and each position is chosen equally
 * often.
 */
static void one_submission_of_each_run_is_timed_at_random(void **state)
{
	static struct uaio_live_block block;
	unsigned nr_at[EVERY] = { 0 };

	(void)state;
	begin_late(&block);
	for (unsigned run = 0; run < NR_RUNS; run++) {
		unsigned nr = 0;

		for (unsigned i = 0; i < EVERY; i++) {
			uint32_t weight = uaio_sample_begin(&block);

			assert_true(weight == 0 || weight == EVERY);
			assert_int_equal(!weight, !uaio_sample_now());
			nr += weight != 0;
			nr_at[i] += weight != 0;
		}
		assert_int_equal(nr, 1);
	}
	assert_int_equal(block.nr_sampled, NR_RUNS);
	/*
	 * Allow six standard deviations from the mean. A standard deviation is 15.5.
	 */
	for (unsigned i = 0; i < EVERY; i++)
		assert_in_range(nr_at[i], SHARE - 93, SHARE + 93);
}

static void all_submissions_of_a_traced_thread_are_timed(void **state)
{
	static struct uaio_live_block block;

	(void)state;
	begin_late(&block);
	for (unsigned before = 0; before < EVERY; before++) {
		(void)weigh(&block, before);
		block.is_traced = 1;
		assert_int_equal(weigh(&block, 3), 3);
		block.is_traced = 0;
		/*
		 * The tool has stopped tracing. The thread notices that only when its
		 * next run (EVERY submissions) begins.
		 */
		assert_int_equal(weigh(&block, EVERY - 1), EVERY - 1);
	}
}

static void all_submissions_are_timed_where_a_report_is_made(void **state)
{
	static struct uaio_live_block block;
	bool had_report = uaio_config.has_report;

	(void)state;
	begin_late(&block);
	uaio_config.has_report = true;
	for (unsigned i = 0; i < 3 * EVERY; i++)
		assert_int_equal(uaio_sample_begin(&block), 1);
	assert_int_equal(block.nr_sampled, 0);
	uaio_config.has_report = had_report;
}

static int times_all_while_a_tool_asks(void)
{
	static struct uaio_live_block block;
	struct uaio_live_page *page;

	uaio_config.has_live = true;
	if (uaio_engine_start())
		return 1;
	page = uaio_live_page();
	if (!page)
		return 2;
	begin_late(&block);
	if (weigh(&block, EVERY) != EVERY || block.nr_sampled != 1)
		return 3;
	store_relaxed(&page->control.timed_until, UINT64_MAX);
	if (weigh(&block, 3 * EVERY) != 3ul * EVERY || block.nr_sampled != 1)
		return 4;
	/* The tool no longer asks that all submissions are timed. */
	store_relaxed(&page->control.timed_until, uaio_cycles());
	if (weigh(&block, 3 * EVERY) != 3ul * EVERY || block.nr_sampled != 4)
		return 5;
	uaio_live_remove();
	return 0;
}

static void all_submissions_are_timed_while_a_tool_asks(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(times_all_while_a_tool_asks), 0);
}

enum { NR_CALLS = 10 * EVERY, NR_OF_CALL = 3 };

/* Submit three no-op requests, of which a worker executes the second. */
static void submit_no_ops(uint64_t handle)
{
	struct uaio_submission submission;
	struct io_event events[NR_OF_CALL];

	assert_true(uaio_enter());
	assert_int_equal(uaio_submission_begin(&submission, handle, NR_OF_CALL),
			 NR_OF_CALL);
	for (unsigned i = 0; i < NR_OF_CALL; i++) {
		struct uaio_sqe sqe = { .op = UAIO_OP_NOP, .is_async = i == 1 };

		assert_int_equal(uaio_batch_add(&submission.batch, NULL, &sqe),
				 0);
	}
	uaio_submission_end(&submission, NR_OF_CALL);
	uaio_leave();
	assert_int_equal(unit_reap(handle, NR_OF_CALL, events), NR_OF_CALL);
}

/*
 * The counts of requests are exact, and each timed request counts UAIO_SAMPLE_EVERY
 * times.
 */
static void sampled_times_stand_for_all_requests(void **state)
{
	static struct uaio_stats_sum before, after;
	uint64_t handle;
	struct uaio_live_block *block;

	(void)state;
	uaio_config.has_stats = true;
	handle = unit_context(NR_OF_CALL);
	block = uaio_stats_mine();
	assert_non_null(block);
	uaio_sampler =
		(struct uaio_sampler){ .nr_first = FIRST / UAIO_SAMPLE_EVERY };
	uaio_stats_sum(&before);
	for (unsigned i = 0; i < NR_CALLS; i++)
		submit_no_ops(handle);
	uaio_stats_sum(&after);
	assert_int_equal(after.nr_submits - before.nr_submits, NR_CALLS);
	assert_int_equal(after.nr_accepted - before.nr_accepted,
			 NR_CALLS * NR_OF_CALL);
	assert_int_equal(after.nr_completed - before.nr_completed,
			 NR_CALLS * NR_OF_CALL);
	assert_int_equal(block->nr_sampled, NR_CALLS / EVERY);
	for (unsigned time = 0; time < UAIO_NR_TIMES; time++) {
		uint64_t nr = time == UAIO_TIME_SUBMIT  ? NR_CALLS
			      : time == UAIO_TIME_WAIT  ? NR_CALLS
			      : time == UAIO_TIME_PAGES ? 0
							: NR_CALLS * NR_OF_CALL;

		assert_int_equal(after.times[time].nr - before.times[time].nr,
				 nr);
	}
	/*
	 * A request without a start time would seem to have taken all the time since
	 * the clock was 0.
	 */
	assert_true(after.times[UAIO_TIME_TOTAL].max < 3600ull * 1000000000);
	unit_destroy(handle);
	uaio_config.has_stats = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			the_first_submissions_of_a_thread_are_all_timed),
		cmocka_unit_test(one_submission_of_each_run_is_timed_at_random),
		cmocka_unit_test(all_submissions_of_a_traced_thread_are_timed),
		cmocka_unit_test(
			all_submissions_are_timed_where_a_report_is_made),
		cmocka_unit_test(all_submissions_are_timed_while_a_tool_asks),
		cmocka_unit_test_setup_teardown(
			sampled_times_stand_for_all_requests, unit_setup,
			unit_teardown),
	};

	return cmocka_run_group_tests_name("sample", tests, unit_engine, NULL);
}
