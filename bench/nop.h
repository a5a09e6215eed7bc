/* SPDX-License-Identifier: MIT */
/*
 * Shared by the two sides of nop.c: the library's (nop.c) and io_uring's (nop-uring.c).
 */
#ifndef BENCH_NOP_H
#define BENCH_NOP_H

/* Ring size of the proposal's program, which the kernel rounds up to 16384. */
enum { NOP_RING_ENTRIES = 10010 };

struct nop_plan {
	const char *variant;
	unsigned long nr_rounds;
	unsigned depth;    /* no-ops a round, submitted together */
	unsigned nr_fixed; /* fixed workers, beside one normal */
};

struct nop_side {
	void (*begin)(const struct nop_plan *plan);
	/*
	 * Submit depth no-ops in one call. Then wait for one event and reap it, depth
	 * times.
	 */
	void (*round)(unsigned depth);
	/* Print counters as members of a JSON object, each preceded by a comma. */
	void (*print)(unsigned depth);
	void (*end)(void);
};

extern const struct nop_side nop_uring; /* only if built with liburing */

/* Print what failed, with -errno, and end the program. */
_Noreturn void nop_fail(const char *what, int error);

#endif /* BENCH_NOP_H */
