/* SPDX-License-Identifier: MIT */
/*
 * What the sources of growth.c share: the meter, which adds up the processor time of
 * operations, and what each row needs.
 */
#ifndef BENCH_GROWTH_H
#define BENCH_GROWTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ring.h"

/*
 * A row times operations among n others. It calls meter_begin(), makes some
 * operations and calls meter_end(), again and again while meter_wants() says so.
 */
struct meter {
	size_t wanted; /* operations to be timed */
	uint64_t ops;  /* operations timed so far */
	uint64_t
		ns; /* processor time of these, of all threads of the process */
	uint64_t began; /* processor time at the last meter_begin() */
	uint64_t late;  /* wall clock at which the row is to end anyway */
};

void meter_begin(struct meter *meter);
void meter_end(struct meter *meter, uint64_t ops);
bool meter_is_late(const struct meter *meter);
bool meter_wants(const struct meter *meter);

struct row {
	const char *name;
	/* Times operations among n; the process ends afterwards. */
	void (*measure)(const struct row *row, struct meter *meter, size_t n);
	/* The rest is the row's own: see the file that has the row. */
	int fill, files, op, order;
};

/* Each ends with a row without a name. */
extern const struct row uring_rows[], ring_rows[], aio_rows[];

enum order { NEWEST_FIRST, AT_RANDOM };

void *room_for(size_t nr, size_t bytes);
/* Return: the indices below n in that order. */
size_t *indices(size_t n, enum order order);
/* Return: a number below n. */
size_t random_below(size_t n);
/* Return: a file in memory with some bytes in it. */
int file_in_memory(void);

#endif /* BENCH_GROWTH_H */
