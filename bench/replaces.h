/* SPDX-License-Identifier: MIT */
/*
 * The works (loads) of replaces.c: what programs do by kernel AIO; or, with the same calls,
 * by blocking threads.
 *
 * A work is a row of the table in replaces.c with its own source file. Its threads share a
 * job, which tells them when to end. Each thread returns how many requests it made; all of
 * them have completed.
 */
#ifndef BENCH_REPLACES_H
#define BENCH_REPLACES_H

#include <libaio.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REPLACES_MAX_DEPTH = 1024, REPLACES_BLOCK = 4096 };

/* Results of a work's second process, in shared memory. */
struct other {
	uint64_t requests;
	size_t rings; /* of kernel AIO */
};

struct job {
	/* immutable once its threads run */
	const char *path;
	size_t file_bytes;
	size_t bytes; /* per request */
	size_t depth; /* requests in flight per thread; 1 if is_plain */
	/* threads, with a context each; if is_plain, depth times as many */
	size_t threads;
	bool is_plain; /* blocking calls instead of AIO */
	bool is_direct;
	bool is_sparse; /* the file is a hole at the start */
	bool is_cold;   /* the file is not in the page cache */
	int fd;         /* the file, for works that open it once */

	/* for works with a second process, which ends before run() returns */
	struct other *other;

	atomic_bool is_over;
};

struct work {
	const char *name;
	/* Prepare the work before any thread runs; not measured. */
	void (*set_up)(struct job *job);
	/* Run one of several threads. Return: the number of its requests. */
	uint64_t (*run)(const struct job *job, size_t thread);
};

/* replaces-io.c: reads and writes at random offsets of one file. */
extern const struct work replaces_read, replaces_write;
/* replaces-files.c: small files that are opened, read and closed. */
extern const struct work replaces_files;
/* replaces-poll.c: POLL on sockets; PATH is not used. */
extern const struct work replaces_ping_pong, replaces_sockets;

/* In replaces.c: print what failed, and end the program. */
_Noreturn void fail(const char *what, int error);

/* Return: nr buffers of the request size, aligned for O_DIRECT. */
char *new_buffers(const struct job *job, size_t nr);

/* Return: a context for all requests of one thread. */
io_context_t new_context(const struct job *job);

/*
 * Wait until all threads have finished and the rings have been counted. Then destroy the
 * context.
 */
void end_context(io_context_t context);

/* Submit all iocbs, by several calls if one call does not accept all. */
void submit_all(io_context_t context, struct iocb **iocbs, size_t nr);

/* Return: how many events were reaped. Each one is checked for a full result. */
size_t reap(const struct job *job, io_context_t context,
	    struct io_event *events, size_t most);

static inline bool is_over(const struct job *job)
{
	return atomic_load_explicit(&job->is_over, memory_order_relaxed);
}

#endif /* BENCH_REPLACES_H */
