/* SPDX-License-Identifier: MIT */
/*
 * Shared by the sides of pipe.c, which do its works with uaio or the kernel's AIO
 * (pipe-aio.c), with io_uring (pipe-uring.c), or with read() and write()
 * (pipe-plain.c).
 */
#ifndef BENCH_PIPE_H
#define BENCH_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The caller's until its event has been waited for. */
struct pipe_request {
	int fd;
	bool is_write;
	void *buf;
	size_t len;
};

struct pipe_side {
	const char *variant;
	/* A read that finds nothing holds up who submits it. */
	bool blocks;

	/* For at most nr_requests that have not been waited for. */
	void (*begin)(const struct pipe_side *side, unsigned nr_requests);
	/*
	 * Submit requests, in this order and with one call. A side may put that
	 * off until it waits, where one call does both.
	 */
	void (*submit)(const struct pipe_request *requests, unsigned nr);
	/*
	 * Wait until these, at most PIPE_PAIR, are done, and nothing else that
	 * was submitted; each has to have all its bytes.
	 */
	void (*wait)(const struct pipe_request *requests, unsigned nr);
	/* Counts from here on. NULL, as the next: it counts nothing. */
	void (*count)(void);
	/* Counters, as members of an object of JSON: each after a comma. */
	void (*print)(FILE *file);
	void (*end)(void);
};

enum { PIPE_PAIR = 2 };

extern const struct pipe_side pipe_worker_for_each;
extern const struct pipe_side pipe_caller_runs;
extern const struct pipe_side pipe_delayed_kick; /* and caller runs */
extern const struct pipe_side pipe_kernel;
extern const struct pipe_side pipe_plain;
extern const struct pipe_side pipe_uring; /* where liburing is there */
extern const struct pipe_side pipe_uring_deferred;

/* Say what failed, with -errno, and end the program. */
_Noreturn void pipe_fail(const char *what, int error);

/*
 * The event of request came while the nr that begin at requests are waited for.
 * Return: its bit in their mask; the program ends if it is none of them, or did
 * not do all it was to do.
 */
unsigned pipe_take(const struct pipe_request *requests, unsigned nr,
		   const struct pipe_request *request, long long res);
/* So many events were taken: they have to be one of each. */
void pipe_check_taken(unsigned mask, unsigned nr);

#endif /* BENCH_PIPE_H */
