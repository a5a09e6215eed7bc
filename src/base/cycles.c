/* SPDX-License-Identifier: MIT */
#include "base/cycles.h"

#include "base/atomic.h"
#include "base/sleep.h"

enum {
	/*
	 * The cycle counter's rate is computed from two samples that are at least this
	 * far apart.
	 */
	MIN_BASELINE_NS = 1000000,
	/*
	 * How many pairs (cycle counter, CLOCK_MONOTONIC) look() reads for one sample.
	 * look() returns the pair that took the least time.
	 */
	LOOKS = 3,
};

/* The values of the cycle counter and of CLOCK_MONOTONIC at the same moment. */
struct sample {
	uint64_t cycles;
	int64_t ns;
};

static struct sample start;
/* atomic: cycles per microsecond; 0: not known yet */
static uint64_t per_us;

/*
 * Read the cycle counter and CLOCK_MONOTONIC. The thread may be preempted between the
 * two readings. So the function reads a pair several times, and returns the pair that
 * took the least time.
 */
static struct sample look(void)
{
	uint64_t least = UINT64_MAX;
	struct sample best = { 0 };

	for (int i = 0; i < LOOKS; i++) {
		uint64_t before = uaio_cycles();
		int64_t ns = uaio_now_ns();
		uint64_t took = uaio_cycles() - before;

		if (took < least) {
			least = took;
			best = (struct sample){ before + took / 2, ns };
		}
	}
	return best;
}

void uaio_cycles_start(void)
{
	start = look();
}

uint64_t uaio_cycles_per_us(void)
{
	/*
	 * relaxed: several threads may compute the rate, but their results are nearly
	 * equal
	 */
	uint64_t rate = load_relaxed(&per_us);
	struct sample now;

	if (rate)
		return rate;
	if (uaio_now_ns() - start.ns < MIN_BASELINE_NS)
		return 0;
	now = look();
	rate = (now.cycles - start.cycles) /
	       ((uint64_t)(now.ns - start.ns) / 1000);
	if (rate == 0)
		rate = 1;
	store_relaxed(&per_us, rate);
	return rate;
}
