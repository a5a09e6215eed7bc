/* SPDX-License-Identifier: MIT */
#include "base/cycles.h"

#include "base/atomic.h"
#include "base/sleep.h"

enum {
	/* The least time between the two samples that give the rate. */
	MIN_BASELINE_NS = 1000000,
	/* How often both clocks are read for one sample. */
	LOOKS = 3,
};

/* The values of both clocks (the cycle counter and CLOCK_MONOTONIC) at one moment. */
struct sample {
	uint64_t cycles;
	int64_t ns;
};

static struct sample start;
static uint64_t per_us; /* atomic: 0 until known */

/*
 * Read both clocks. The thread may be preempted between the two readings, so they are
 * repeated, and the fastest pair is used.
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
	 * relaxed: it does not matter which thread's rate is used, as all are nearly
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
