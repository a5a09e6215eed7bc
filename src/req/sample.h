/* SPDX-License-Identifier: MIT */
/*
 * Which submissions are timed
 *
 * Every request is counted. Reading the clock and adding to the histograms costs as much
 * as the rest of a short request. So all submissions are timed only with --stats or
 * --stats-json, while a thread is traced, and while a tool asks for it (`timed_until` of
 * live/layout.h). Each thread also times its first UAIO_SAMPLE_FIRST submissions, so a
 * short program has all of its times.
 *
 *   I1  Otherwise a thread divides its submissions into runs of UAIO_SAMPLE_EVERY. It
 *       times one of each run, chosen at random, and adds its times UAIO_SAMPLE_EVERY
 *       times to the histograms. So each bucket is expected to hold what timing all
 *       submissions would give, whatever period the program's submissions have.
 *   I2  A request has the weight of its submission: how many times it is added to a
 *       histogram; 0: it is not timed.
 *   I3  A thread checks at the begin of each run whether a tool wants all times. A thread
 *       that becomes traced times its next submission.
 *
 * Context: the submitting thread, which has entered (entry.h).
 *
 * Tested by test-sample.c and test/run/live.py.
 */
#ifndef UAIO_REQ_SAMPLE_H
#define UAIO_REQ_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/cycles.h"
#include "live/layout.h"

enum {
	UAIO_SAMPLE_EVERY = 16,
	UAIO_SAMPLE_FIRST = 1024,
};

/* Small: a library loaded by dlopen() gets little thread-local storage (entry.h). */
struct uaio_sampler {
	uint32_t random;  /* state of the generator */
	uint8_t weight;   /* of the current submission */
	uint8_t nr_left;  /* submissions until the next uaio_sample_draw() */
	uint8_t next : 1; /* the weight of the nr_left submissions */
	/* after nr_left submissions comes the timed one of the run */
	bool is_due : 1;
	/* If is_due: submissions of the run after the timed one. */
	uint8_t nr_after : 4;
	uint8_t nr_first; /* timed runs of the thread's first submissions */
};

extern _Thread_local struct uaio_sampler uaio_sampler
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

void uaio_sample_draw(struct uaio_live_block *block);

/*
 * Begin a submission of the calling thread; block: the thread's own, or the shared one.
 * Return: the weight of the submission.
 */
static inline uint32_t uaio_sample_begin(struct uaio_live_block *block)
{
	struct uaio_sampler *sampler = &uaio_sampler;

	/* relaxed: only a hint, set by a tool or by this process */
	if (unlikely(!sampler->nr_left || load_relaxed(&block->is_traced))) {
		uaio_sample_draw(block);
	} else {
		sampler->nr_left--;
		sampler->weight = sampler->next;
	}
	return sampler->weight;
}

/* Return: the time in cycles; 0: the thread's current submission is not timed. */
static inline uint64_t uaio_sample_now(void)
{
	return unlikely(uaio_sampler.weight) ? uaio_cycles() : 0;
}

#endif /* UAIO_REQ_SAMPLE_H */
