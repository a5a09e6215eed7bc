/* SPDX-License-Identifier: MIT */
/*
 * torture KIND [SECONDS [SEED]]: random load on the library for that time
 *
 * Each kind states a conservation law, which it checks at the end, when nothing is in
 * flight. Each thread has its own random generator, seeded from the printed seed. The
 * seed does not determine how threads interleave.
 */
#ifndef TORTURE_H
#define TORTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Checked in every build: a broken law ends the run and prints where. */
#define REQUIRE(condition)                                               \
	do {                                                             \
		if (!(condition)) {                                      \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, \
				__LINE__, #condition);                   \
			abort();                                         \
		}                                                        \
	} while (0)

struct random {
	uint64_t state;
};

/* Return: the random generator number nr of the run's seed. */
struct random random_start(unsigned nr);
/* Return: a number below n. */
uint32_t random_below(struct random *random, uint32_t n);

/* Return: whether time is up. */
bool is_over(void);

/*
 * Return: the least number of bytes that each stream must carry, however long that takes.
 */
uint64_t least_bytes(void);

/* Record how much the run has checked, for its last line: count, in this unit. */
void note_count(uint64_t count, const char *unit);

int torture_contexts(void);
int torture_ordering(void);
int torture_churn(void);
int torture_streams(void);
int torture_sharing(void);
int torture_waiters(void);
int torture_blocks(void);
int torture_reaping(void);

#endif /* TORTURE_H */
