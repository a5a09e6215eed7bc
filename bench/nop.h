/* SPDX-License-Identifier: MIT */
/*
 * Shared by the two sides of nop.c: the one that uses the engine (nop.c), and the
 * one that uses io_uring (nop-uring.c).
 */
#ifndef BENCH_NOP_H
#define BENCH_NOP_H

/* The seed's ring: the kernel makes 16384 of it. */
enum { NOP_RING_ENTRIES = 10010 };

struct nop_plan {
	const char *variant;
	unsigned long nr_rounds;
	unsigned depth;    /* no-ops a round, submitted together */
	unsigned nr_fixed; /* fixed workers, beside one normal */
};

struct nop_side {
	void (*begin)(const struct nop_plan *plan);
	/* Submit depth no-ops in one call, then depth times: wait, take one. */
	void (*round)(unsigned depth);
	/* Counters, as members of an object of JSON: each after a comma. */
	void (*print)(unsigned depth);
	void (*end)(void);
};

extern const struct nop_side nop_uring; /* where liburing is there */

/* Say what failed, with -errno, and end the program. */
_Noreturn void nop_fail(const char *what, int error);

#endif /* BENCH_NOP_H */
