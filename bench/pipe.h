/* SPDX-License-Identifier: MIT */
/*
 * Shared by the implementations (sides) of pipe.c: this library's AIO or the kernel's
 * (pipe-aio.c), io_uring (pipe-uring.c), and read() and write() (pipe-plain.c).
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
	/* a read of an empty pipe blocks the caller of submit() */
	bool blocks;

	/* Prepare this implementation for at most nr_requests requests in flight. */
	void (*begin)(const struct pipe_side *side, unsigned nr_requests);
	/*
	 * Submit nr requests in their order, by one call. The implementation may delay
	 * the submission until the caller calls wait().
	 */
	void (*submit)(const struct pipe_request *requests, unsigned nr);
	/*
	 * Wait until the nr requests, at most PIPE_PAIR, are complete. No other request
	 * may complete during the wait.
	 */
	void (*wait)(const struct pipe_request *requests, unsigned nr);
	/* Start counting what print() prints. NULL: there are no counters. */
	void (*count)(void);
	/* Print counters as members of a JSON object, each preceded by a comma. */
	void (*print)(FILE *file);
	void (*end)(void);
};

enum { PIPE_PAIR = 2 };

extern const struct pipe_side pipe_worker_for_each;
extern const struct pipe_side pipe_caller_runs;
extern const struct pipe_side pipe_delayed_kick; /* caller-runs+delayed-kick */
extern const struct pipe_side pipe_kernel;
extern const struct pipe_side pipe_plain;
/* Only defined if the program is built with liburing. */
extern const struct pipe_side pipe_uring;
extern const struct pipe_side pipe_uring_deferred;

/* Print what failed and the text for `error`, a -errno. End the program. */
_Noreturn void pipe_fail(const char *what, int error);

/*
 * An implementation that waits for the `nr` requests at `requests` calls this function
 * for each event: `request` is the event's request, `res` its result.
 * Return: a mask with one bit, whose number is the index of `request` in `requests`.
 * Ends the program if `request` is not in `requests`, or transferred too few bytes.
 */
unsigned pipe_take(const struct pipe_request *requests, unsigned nr,
		   const struct pipe_request *request, long long res);
/*
 * Check that one event of each of the nr requests was reaped. mask: all results of
 * pipe_take(), combined by OR.
 */
void pipe_check_taken(unsigned mask, unsigned nr);

#endif /* BENCH_PIPE_H */
