/* SPDX-License-Identifier: MIT */
/*
 * Delta debugging: which of many changes are needed for a failure
 * (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002)
 *
 * Tested by test-seeds.c.
 */
#ifndef UAIO_TOOL_CHECK_SHRINK_H
#define UAIO_TOOL_CHECK_SHRINK_H

#include <stddef.h>

enum uaio_shrink_answer {
	UAIO_SHRINK_PASSES,
	UAIO_SHRINK_FAILS,
	UAIO_SHRINK_STOP, /* ask no more */
};

/* Ask whether a run with these items alone fails. They are in rising order. */
typedef enum uaio_shrink_answer uaio_shrink_fn(void *arg, const size_t *items,
					       size_t nr);

/*
 * A run with items, nr of them in rising order, has failed. Reduce items until no part of
 * them could be left out, or until @ask stops it. What is left has failed when it was
 * asked for, or is all of items.
 * Return: how many are left, at least one if there was one.
 */
size_t uaio_shrink(size_t *items, size_t nr, uaio_shrink_fn *ask, void *arg);

#endif /* UAIO_TOOL_CHECK_SHRINK_H */
