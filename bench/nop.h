/* SPDX-License-Identifier: MIT */
/*
 * Shared by the two implementations (sides) of nop.c: the library's work queue (nop.c)
 * and io_uring (nop-uring.c).
 */
#ifndef BENCH_NOP_H
#define BENCH_NOP_H

/*
 * Number of ring entries: that of the original program, which came with a kernel
 * proposal (nop.c). The kernel rounds it up to 16384.
 */
enum { NOP_RING_ENTRIES = 10010 };

struct nop_plan {
	const char *variant;
	unsigned long nr_rounds;
	unsigned depth; /* number of no-ops that a round submits together */
	/* number of fixed workers, in addition to one normal worker */
	unsigned nr_fixed;
};

struct nop_side {
	void (*begin)(const struct nop_plan *plan);
	/*
	 * Submit depth no-ops by one call. Then, depth times, wait for one event and
	 * reap it.
	 */
	void (*round)(unsigned depth);
	/* Print counters as members of a JSON object, each preceded by a comma. */
	void (*print)(unsigned depth);
	void (*end)(void);
};

/* Only defined if the program is built with liburing. */
extern const struct nop_side nop_uring;

/* Print what failed and the text for `error`, a -errno. End the program. */
_Noreturn void nop_fail(const char *what, int error);

#endif /* BENCH_NOP_H */
