/* SPDX-License-Identifier: MIT */
/*
 * The works of replaces.c: what programs do by kernel AIO, and what as many plain
 * threads do that make the same calls.
 *
 * A work is a row of the table in replaces.c and a source of its own. Its threads
 * share a job, which tells them when to end; each returns how many requests it
 * has made, all of which are over by then.
 */
#ifndef BENCH_REPLACES_H
#define BENCH_REPLACES_H

#include <libaio.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REPLACES_MAX_DEPTH = 1024, REPLACES_BLOCK = 4096 };

/* What the second process of a work did, in memory that both share. */
struct other {
	uint64_t requests;
	size_t rings; /* of kernel AIO */
};

struct job {
	/* immutable once its threads run */
	const char *path;
	size_t file_bytes;
	size_t bytes;   /* of a request */
	size_t depth;   /* requests of a thread under way; one if is_plain */
	size_t threads; /* with a context each; times depth if is_plain */
	bool is_plain;  /* by calls that wait */
	bool is_direct;
	bool is_sparse; /* the file is a hole when it begins */
	bool is_cold;   /* and not in the page cache */
	int fd;         /* the file, of works that open it once */

	/* of works with a second process, which is gone when run() returns */
	struct other *other;

	atomic_bool is_over;
};

struct work {
	const char *name;
	/* What the threads need; before any of them, and not measured. */
	void (*set_up)(struct job *job);
	/* One thread, of several. Return: how many requests. */
	uint64_t (*run)(const struct job *job, size_t thread);
};

/* replaces-io.c: reads and writes at random places of one file. */
extern const struct work replaces_read, replaces_write;
/* replaces-files.c: small files that are opened, read and closed. */
extern const struct work replaces_files;
/* replaces-poll.c: POLL on sockets, which are no files: PATH is not used. */
extern const struct work replaces_ping_pong, replaces_sockets;

/* replaces.c's: say what failed, and end the program. */
_Noreturn void fail(const char *what, int error);

/* Memory for so many requests, aligned for all. */
char *new_buffers(const struct job *job, size_t nr);

/* A context for all requests of a thread, which has no other. */
io_context_t new_context(const struct job *job);

/*
 * Its end, for each thread that has one: none goes before all have been made and
 * counted.
 */
void end_context(io_context_t context);

/* All are submitted when it returns, though it may take more than one call. */
void submit_all(io_context_t context, struct iocb **iocbs, size_t nr);

/* Return: how many events there are, each checked to be of a whole request. */
size_t reap(const struct job *job, io_context_t context,
	    struct io_event *events, size_t most);

static inline bool is_over(const struct job *job)
{
	return atomic_load_explicit(&job->is_over, memory_order_relaxed);
}

#endif /* BENCH_REPLACES_H */
