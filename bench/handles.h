/* SPDX-License-Identifier: MIT */
/*
 * Shared by programs that create many kernel AIO contexts. All of them look up the same
 * set of handles, the hot set, and measure time in the same way. So the figures of
 * lookup.c and index.c can be compared.
 *
 * The hot set is 16 of the program's N handles, at equal distances. If N is below 16,
 * some handles are in the set twice. The set is small, so its contexts stay in the
 * processor's cache.
 */
#ifndef BENCH_HANDLES_H
#define BENCH_HANDLES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HOT = 16, SLICES = 9, SLICE_NS = 8 * 1000 * 1000 };

static inline size_t hot_index(size_t i, size_t nr)
{
	return nr <= HOT ? i % nr : i * (nr - 1) / (HOT - 1);
}

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/*
 * A round is one call of round(), which executes the measured operation `nr` times, for
 * example one lookup for each of the nr handles in the hot set. A batch is a number of
 * rounds between two readings of the clock. time_rounds() doubles this number until a
 * batch takes long enough. A slice consists of batches that together take at least
 * SLICE_NS.
 *
 * Return: nanoseconds per operation, the median of several slices.
 */
typedef void round_fn(void *arg);

static inline double time_rounds(round_fn *round, void *arg, size_t nr)
{
	double slices[SLICES];
	uint64_t batch = 1, start, took;

	for (;;) {
		start = now_ns();
		for (uint64_t i = 0; i < batch; i++)
			round(arg);
		if (now_ns() - start > SLICE_NS / 16)
			break;
		batch *= 2;
	}
	for (size_t s = 0; s < SLICES; s++) {
		uint64_t rounds = 0;

		start = now_ns();
		do {
			for (uint64_t i = 0; i < batch; i++)
				round(arg);
			rounds += batch;
			took = now_ns() - start;
		} while (took < SLICE_NS);
		slices[s] = (double)took / (double)(rounds * nr);
	}
	qsort(slices, SLICES, sizeof(slices[0]), compare_doubles);
	return slices[SLICES / 2];
}

/* Return: the number in the text. Ends the program if the text is no number. */
static inline size_t count_argument(const char *text)
{
	char *end;
	unsigned long nr = strtoul(text, &end, 10);

	if (*end || !nr || nr > 1u << 24) {
		fprintf(stderr, "not a count: %s\n", text);
		exit(2);
	}
	return nr;
}

/* Return: how many mappings of this process have the text in their name. */
static inline size_t nr_mapped(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	size_t nr = 0;

	if (!maps) {
		perror("/proc/self/maps");
		exit(1);
	}
	while (fgets(line, sizeof(line), maps))
		nr += strstr(line, name) != NULL;
	fclose(maps);
	return nr;
}

/* Return: how many rings of kernel AIO are mapped in this process. */
static inline size_t nr_kernel_rings(void)
{
	return nr_mapped("/[aio]");
}

#endif /* BENCH_HANDLES_H */
