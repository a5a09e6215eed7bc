/* SPDX-License-Identifier: MIT */
/*
 * Shared by the sources of growth.c: the meter, which adds up the processor time of
 * operations, and helpers of the rows.
 */
#ifndef BENCH_GROWTH_H
#define BENCH_GROWTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ring.h"

/*
 * Measures a row: operations among n other objects. The row repeats meter_begin(), some
 * operations and meter_end() while meter_wants() returns true.
 */
struct meter {
	size_t wanted;  /* operations to time */
	uint64_t ops;   /* operations timed so far */
	uint64_t ns;    /* their processor time, in all threads */
	uint64_t began; /* processor time at the last meter_begin() */
	uint64_t late;  /* wall clock at which the row ends at the latest */
};

void meter_begin(struct meter *meter);
void meter_end(struct meter *meter, uint64_t ops);
bool meter_is_late(const struct meter *meter);
bool meter_wants(const struct meter *meter);

struct row {
	const char *name;
	/* Time operations among n other objects. The process ends afterwards. */
	void (*measure)(const struct row *row, struct meter *meter, size_t n);
	/* The meaning of these depends on the row: see the file that defines the row. */
	int fill, files, op, order;
};

/* Each ends with a row whose name is NULL. */
extern const struct row uring_rows[], ring_rows[], aio_rows[];

enum order { NEWEST_FIRST, AT_RANDOM };

void *room_for(size_t nr, size_t bytes);
/* Return: the indices 0 to n - 1 in that order. */
size_t *indices(size_t n, enum order order);
/* Return: a random number below n. */
size_t random_below(size_t n);
/* Return: a file in memory, with some bytes of content. */
int file_in_memory(void);

#endif /* BENCH_GROWTH_H */
