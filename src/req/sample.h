/* SPDX-License-Identifier: MIT */
/*
 * Decides for which submissions the library takes times
 *
 * Every request is counted. But reading the clock and adding to the histograms costs as
 * much as the rest of a short request. So all submissions are timed only with --stats
 * or --stats-json, while a thread is traced, and while a tool wants all times
 * (`timed_until` of live/layout.h). Each thread also times its first UAIO_SAMPLE_FIRST
 * submissions, so that all times of a short program are known.
 *
 *   I1  Unless a thread times all its submissions, it divides them into runs of
 *       UAIO_SAMPLE_EVERY. It times one submission of each run, chosen at random. This
 *       submission counts UAIO_SAMPLE_EVERY times in the histograms. So the expected
 *       histogram is the same as if all submissions were timed, even if they follow a
 *       periodic pattern.
 *   I2  Each submission has a weight: how many times it counts in a histogram. Its
 *       requests have the same weight. A request of weight 0 is not timed.
 *   I3  A thread checks at the beginning of each run whether a tool wants all times. When
 *       tracing of a thread begins, the thread times its next submission.
 *
 * Context: the submitting thread, which has entered the library (entry.h).
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

/*
 * This struct must be small: a library loaded by dlopen() gets little thread-local
 * storage (entry.h).
 */
struct uaio_sampler {
	uint32_t random; /* state of the random number generator */
	/* weight of the current submission (I2) */
	uint8_t weight;
	/* number of submissions until the next uaio_sample_draw() */
	uint8_t nr_left;
	/* weight of each of the next nr_left submissions */
	uint8_t next : 1;
	/*
	 * A run is a series of submissions of which one is timed (I1). In this run, the
	 * submission to be timed is still to come: it follows the next nr_left ones.
	 */
	bool is_due : 1;
	/* if is_due: how many submissions follow the timed one in its run (I1) */
	uint8_t nr_after : 4;
	/*
	 * how many runs of UAIO_SAMPLE_EVERY submissions the thread has timed
	 * completely; counted only for its first UAIO_SAMPLE_FIRST submissions
	 */
	uint8_t nr_first;
};

extern _Thread_local struct uaio_sampler uaio_sampler
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

void uaio_sample_draw(struct uaio_live_block *block);

/*
 * Begin a submission of the calling thread. block: the thread's own block of
 * statistics, or the shared one.
 * Return: the weight of the submission (I2).
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

/* Return: the time in cycles; 0 if the thread's current submission is not timed. */
static inline uint64_t uaio_sample_now(void)
{
	return unlikely(uaio_sampler.weight) ? uaio_cycles() : 0;
}

#endif /* UAIO_REQ_SAMPLE_H */
