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

/*
 * Run with these nr items.
 * Return: whether this run passes or fails; or UAIO_SHRINK_STOP.
 */
typedef enum uaio_shrink_answer uaio_shrink_fn(void *arg, const size_t *items,
					       size_t nr);

/*
 * Remove items from a list with which a run has failed, as long as a run with the
 * remaining items still fails. The items are in rising order. Ends when no single item
 * can be removed, or when @ask stops the search.
 * Return: how many items remain; 0 only if nr is 0.
 */
size_t uaio_shrink(size_t *items, size_t nr, uaio_shrink_fn *ask, void *arg);

#endif /* UAIO_TOOL_CHECK_SHRINK_H */
