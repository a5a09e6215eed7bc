/* SPDX-License-Identifier: MIT */
/*
 * A file that is not in the page cache. A hook simulates the page cache.
 *
 * The test decides when a page gets into the simulated page cache. Reads with RWF_NOWAIT
 * ("tries") return only cached pages. The hook holds reads without RWF_NOWAIT ("plain
 * reads") of a page until the test releases them. The hook counts the engine's system
 * calls. Each test uses another device number, because the engine remembers what it has
 * learnt about a device.
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
	/* atomic: descriptor of a file; each byte of its page i is i + 1 */
	int fd;
	uint32_t fs_type; /* atomic */
	uint64_t device;  /* atomic */
	pthread_mutex_t lock;
	pthread_cond_t changed;

	/*
	 * `lock` protects the members from here on. advice_error and read_error are the
	 * errors with which the hook answers fadvise and plain reads.
	 */
	int advice_error, read_error; /* 0: none */
	uint64_t is_there;            /* cached pages: a bit for each */
	/* pages whose plain reads (without RWF_NOWAIT) are held: a bit for each */
	uint64_t is_held;
	/*
	 * index of the page whose non-blocking reads the test holds back; -1: of none
	 */
	int held_try;
	/* which system calls the engine has made */
	bool is_trying; /* a try is being held */
	unsigned nr_advised, nr_plain, nr_tries;
	uint32_t reader; /* id of the thread that made the last plain read */
	/* plain reads that are held at this moment, and the most at any moment */
	unsigned nr_blocked, most_blocked;
	/* pages of the plain reads, in the order of these reads */
	unsigned order[NR_PAGES];
};

extern struct cold cold;

static inline uint64_t cold_bit(unsigned page)
{
	return 1ull << page;
}

/* Return: a set bit for each of the first nr pages. */
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
/* Hold the tries (reads with RWF_NOWAIT) of this page. -1: release them. */
void cold_hold_try(int page);
/* Return once the hook holds a try (a read with RWF_NOWAIT). */
void cold_await_try(void);
/* Return once the hook holds nr plain reads (reads without RWF_NOWAIT). */
void cold_await_blocked(unsigned nr);
unsigned cold_count(const unsigned *count);

#endif /* COLD_H */
