/* SPDX-License-Identifier: MIT */
#include "req/sample.h"

#include "live/live.h"
#include "options/config.h"
#include "req/stats.h"

static_assert((UAIO_SAMPLE_EVERY & (UAIO_SAMPLE_EVERY - 1)) == 0 &&
		      UAIO_SAMPLE_EVERY <= 16 &&
		      UAIO_SAMPLE_FIRST % UAIO_SAMPLE_EVERY == 0 &&
		      UAIO_SAMPLE_FIRST / UAIO_SAMPLE_EVERY <= UINT8_MAX,
	      "runs are cut by a mask, and the first ones are whole");

enum { FIRST_RUNS = UAIO_SAMPLE_FIRST / UAIO_SAMPLE_EVERY };

_Thread_local struct uaio_sampler uaio_sampler
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Return: whether a tool wants the times of all submissions. */
static bool wants_all(void)
{
	const struct uaio_live_page *page = uaio_live_page();
	/* relaxed: a tool writes this time, and no other data depends on it */
	uint64_t until = page ? load_relaxed(&page->control.timed_until) : 0;

	return unlikely(until) && uaio_cycles() < until;
}

static bool times_all(const struct uaio_live_block *block)
{
	return uaio_config.has_report || uaio_stats_is_traced(block) ||
	       uaio_sampler.nr_first < FIRST_RUNS || wants_all();
}

/*
 * A linear congruential generator: only the upper bits of its state are random enough.
 */
static uint32_t draw(struct uaio_sampler *sampler)
{
	if (!sampler->random)
		sampler->random = (uint32_t)uaio_cycles() | 1;
	sampler->random = sampler->random * 1664525 + 1013904223;
	return sampler->random >> 16 & (UAIO_SAMPLE_EVERY - 1);
}

static void time_this(struct uaio_live_block *block, uint32_t nr_after)
{
	uaio_sampler.is_due = false;
	uaio_sampler.weight = UAIO_SAMPLE_EVERY;
	uaio_sampler.nr_left = (uint8_t)nr_after;
	uaio_stats_add(block, &block->nr_sampled, 1);
}

/*
 * Decide whether to time the current submission and the next ones. Called for the first
 * submission of a run (sample.h, I1), and for the submission in the run that is timed.
 */
void uaio_sample_draw(struct uaio_live_block *block)
{
	struct uaio_sampler *sampler = &uaio_sampler;
	uint32_t nr_before;

	if (times_all(block)) {
		sampler->is_due = false;
		sampler->weight = sampler->next = 1;
		sampler->nr_left = UAIO_SAMPLE_EVERY - 1;
		if (sampler->nr_first < FIRST_RUNS)
			sampler->nr_first++;
		return;
	}
	sampler->next = 0;
	if (sampler->is_due) {
		time_this(block, sampler->nr_after);
		return;
	}
	nr_before = draw(sampler);
	if (!nr_before) {
		time_this(block, UAIO_SAMPLE_EVERY - 1);
		return;
	}
	sampler->is_due = true;
	sampler->nr_after =
		(UAIO_SAMPLE_EVERY - 1 - nr_before) & (UAIO_SAMPLE_EVERY - 1);
	sampler->weight = 0;
	sampler->nr_left = (uint8_t)(nr_before - 1);
}
