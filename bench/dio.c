/* SPDX-License-Identifier: MIT */
/*
 * dio VARIANT [REQUESTS]: measures how long it takes to allocate, initialise and free a
 * descriptor. A descriptor is the struct that describes a 1 MiB O_DIRECT request in the
 * library (src/split/split.h).
 *
 *   whole	allocate from a slab, and clear the whole descriptor
 *   prefix	allocate from a slab, and clear only the members before the array
 *		of runners, as the library does
 *   malloc	like prefix, but with malloc() and free()
 *
 * Each variant then fills in the state and the runners (work items that execute parts
 * of the request). With REQUESTS, the program sets up that many descriptors inside
 * dio_counted(), so that a profiler can count this function alone. Without REQUESTS,
 * the program times them.
 *
 * The program prints one JSON object: nanoseconds per descriptor (0 if not timed), and
 * how many bytes of a descriptor each step initialises. To count these bytes, the
 * program first fills a descriptor with a byte pattern (POISON).
 */
#include "split/split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handles.h"

enum {
	BATCH = 64, /* number of requests in a round */
	REQUEST_BYTES = 1 << 20,
	NR_SLOTS = REQUEST_BYTES / UAIO_SEGMENT_BYTES,
	SLAB_BYTES = 65536,
	POISON = 0xa5,
};

enum way { WHOLE, PREFIX, MALLOC, NR_WAYS };

static struct uaio_slab slab;

/* Each descriptor points to this object as its request; nothing reads the object. */
static char request[1];

static inline struct uaio_split *take(enum way way)
{
	struct uaio_split *split =
		way == MALLOC ? malloc(sizeof(*split)) : uaio_slab_get(&slab);

	if (!split) {
		fputs("dio: no memory\n", stderr);
		exit(1);
	}
	return split;
}

static inline void give_back(enum way way, struct uaio_split *split)
{
	if (way == MALLOC)
		free(split);
	else
		uaio_slab_put(&slab, split);
}

static inline void clear(enum way way, struct uaio_split *split)
{
	if (way == WHOLE)
		memset(split, 0, sizeof(*split));
	else
		uaio_split_clear(split);
}

static inline void fill(struct uaio_split *split, unsigned nr_runners)
{
	split->req = (struct uaio_req *)(void *)request;
	split->bytes = REQUEST_BYTES;
	split->first_bytes = UAIO_SEGMENT_BYTES;
	split->nr_segments = NR_SLOTS;
	uaio_split_begin(split, nr_runners);
}

/*
 * Each caller passes a constant `way`. Inlining lets the compiler drop the code of the
 * other ways.
 */

static inline __attribute__((always_inline)) void set_up_batch(enum way way)
{
	for (unsigned i = 0; i < BATCH; i++) {
		struct uaio_split *split = take(way);

		clear(way, split);
		fill(split, NR_SLOTS);
		/* Keep the compiler from removing stores to the descriptor. */
		__asm__ volatile("" : : "r"(split) : "memory");
		give_back(way, split);
	}
}

static void set_up_whole(void *unused)
{
	(void)unused;
	set_up_batch(WHOLE);
}

static void set_up_prefix(void *unused)
{
	(void)unused;
	set_up_batch(PREFIX);
}

static void set_up_malloc(void *unused)
{
	(void)unused;
	set_up_batch(MALLOC);
}

static const struct variant {
	const char *name;
	round_fn *round;
} variants[NR_WAYS] = {
	[WHOLE] = { "whole", set_up_whole },
	[PREFIX] = { "prefix", set_up_prefix },
	[MALLOC] = { "malloc", set_up_malloc },
};

/*
 * Measuring
 */

void dio_counted(round_fn *round, size_t nr_rounds);

/*
 * Not inlined, so that a profiler finds the function by its name. `used` and the
 * missing static keep its symbol.
 */
__attribute__((noinline, used)) void dio_counted(round_fn *round,
						 size_t nr_rounds)
{
	for (size_t i = 0; i < nr_rounds; i++)
		round(NULL);
}

static size_t nr_not_poison(const void *begin, size_t len)
{
	const unsigned char *bytes = begin;
	size_t nr = 0;

	for (size_t i = 0; i < len; i++)
		nr += bytes[i] != POISON;
	return nr;
}

struct found {
	size_t cleared_bytes; /* number of bytes that clear() sets */
	size_t nr_runners;    /* number of runners that fill() writes to */
};

static struct found initialise_poison(enum way way, unsigned nr_runners)
{
	static struct uaio_split split;
	struct found found = { 0 };

	memset(&split, POISON, sizeof(split));
	clear(way, &split);
	found.cleared_bytes = nr_not_poison(&split, sizeof(split));
	fill(&split, nr_runners);
	for (unsigned i = 0; i < UAIO_SPLIT_RUNNERS; i++)
		found.nr_runners += nr_not_poison(&split.runners[i],
						  sizeof(split.runners[i])) > 0;
	return found;
}

static void print(enum way way, double ns, size_t nr_requests)
{
	struct found found = initialise_poison(way, NR_SLOTS);
	size_t most_cleared = 0, most_beyond = 0;

	for (unsigned nr = 1; nr <= UAIO_SPLIT_RUNNERS; nr++) {
		struct found of_nr = initialise_poison(way, nr);

		if (of_nr.cleared_bytes > most_cleared)
			most_cleared = of_nr.cleared_bytes;
		if (of_nr.nr_runners - nr > most_beyond)
			most_beyond = of_nr.nr_runners - nr;
	}
	printf("{\"variant\": \"%s\", \"ns\": %.2f, \"requests\": %zu, "
	       "\"struct_bytes\": %zu, \"slots_bytes\": %zu, "
	       "\"cleared_bytes\": %zu, \"most_cleared_bytes\": %zu, "
	       "\"slots\": %d, \"slots_written\": %zu, "
	       "\"most_written_beyond\": %zu, \"slab_bytes\": %zu}\n",
	       variants[way].name, ns, nr_requests, sizeof(struct uaio_split),
	       sizeof(((struct uaio_split *)NULL)->runners),
	       found.cleared_bytes, most_cleared, NR_SLOTS, found.nr_runners,
	       most_beyond, slab.mapped_bytes);
}

static enum way way_argument(const char *name)
{
	for (enum way way = 0; way < NR_WAYS; way++)
		if (!strcmp(variants[way].name, name))
			return way;
	fprintf(stderr, "dio: no such variant: %s\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	size_t nr_rounds = 0;
	double ns = 0;
	enum way way;

	if (argc < 2 || argc > 3) {
		fputs("usage: dio VARIANT [REQUESTS]\n", stderr);
		return 2;
	}
	way = way_argument(argv[1]);
	uaio_slab_init(&slab, sizeof(struct uaio_split), SLAB_BYTES);
	if (argc == 3) {
		nr_rounds = count_argument(argv[2]) / BATCH;
		/*
		 * Run one round unmeasured, because the slab's first allocation, for
		 * example, costs more than later ones.
		 */
		variants[way].round(NULL);
		dio_counted(variants[way].round, nr_rounds);
	} else {
		ns = time_rounds(variants[way].round, NULL, BATCH);
	}
	print(way, ns, nr_rounds * BATCH);
	return 0;
}
