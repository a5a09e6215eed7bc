/* SPDX-License-Identifier: MIT */
/*
 * A file outside the page cache, simulated by a hook
 *
 * A page becomes cached when the test says so. The hook holds plain reads of a page until
 * the test releases them. Reads with RWF_NOWAIT ("tries") return the cached pages. The hook
 * counts the engine's calls. Each test uses another device number, because the engine
 * remembers what it has learnt of a device.
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
	/* atomic: a file in which each byte of page i is i + 1 */
	int fd;
	uint32_t fs_type; /* atomic */
	uint64_t device;  /* atomic */
	pthread_mutex_t lock;
	pthread_cond_t changed;

	/* under lock: how the hook answers */
	int advice_error, read_error; /* 0: none */
	uint64_t is_there;            /* cached pages, one bit each */
	/* pages whose plain reads are held, one bit each */
	uint64_t is_held;
	int held_try; /* the page whose tries are held, or -1 */
	/* which calls the engine made */
	bool is_trying; /* a try is held */
	unsigned nr_advised, nr_plain, nr_tries;
	uint32_t reader; /* the thread that made the last plain read */
	/* plain reads that are held now, and at most */
	unsigned nr_blocked, most_blocked;
	/* the pages of plain reads, in order */
	unsigned order[NR_PAGES];
};

extern struct cold cold;

static inline uint64_t cold_bit(unsigned page)
{
	return 1ull << page;
}

/* Return: the bits of the first nr pages. */
static inline uint64_t cold_bits(unsigned nr)
{
	return nr == NR_PAGES ? UINT64_MAX : cold_bit(nr) - 1;
}

/* Setup and teardown of each test. */
int cold_start(void **state);
int cold_stop(void **state);

void cold_hold(uint64_t pages);
void cold_let(uint64_t pages);
void cold_come(uint64_t pages);
void cold_go(void);
/* Holds tries of a page. -1: releases them. */
void cold_hold_try(int page);
/* Returns once a try is held. */
void cold_await_try(void);
/* Returns once nr plain reads are being held. */
void cold_await_blocked(unsigned nr);
unsigned cold_count(const unsigned *count);

#endif /* COLD_H */
