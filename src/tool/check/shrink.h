/* SPDX-License-Identifier: MIT */
/*
 * Delta debugging: finds which of many changes a failure needs (Zeller and Hildebrandt,
 * Simplifying and Isolating Failure-Inducing Input, 2002)
 *
 * Tested by test-seeds.c.
 */
#ifndef UAIO_TOOL_CHECK_SHRINK_H
#define UAIO_TOOL_CHECK_SHRINK_H

#include <stddef.h>

enum uaio_shrink_answer {
	UAIO_SHRINK_PASSES,
	UAIO_SHRINK_FAILS,
	UAIO_SHRINK_STOP, /* stop the search */
};

/*
 * Run with only these items, which are in rising order. Return: whether the run fails.
 */
typedef enum uaio_shrink_answer uaio_shrink_fn(void *arg, const size_t *items,
					       size_t nr);

/*
 * Reduce a list of nr items, in rising order, with which a run has failed, until no
 * part can be omitted, or @ask stops the search. A run with the remaining items has
 * failed, unless no item was omitted.
 * Return: how many items remain; at least one if there was one.
 */
size_t uaio_shrink(size_t *items, size_t nr, uaio_shrink_fn *ask, void *arg);

#endif /* UAIO_TOOL_CHECK_SHRINK_H */
