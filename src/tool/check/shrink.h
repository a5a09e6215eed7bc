/* SPDX-License-Identifier: MIT */
/*
 * Delta debugging: finds a smallest set of changes with which a run still fails (Zeller
 * and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002)
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

/* Return: whether the run passes or fails; or UAIO_SHRINK_STOP. */
typedef enum uaio_shrink_answer uaio_shrink_fn(void *arg, const size_t *items,
					       size_t nr);

/*
 * Reduce a list of nr items, in rising order, with which a run has failed. Ends if no
 * part of the list can be omitted, or if @ask stops the search. If items were omitted,
 * a run with the remaining ones has failed.
 * Return: how many items remain; 0 only if nr is 0.
 */
size_t uaio_shrink(size_t *items, size_t nr, uaio_shrink_fn *ask, void *arg);

#endif /* UAIO_TOOL_CHECK_SHRINK_H */
