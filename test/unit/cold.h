/* SPDX-License-Identifier: MIT */
/*
 * A file that is not in the page cache, as a hook answers for it
 *
 * A page comes when the test says so. Plain reads of it are held until the test
 * lets them go; tries without waiting find what has come. What the engine asks
 * for is counted. Each test is on a device of its own, for what is learnt of
 * one is remembered.
 */
#ifndef COLD_H
#define COLD_H

#include <pthread.h>

#include "base/atomic.h"
#include "unit.h"

enum {
	PAGE = 4096,
	NR_PAGES = 64,
};

struct cold {
	int fd;           /* atomic: each page filled with its number and 1 */
	uint32_t fs_type; /* atomic */
	uint64_t device;  /* atomic */
	pthread_mutex_t lock;
	pthread_cond_t changed;

	/* under lock: how it answers */
	int advice_error, read_error; /* 0: none */
	uint64_t is_there;            /* a bit for each page */
	uint64_t is_held;             /* from plain reads */
	int held_try; /* a page of which tries are held, or -1 */
	/* what it was asked */
	bool is_trying; /* a try is held */
	unsigned nr_advised, nr_plain, nr_tries;
	uint32_t reader; /* the thread that made the last plain read */
	unsigned nr_blocked, most_blocked; /* plain reads at the same time */
	unsigned order[NR_PAGES];          /* of plain reads */
};

extern struct cold cold;

static inline uint64_t cold_bit(unsigned page)
{
	return 1ull << page;
}

/* The first nr pages. */
static inline uint64_t cold_bits(unsigned nr)
{
	return nr == NR_PAGES ? UINT64_MAX : cold_bit(nr) - 1;
}

/* Around each test. */
int cold_start(void **state);
int cold_stop(void **state);

void cold_hold(uint64_t pages);
void cold_let(uint64_t pages);
void cold_come(uint64_t pages);
void cold_go(void);
/* Hold tries of a page; -1: let them go. */
void cold_hold_try(int page);
/* Return once a try is held. */
void cold_await_try(void);
/* Return once so many plain reads are under way. */
void cold_await_blocked(unsigned nr);
unsigned cold_count(const unsigned *count);

#endif /* COLD_H */
