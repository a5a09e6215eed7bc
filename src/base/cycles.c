/* SPDX-License-Identifier: MIT */
#include "base/cycles.h"

#include "base/atomic.h"
#include "base/sleep.h"

/* Both samples of the two clocks are taken this far apart at least. */
enum { MIN_BASELINE_NS = 1000000 };

static uint64_t start_cycles;
static int64_t start_ns;
static uint64_t per_us; /* atomic: 0 until known */

void uaio_cycles_start(void)
{
	start_cycles = uaio_cycles();
	start_ns = uaio_now_ns();
}

uint64_t uaio_cycles_per_us(void)
{
	/* relaxed: everybody who computes it gets nearly the same */
	uint64_t rate = load_relaxed(&per_us);
	int64_t ns;

	if (rate)
		return rate;
	ns = uaio_now_ns() - start_ns;
	if (ns < MIN_BASELINE_NS)
		return 0;
	rate = (uaio_cycles() - start_cycles) / ((uint64_t)ns / 1000);
	if (rate == 0)
		rate = 1;
	store_relaxed(&per_us, rate);
	return rate;
}
