/* SPDX-License-Identifier: MIT */
/*
 * The works (kinds of load) of replaces.c: uses of kernel AIO that are common in
 * programs. Each work can also run without AIO: then threads make the same calls, and
 * block in them.
 *
 * A work is an entry of the table in replaces.c; its code is in replaces-*.c. Its
 * threads share a struct job, whose is_over tells them to end. Each thread returns how
 * many requests it made, all of which have completed.
 */
#ifndef BENCH_REPLACES_H
#define BENCH_REPLACES_H

#include <libaio.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REPLACES_MAX_DEPTH = 1024, REPLACES_BLOCK = 4096 };

/* Results of the second process that some works have, in shared memory. */
struct other {
	uint64_t requests;
	size_t rings; /* of kernel AIO */
};

struct job {
	/* immutable once threads run */
	const char *path;
	size_t file_bytes;
	size_t bytes; /* per request */
	size_t depth; /* DEPTH: requests in flight per context */
	/*
	 * number of threads, each with its own context; if is_plain is set, threads *
	 * depth threads run, and each makes one request at a time
	 */
	size_t threads;
	bool is_plain; /* blocking calls, no AIO */
	bool is_direct;
	bool is_sparse; /* the file is one hole when the measurement begins */
	bool is_cold;   /* the file is not in the page cache */
	/* descriptor of the file at `path`, if the work opens the file only once */
	int fd;

	/*
	 * results of the second process, if the work has one; that process ends before
	 * run() returns
	 */
	struct other *other;

	atomic_bool is_over;
};

struct work {
	const char *name;
	/* Prepare the work before the threads start. This is not measured. */
	void (*set_up)(struct job *job);
	/*
	 * Run one of the threads.
	 * Return: how many requests it made.
	 */
	uint64_t (*run)(const struct job *job, size_t thread);
};

/* replaces-io.c: reads and writes at random offsets of one file. */
extern const struct work replaces_read, replaces_write;
/* replaces-files.c: small files, each of which is opened, read and closed. */
extern const struct work replaces_files;
/* replaces-poll.c: POLL requests on sockets; the argument PATH is not used. */
extern const struct work replaces_ping_pong, replaces_sockets;

/*
 * In replaces.c: print what failed, with the text of the errno, and end the program.
 */
_Noreturn void fail(const char *what, int error);

/* Return: memory for nr buffers of job->bytes each, aligned for O_DIRECT. */
char *new_buffers(const struct job *job, size_t nr);

/* Return: a context for all requests that one thread has in flight. */
io_context_t new_context(const struct job *job);

/*
 * Wait until all threads have finished and count_rings() has counted the rings. Then
 * destroy the context.
 */
void end_context(io_context_t context);

/* Submit all iocbs, by several calls if one call does not accept all. */
void submit_all(io_context_t context, struct iocb **iocbs, size_t nr);

/*
 * Reap events, and check that each request transferred all its bytes.
 * Return: how many events there were.
 */
size_t reap(const struct job *job, io_context_t context,
	    struct io_event *events, size_t most);

static inline bool is_over(const struct job *job)
{
	return atomic_load_explicit(&job->is_over, memory_order_relaxed);
}

#endif /* BENCH_REPLACES_H */
