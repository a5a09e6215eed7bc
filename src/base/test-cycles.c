/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "base/cycles.h"

#include "base/sleep.h"
#include "unit.h"

enum {
	HELD_NS = 1500000,
	/*
	 * Slightly longer than MIN_BASELINE_NS, the time after which the rate of the
	 * cycle counter is known.
	 */
	BASELINE_NS = 1100000,
	TRUTH_NS = 30000000,
};

static void pass(int64_t ns)
{
	for (int64_t end = uaio_now_ns() + ns; uaio_now_ns() < end;)
		;
}

static long note_start(void *arg)
{
	(void)arg;
	uaio_cycles_start();
	return 0;
}

static long let_time_pass(void *arg)
{
	(void)arg;
	pass(HELD_NS);
	return 0;
}

/*
 * Measure the rate over a long time, so that preemption of this thread does not matter.
 */
static uint64_t true_rate(void)
{
	int64_t ns = uaio_now_ns();
	uint64_t cycles = uaio_cycles();

	pass(TRUTH_NS);
	return (uaio_cycles() - cycles) /
	       ((uint64_t)(uaio_now_ns() - ns) / 1000);
}

static unsigned held_at;
static uint64_t truth;

static int start_and_be_held(void)
{
	uint64_t rate;
	long rets[2];

	(void)unit_interleave(held_at, note_start, let_time_pass, NULL, rets);
	pass(BASELINE_NS);
	rate = uaio_cycles_per_us();
	return rate > truth * 3 / 4 && rate < truth * 5 / 4 ? 0 : 1;
}

/*
 * A process measures the rate only once. So the rate must be right even if the thread
 * is preempted between reading the two clocks.
 */
static void preemption_between_both_clocks_leaves_the_rate_right(void **state)
{
	long rets[2];
	unsigned nr;

	(void)state;
	truth = true_rate();
	nr = unit_interleave(0, note_start, let_time_pass, NULL, rets);
	for (held_at = 1; held_at <= nr; held_at += 2)
		assert_int_equal(unit_in_child(start_and_be_held), 0);
	print_message("%u instructions\n", nr);
	if (UNIT_CAN_STEP)
		assert_true(nr > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(preemption_between_both_clocks_leaves_the_rate_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
