/* SPDX-License-Identifier: MIT */
#include "split/tune.h"

#include <string.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/sleep.h"
#include "options/config.h"
#include "file/file.h"
#include "split/split.h"

enum way {
	WHOLE,
	FEW,
	MANY,
	NR_WAYS,
};

static const unsigned at_once_of_ways[NR_WAYS] = {
	[WHOLE] = 1,
	[FEW] = 4,
	/*
	 * The work queue creates up to 32 workers without delay (UAIO_WQ_ENOUGH). 24
	 * segments at once leave some of these workers for other requests.
	 */
	[MANY] = 24,
};

enum {
	/* Classes of sizes: up to 1 MiB, up to 4 MiB, up to 16 MiB, and more. */
	NR_CLASSES = 4,
	CLASS_BITS = 2,
	FIRST_CLASS_BITS = 20,
	/*
	 * The best of this many samples counts: during a single sample the device may
	 * have been busy with other work.
	 */
	SAMPLES = 4,
	/*
	 * Of each file, direction and class of sizes, this many first requests are not
	 * cut.
	 */
	NR_UNTOUCHED = 4,
	/*
	 * How many requests are between two trials of a slower way (whole, few or many
	 * segments at once).
	 */
	PAUSE_MIN = 32,
	PAUSE_MAX = 4096,
	/*
	 * A way with more segments at once counts as better only if the best time so
	 * far is more than WORTH percent of its time.
	 */
	WORTH = 110,
};

struct samples {
	/* atomic, relaxed */
	/* time in ns per page: the best of up to SAMPLES latest samples */
	uint32_t best;
	/*
	 * time in ns per page: the best of the SAMPLES samples before those of `best`;
	 * 0: there are none
	 */
	uint32_t before;
	/* total number of samples */
	uint32_t nr;
};

struct choice {
	struct samples ways[NR_WAYS];
	/* atomic, relaxed */
	uint32_t nr_executed;
	/* when nr_executed has this value, the library tries a slower way again */
	uint32_t next_trial;
	uint32_t pause;
	uint32_t last_best;
	uint32_t last_tried;
};

struct uaio_tuning {
	struct uaio_slab_node node;
	/* index 0: reads; index 1: writes */
	struct choice choices[2][NR_CLASSES];
};

static struct uaio_slab slab;

void uaio_tuning_init(void)
{
	uaio_slab_init(&slab, sizeof(struct uaio_tuning), 16384);
}

static unsigned class_of(uint64_t bytes)
{
	unsigned i = 0;

	while (i < NR_CLASSES - 1 &&
	       bytes > 1ull << (FIRST_CLASS_BITS + i * CLASS_BITS))
		i++;
	return i;
}

/*
 * Return: the file's measurements, which are allocated at its first large request;
 * NULL: there is no memory.
 */
static struct uaio_tuning *tuning_of(struct uaio_file *file)
{
	/*
	 * [MB:tuning] acquire: this thread sees the zeroed contents. Pairs with the
	 * exchange below.
	 */
	struct uaio_tuning *tuning = load_acquire(&file->tuning);
	struct uaio_tuning *fresh, *none = NULL;

	if (likely(tuning))
		return tuning;
	fresh = uaio_slab_get(&slab);
	if (!fresh)
		return NULL;
	memset(fresh->choices, 0, sizeof(fresh->choices));
	/*
	 * [MB:tuning] release: publishes the zeroed contents. Pairs with both loads of
	 * file->tuning in this function.
	 */
	if (cas_release(&file->tuning, &none, fresh))
		return fresh;
	uaio_slab_put(&slab, fresh);
	/*
	 * [MB:tuning] acquire: this thread sees the contents that another thread has
	 * zeroed.
	 */
	return load_acquire(&file->tuning);
}

void uaio_tuning_put(struct uaio_tuning *tuning)
{
	uaio_slab_put(&slab, tuning);
}

/*
 * Return: the time of a way (whole, few or many segments at once) in ns per page; 0: no
 * sample.
 */
static uint32_t figure_of(const struct samples *samples)
{
	uint32_t best = load_relaxed(&samples->best);
	uint32_t before = load_relaxed(&samples->before);

	return !best || (before && before < best) ? before : best;
}

/*
 * Return: how many of the ways WHOLE, FEW and MANY are tried. A request of up to 1 MiB
 * has too few segments for MANY.
 */
static unsigned nr_ways_of(unsigned size_class)
{
	return size_class ? NR_WAYS : MANY;
}

static enum way best_of(const struct choice *choice, unsigned nr_ways)
{
	enum way best = WHOLE;

	for (enum way way = FEW; way < nr_ways; way++)
		if ((uint64_t)figure_of(&choice->ways[way]) * WORTH <
		    (uint64_t)figure_of(&choice->ways[best]) * 100)
			best = way;
	return best;
}

/*
 * Return: a way (WHOLE, FEW or MANY) that has fewer than SAMPLES samples; NR_WAYS if
 * there is none. The ways take turns. Each round starts with another way than the
 * previous round, so that no way is always first.
 */
static enum way unmeasured_of(const struct choice *choice, unsigned nr_ways,
			      uint32_t nr)
{
	uint32_t way = nr + nr / nr_ways;

	for (unsigned i = 0; i < nr_ways; i++, way++)
		if (load_relaxed(&choice->ways[way % nr_ways].nr) < SAMPLES)
			return (enum way)(way % nr_ways);
	return NR_WAYS;
}

/*
 * Choose after how many requests the library tries a slower way (WHOLE, FEW or MANY)
 * again. The number doubles each time, while the best way stays the same.
 */
static void plan_trial(struct choice *choice, uint32_t nr, enum way best)
{
	uint32_t pause = load_relaxed(&choice->pause) * 2;

	if (best != load_relaxed(&choice->last_best) || pause < PAUSE_MIN)
		pause = PAUSE_MIN;
	if (pause > PAUSE_MAX)
		pause = PAUSE_MAX;
	store_relaxed(&choice->last_best, best);
	store_relaxed(&choice->pause, pause);
	store_relaxed(&choice->next_trial, nr + pause);
}

/* Return: the way (WHOLE, FEW or MANY) to try next; not the best one. */
static enum way next_other(struct choice *choice, enum way best,
			   unsigned nr_ways)
{
	uint32_t way = (load_relaxed(&choice->last_tried) + 1) % nr_ways;

	if (way == best)
		way = (way + 1) % nr_ways;
	store_relaxed(&choice->last_tried, way);
	return (enum way)way;
}

static enum way choose(struct choice *choice, unsigned nr_ways)
{
	uint32_t nr = load_relaxed(&choice->nr_executed) + 1;
	enum way best, way;

	store_relaxed(&choice->nr_executed, nr);
	/*
	 * Do not cut the first requests: trials do not pay for a file with few
	 * requests.
	 */
	if (unlikely(nr <= NR_UNTOUCHED))
		return WHOLE;
	way = unmeasured_of(choice, nr_ways, nr);
	if (unlikely(way != NR_WAYS))
		return way;
	best = best_of(choice, nr_ways);
	if (likely((int32_t)(nr - load_relaxed(&choice->next_trial)) < 0))
		return best;
	plan_trial(choice, nr, best);
	return next_other(choice, best, nr_ways);
}

unsigned uaio_tune_begin(struct uaio_file *file, bool is_write, uint64_t bytes,
			 struct uaio_trial *ret_trial)
{
	unsigned size_class = class_of(bytes);
	enum way way;

	ret_trial->tuning = NULL;
	ret_trial->bytes = bytes;
	if (uaio_config.segments)
		return uaio_config.segments;
	ret_trial->tuning = tuning_of(file);
	if (!ret_trial->tuning)
		return 1;
	way = choose(&ret_trial->tuning->choices[is_write][size_class],
		     nr_ways_of(size_class));
	ret_trial->way = way | (unsigned)is_write << 8;
	ret_trial->start_ns = uaio_now_ns();
	return at_once_of_ways[way];
}

/*
 * Return: the request's time in ns per page; the greatest value if it was short or
 * failed.
 */
static uint32_t time_of(const struct uaio_trial *trial, int64_t res)
{
	uint64_t pages = trial->bytes / 4096, took;

	if (res != (int64_t)trial->bytes)
		return UINT32_MAX;
	took = (uint64_t)(uaio_now_ns() - trial->start_ns) / pages;
	took = took ? took : 1;
	return took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
}

void uaio_tune_end(const struct uaio_trial *trial, int64_t res)
{
	struct samples *samples;
	uint32_t took, best, nr;

	if (!trial->tuning)
		return;
	samples =
		&trial->tuning->choices[trial->way >> 8][class_of(trial->bytes)]
			 .ways[trial->way & 0xff];
	took = time_of(trial, res);
	nr = load_relaxed(&samples->nr);
	best = load_relaxed(&samples->best);
	if (nr && nr % SAMPLES == 0) {
		/*
		 * `best` is complete: it is the best of SAMPLES samples. Move it to
		 * `before`, whose old value no longer counts.
		 */
		store_relaxed(&samples->before, best);
		best = 0;
	}
	if (!best || took < best)
		best = took;
	store_relaxed(&samples->best, best);
	store_relaxed(&samples->nr, nr + 1);
}
