/* SPDX-License-Identifier: MIT */
#include "tool/check/shrink.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct shrinking {
	size_t *items, nr;
	/*
	 * owned by this struct: array of the items for the next run, with room for all
	 * `items`
	 */
	size_t *tried;
	uaio_shrink_fn *ask;
	void *arg;
	bool is_stopped;
};

/*
 * Run with the first nr items of `tried`. If the run fails, copy these items to
 * `items`.
 * Return: whether the run failed.
 */
static bool try(struct shrinking *shrinking, size_t nr)
{
	enum uaio_shrink_answer answer =
		shrinking->ask(shrinking->arg, shrinking->tried, nr);

	shrinking->is_stopped = answer == UAIO_SHRINK_STOP;
	if (answer != UAIO_SHRINK_FAILS)
		return false;
	memcpy(shrinking->items, shrinking->tried,
	       nr * sizeof(*shrinking->items));
	shrinking->nr = nr;
	return true;
}

/*
 * Split the items into `parts` equal parts, and run with each part alone. If a run
 * fails, stop, and keep only the items of its part.
 * Return: whether a run failed.
 */
static bool keep_part(struct shrinking *shrinking, size_t parts)
{
	size_t nr = shrinking->nr;

	for (size_t i = 0; i < parts && !shrinking->is_stopped; i++) {
		size_t first = i * nr / parts, end = (i + 1) * nr / parts;

		memcpy(shrinking->tried, shrinking->items + first,
		       (end - first) * sizeof(*shrinking->tried));
		if (try(shrinking, end - first))
			return true;
	}
	return false;
}

/*
 * For each chunk of items, run without this chunk. If the run still fails, remove the
 * chunk.
 * Return: whether any chunk was removed.
 */
static bool drop_chunks(struct shrinking *shrinking, size_t chunk)
{
	size_t first = 0;
	bool has_dropped = false;

	while (first < shrinking->nr && !shrinking->is_stopped) {
		size_t nr = shrinking->nr, rest = nr - first,
		       len = rest < chunk ? rest : chunk;

		if (len == nr)
			break;
		memcpy(shrinking->tried, shrinking->items,
		       first * sizeof(*shrinking->tried));
		memcpy(shrinking->tried + first, shrinking->items + first + len,
		       (rest - len) * sizeof(*shrinking->tried));
		if (try(shrinking, nr - len))
			has_dropped = true;
		else
			first += len;
	}
	return has_dropped;
}

size_t uaio_shrink(size_t *items, size_t nr, uaio_shrink_fn *ask, void *arg)
{
	struct shrinking shrinking = {
		.items = items,
		.nr = nr,
		.tried = calloc(nr ? nr : 1, sizeof(*items)),
		.ask = ask,
		.arg = arg,
	};
	size_t parts = 2;
	bool is_least = !shrinking.tried;

	while (!is_least && shrinking.nr > 1 && !shrinking.is_stopped) {
		size_t chunk;

		if (parts > shrinking.nr)
			parts = shrinking.nr;
		chunk = (shrinking.nr + parts - 1) / parts;
		if (keep_part(&shrinking, parts)) {
			parts = 2;
			continue;
		}
		/*
		 * If there are two parts, a run without one part is a run with the
		 * other part alone. keep_part() has already tried both runs.
		 */
		is_least = !(parts > 2 && drop_chunks(&shrinking, chunk)) &&
			   chunk == 1;
		parts = 2 * ((shrinking.nr + chunk - 1) / chunk);
	}
	free(shrinking.tried);
	return shrinking.nr;
}
