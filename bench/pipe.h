/* SPDX-License-Identifier: MIT */
/*
 * Shared by the sides of pipe.c: uaio or the kernel's AIO (pipe-aio.c), io_uring
 * (pipe-uring.c), and read() and write() (pipe-plain.c).
 */
#ifndef BENCH_PIPE_H
#define BENCH_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The caller owns a request, and reuses it after waiting for its event. */
struct pipe_request {
	int fd;
	bool is_write;
	void *buf;
	size_t len;
};

struct pipe_side {
	const char *variant;
	/* The submitting call blocks in a read of an empty pipe. */
	bool blocks;

	/* Prepare for at most nr_requests in flight. */
	void (*begin)(const struct pipe_side *side, unsigned nr_requests);
	/*
	 * Submit these requests in this order. One call submits them, at the latest when
	 * the side waits.
	 */
	void (*submit)(const struct pipe_request *requests, unsigned nr);
	/*
	 * Wait until these requests, at most PIPE_PAIR, are complete. No other request may
	 * complete meanwhile.
	 */
	void (*wait)(const struct pipe_request *requests, unsigned nr);
	/* Start counting. NULL: the side has no counters. */
	void (*count)(void);
	/* Print counters as members of a JSON object, each preceded by a comma. */
	void (*print)(FILE *file);
	void (*end)(void);
};

enum { PIPE_PAIR = 2 };

extern const struct pipe_side pipe_worker_for_each;
extern const struct pipe_side pipe_caller_runs;
extern const struct pipe_side pipe_delayed_kick; /* with caller-runs */
extern const struct pipe_side pipe_kernel;
extern const struct pipe_side pipe_plain;
extern const struct pipe_side pipe_uring; /* only if built with liburing */
extern const struct pipe_side pipe_uring_deferred;

/* Print what failed, with -errno, and end the program. */
_Noreturn void pipe_fail(const char *what, int error);

/*
 * A side calls this with the event of `request` while it waits for the `nr` requests at
 * `requests`. Return: the request's bit in their mask. Ends the program if it is none of
 * them or transferred too few bytes.
 */
unsigned pipe_take(const struct pipe_request *requests, unsigned nr,
		   const struct pipe_request *request, long long res);
/* Check that one event of each of the nr requests was reaped. */
void pipe_check_taken(unsigned mask, unsigned nr);

#endif /* BENCH_PIPE_H */
