/* SPDX-License-Identifier: MIT */
/*
 * fail-each: lets each system call of the library fail once, in each way that it can
 *
 * fail-calls.c   which calls can fail and how; the hook that makes a call fail
 * fail-data.c    files and streams with known bytes
 * fail-aio.c, fail-posix.c, fail-ring.c, fail-socket.c
 *                workloads, each of which checks all its results
 * fail-each.c    runs a workload once for each call and each way to fail
 *
 * A site is an instruction that makes a system call. A case is the n-th call of a site
 * in a workload, together with a way to fail: an error number, a short count or a
 * delay. Each case runs in a process of its own: the library starts, the workload runs
 * with the fault, then again without it.
 */
#ifndef FAIL_EACH_H
#define FAIL_EACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Ways to fail that are no error numbers */
enum { FAIL_SHORT = -1, FAIL_DELAY = -2 };

/* Flags of a kind of call: what such a call does, and how it may fail */
enum {
	/*
	 * the call executes a request, so the request may complete with the call's
	 * error
	 */
	FAIL_IS_DATA = 1,
	FAIL_IS_MADE =
		2, /* the call takes effect even if it returns an error */
	/* the third argument is a number of bytes, which may be reduced */
	FAIL_CUT_BYTES = 4,
	/*
	 * the second and third argument are an iovec array, which may be shortened
	 */
	FAIL_CUT_VECTOR = 8,
	/* a ppoll() for which the library takes EINTR as "nothing is ready" */
	FAIL_IS_POLL = 16,
};

/*
 * A kind of system call, with the errors that it may return here according to its
 * manual page
 */
struct fail_kind {
	const char *name;
	long nr;
	/*
	 * Return: whether a call with number nr is of this kind. If `is` is NULL, each
	 * call with number nr is.
	 */
	bool (*is)(const long args[6]);
	unsigned flags;
	int errors[8]; /* ends with 0 */
};

extern const struct fail_kind fail_kinds[];
extern const unsigned fail_nr_kinds;

enum { FAIL_SITES_MAX = 1024 };

/*
 * A site (instruction that makes system calls), and how often a workload has executed
 * it
 */
struct fail_site {
	/*
	 * fail_key() of the site's address in the program and the kind of call
	 * (fail_kinds[]); 0: free slot
	 */
	uint64_t key;
	uint32_t nr_calls;
	uint32_t nr_cuts; /* how many of the calls can return a short count */
};

static inline uint64_t fail_key(uint32_t address, unsigned kind)
{
	return (uint64_t)address << 16 | kind;
}

/* A fault: the n-th call of the site, counted from 1, fails in this way. */
struct fail_fault {
	uint64_t key; /* 0: none */
	uint32_t n;
	int how;
};

/*
 * Memory that the main process, a case's process and that process's children share. All
 * members are atomic.
 */
struct fail_shared {
	uint32_t is_on; /* system calls are counted, and may fail */
	uint32_t nr_seen;
	uint32_t is_done;   /* the fault has happened */
	uint32_t nr_errors; /* requests that completed with an allowed error */
	/*
	 * The most descriptors and objects that the library kept after a workload
	 * without a fault.
	 */
	uint32_t nr_own_fds;
	uint64_t nr_objects;
	struct fail_fault fault;
	struct fail_site sites[FAIL_SITES_MAX];
};

extern struct fail_shared *fail_shared;

/*
 * From now on, all system calls of the library pass through the fault injector. Call
 * fail_hook() once, before all other functions.
 */
void fail_hook(void);

/*
 * What workloads check
 */

/* Print what is wrong, and end the process. */
_Noreturn void fail_with(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

#define need(condition, ...)                    \
	do {                                    \
		if (!(condition))               \
			fail_with(__VA_ARGS__); \
	} while (0)

/* Whether each result must be the same as if no call had failed. */
extern bool fail_is_strict;

/*
 * A wait usually takes milliseconds. If it takes this many seconds, it counts as
 * endless.
 */
enum { FAIL_PATIENCE_S = 30 };

/*
 * Return: whether a call of a front-end (kernel AIO, POSIX AIO, io_uring) may itself
 * fail with this error.
 */
bool fail_may_refuse(int error);
/* Return: whether a request may complete with this error. */
bool fail_may_end_with(int error);

/* A request of any front-end */
struct fail_job {
	const char *what;
	/*
	 * how many bytes were requested; for a request without bytes, the expected
	 * result
	 */
	int64_t asked;
	/* another error with which the request may complete after a fault; or 0 */
	int also;
	int64_t res;
	bool is_pending; /* accepted, and not complete */
	bool is_accepted;
};

/* Record the completion of a request. Call it exactly once for each request. */
void fail_complete(struct fail_job *job, int64_t res);
/*
 * Check that the result is an allowed error, or a number of bytes that is at least 1.
 * If fail_is_strict, all requested bytes must have been moved.
 */
void fail_judge_count(const struct fail_job *job);
/* Check that the result is job->asked, or an allowed error. */
void fail_judge_value(const struct fail_job *job);

/*
 * fail-data.c
 */

enum { FAIL_BLOCK = 512, FAIL_BLOCKS = 3, FAIL_VECTORS = 128 };

/*
 * A file of FAIL_BLOCKS blocks. Each block is written by one request, then read by
 * another. Requests of the first block use a single buffer. Requests of the second
 * block use a short vector, and those of the third a long vector.
 */
struct fail_file {
	int fd; /* of requests */
	/* a second descriptor of the file, used without the library */
	int plain;
	struct fail_block {
		unsigned salt; /* varies the contents */
		unsigned nr_pieces;
		char out[FAIL_BLOCK], in[FAIL_BLOCK];
		struct iovec outs[FAIL_VECTORS], ins[FAIL_VECTORS];
	} blocks[FAIL_BLOCKS];
};

/*
 * Initialize a file. fd refers to an empty file; both descriptors of `file` are set to
 * fd. The caller closes fd.
 */
void fail_file_open(struct fail_file *file, int fd, unsigned salt);
/* Remove the written data from the page cache, if the file system permits that. */
void fail_file_cool(const struct fail_file *file);
/*
 * Check what the request has written to block i, then write the part of the block that
 * the request did not write.
 */
void fail_file_written(const struct fail_file *file, unsigned i,
		       const struct fail_job *job);
/* Check what the request has read from block i. */
void fail_file_read(const struct fail_file *file, unsigned i,
		    const struct fail_job *job);

enum { FAIL_STREAM_BYTES = 512 };

/*
 * A pipe or a pair of sockets, and the bytes that pass through. Each byte is read once,
 * in order.
 */
struct fail_stream {
	int from, to;
	size_t nr_put, nr_got;
	char bytes[FAIL_STREAM_BYTES];
};

void fail_stream_open(struct fail_stream *stream, bool is_socket,
		      unsigned salt);
/* Return: the next nr bytes that must be written to the stream. */
const char *fail_stream_next(const struct fail_stream *stream, size_t nr);
/* Write the next nr bytes, without the library. */
void fail_stream_put(struct fail_stream *stream, size_t nr);
/*
 * Account for a request that wrote the next nr bytes or some of them: write the rest.
 */
void fail_stream_written(struct fail_stream *stream, size_t nr,
			 const struct fail_job *job);
/*
 * Check that the bytes that the request has read to `buf` are the next ones of the
 * stream.
 */
void fail_stream_read(struct fail_stream *stream, const void *buf,
		      const struct fail_job *job);
/*
 * Check that the stream still contains all bytes that were written and not read. Close
 * both ends.
 */
void fail_stream_close(struct fail_stream *stream);

/*
 * Workloads
 */

void fail_work_aio(void);
void fail_work_direct(void);
void fail_work_files(void);
void fail_work_fork(void);
void fail_work_posix(void);
void fail_work_ring(void);
void fail_work_sockets(void);

#endif /* FAIL_EACH_H */
