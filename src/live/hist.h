/* SPDX-License-Identifier: MIT */
/*
 * Histograms (layout.h): finds the bucket of a value, and computes quantiles
 *
 * Tested by src/req/test-stats.c.
 */
#ifndef UAIO_LIVE_HIST_H
#define UAIO_LIVE_HIST_H

#include <stdint.h>

#include "base/atomic.h"
#include "live/layout.h"

static inline unsigned uaio_hist_bucket(uint64_t value)
{
	unsigned bit;

	if (value < 2u << UAIO_HIST_SUB_BITS)
		return (unsigned)value;
	bit = 63u - (unsigned)__builtin_clzll(value);
	if (bit > UAIO_HIST_MAX_BIT)
		return UAIO_NR_BUCKETS - 1;
	return ((bit - UAIO_HIST_SUB_BITS) << UAIO_HIST_SUB_BITS) +
	       (unsigned)(value >> (bit - UAIO_HIST_SUB_BITS));
}

/* Return: the middle of the range of values that this bucket counts. */
static inline uint64_t uaio_hist_value(unsigned bucket)
{
	unsigned octave = bucket >> UAIO_HIST_SUB_BITS, shift;

	if (octave < 2)
		return bucket;
	shift = octave - 1;
	bucket -= shift << UAIO_HIST_SUB_BITS;
	return ((uint64_t)bucket << shift) + (1ull << shift >> 1);
}

/* Return: how many values the histogram counts. */
static inline uint64_t uaio_hist_nr(const struct uaio_hist *hist)
{
	uint64_t nr = 0;

	for (unsigned i = 0; i < UAIO_NR_BUCKETS; i++)
		nr += hist->buckets[i];
	return nr;
}

/*
 * Return: the quantile: permille/1000 of the nr counted values are at most this value.
 */
static inline uint64_t uaio_hist_quantile(const struct uaio_hist *hist,
					  uint64_t nr, unsigned permille)
{
	/*
	 * Compute the rank of the wanted value. Round up, so that it is at least 1.
	 * Compute it in two parts, to avoid overflow.
	 */
	uint64_t rank =
		nr / 1000 * permille + (nr % 1000 * permille + 999) / 1000;
	uint64_t below = 0, value;
	unsigned i = 0;

	for (; i < UAIO_NR_BUCKETS - 1; i++) {
		below += hist->buckets[i];
		if (below >= rank)
			break;
	}
	value = uaio_hist_value(i);
	return value < hist->max ? value : hist->max;
}

/*
 * Add the counts of histogram *from to *to. Other threads may be adding to *from
 * meanwhile.
 */
static inline void uaio_hist_add(struct uaio_hist *to,
				 const struct uaio_hist *from)
{
	uint64_t max = load_relaxed(&from->max);

	if (max > to->max)
		to->max = max;
	for (unsigned i = 0; i < UAIO_NR_BUCKETS; i++)
		to->buckets[i] += load_relaxed(&from->buckets[i]);
}

#endif /* UAIO_LIVE_HIST_H */
