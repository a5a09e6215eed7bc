/* SPDX-License-Identifier: MIT */
/*
 * torture KIND [SECONDS [SEED]]: puts random load on the library for SECONDS seconds
 *
 * Each kind checks an invariant at the end, when nothing is in flight. Each thread has
 * its own random generator, whose seed comes from the printed seed. The seed does not
 * determine how threads interleave.
 */
#ifndef TORTURE_H
#define TORTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Unlike assert(), checked in every build. If the condition is false, print the source
 * line and abort.
 */
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

/* Return: random generator number nr. Its seed follows from the run's seed and nr. */
struct random random_start(unsigned nr);
/* Return: a random number below n. */
uint32_t random_below(struct random *random, uint32_t n);

/* Return: whether SECONDS, the time given on the command line, have passed. */
bool is_over(void);

/*
 * Return: the number of bytes that all streams together must carry at least, even if
 * this takes longer than SECONDS.
 */
uint64_t least_bytes(void);

/* Record how much the run has checked, for the last line of output. */
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
