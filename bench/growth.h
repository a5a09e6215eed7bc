/* SPDX-License-Identifier: MIT */
/*
 * Shared by the source files of the program growth: the meter, which adds up the
 * processor time of the timed operations, and helper functions for the rows
 * (measurements).
 */
#ifndef BENCH_GROWTH_H
#define BENCH_GROWTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ring.h"

/*
 * Adds up the processor time of one row (measurement) with n objects. As long as
 * meter_wants() returns true, the row calls meter_begin(), executes some operations,
 * and calls meter_end().
 */
struct meter {
	size_t wanted; /* operations to time */
	uint64_t ops;  /* operations timed so far */
	/* processor time of the operations timed so far, in all threads, in ns */
	uint64_t ns;
	uint64_t began; /* processor time at the last meter_begin(), in ns */
	/* no more operations are timed after this time of CLOCK_MONOTONIC, in ns */
	uint64_t late;
};

void meter_begin(struct meter *meter);
void meter_end(struct meter *meter, uint64_t ops);
bool meter_is_late(const struct meter *meter);
bool meter_wants(const struct meter *meter);

struct row {
	const char *name;
	/*
	 * Create n objects and time operations. The process exits after this call, so
	 * the function need not free the objects.
	 */
	void (*measure)(const struct row *row, struct meter *meter, size_t n);
	/* The file that defines the row explains these members. */
	int fill, files, op, order;
};

/* Each array ends with a row whose name is NULL. */
extern const struct row uring_rows[], ring_rows[], aio_rows[];

enum order { NEWEST_FIRST, AT_RANDOM };

void *room_for(size_t nr, size_t bytes);
/* Return: an array of the indices 0 to n - 1 in the given order. */
size_t *indices(size_t n, enum order order);
/* Return: a random number below n. */
size_t random_below(size_t n);
/* Return: the descriptor of a file in memory, 64 KiB long. */
int file_in_memory(void);

#endif /* BENCH_GROWTH_H */
