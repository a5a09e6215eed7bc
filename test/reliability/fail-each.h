/* SPDX-License-Identifier: MIT */
/*
 * fail-each: each system call of the library fails once, in each way that it may
 *
 *   fail-calls.c   which calls can fail and how; the hook that makes one fail
 *   fail-data.c    files and streams whose bytes are known
 *   fail-aio.c, fail-posix.c, fail-ring.c, fail-socket.c
 *                  workloads, each of which checks all of its results
 *   fail-each.c    runs a workload once for each call and each way to fail
 *
 * A site is an instruction that makes a system call. A case is the n-th call of one
 * site, in one workload, and a way to fail: an error number, a short count or a delay.
 * Each case has a process of its own. In that process the library starts, the workload
 * runs with the fault, and then runs again without one.
 */
#ifndef FAIL_EACH_H
#define FAIL_EACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Ways to fail other than an error number. */
enum { FAIL_SHORT = -1, FAIL_DELAY = -2 };

/* Flags of a kind of call: how a fault may affect a request. */
enum {
	FAIL_IS_DATA =
		1, /* a request makes this call, and may end with its error */
	FAIL_IS_MADE =
		2, /* the call takes effect although it returns an error */
	FAIL_CUT_BYTES =
		4, /* third argument: a length, which may be shortened */
	/* second and third argument: an iovec array, which may be shortened */
	FAIL_CUT_VECTOR = 8,
	/* ppoll(), which the library treats as "nothing is ready" on EINTR */
	FAIL_IS_POLL = 16,
};

/* A kind of system call, with the errors that its manual page allows here. */
struct fail_kind {
	const char *name;
	long nr;
	/*
	 * Return: whether a call with this number is of this kind. NULL: every such call
	 * is.
	 */
	bool (*is)(const long args[6]);
	unsigned flags;
	int errors[8]; /* ends with 0 */
};

extern const struct fail_kind fail_kinds[];
extern const unsigned fail_nr_kinds;

enum { FAIL_SITES_MAX = 1024 };

/* A site (instruction that makes system calls), and how often a workload reached it. */
struct fail_site {
	uint64_t
		/* the site's address in the program, and its kind; 0: a free slot */
		key;
	uint32_t nr_calls;
	uint32_t
		nr_cuts; /* number of these calls that can return a short count */
};

static inline uint64_t fail_key(uint32_t address, unsigned kind)
{
	return (uint64_t)address << 16 | kind;
}

/* One fault: the n-th call (from 1) of the site fails in this way. */
struct fail_fault {
	uint64_t key; /* 0: none */
	uint32_t n;
	int how;
};

/*
 * Shared memory of the sweep, the process of a case, and that process's children. All
 * members are atomic.
 */
struct fail_shared {
	uint32_t is_on; /* calls are counted, and may fail */
	uint32_t nr_seen;
	uint32_t is_done;   /* the fault has happened */
	uint32_t nr_errors; /* requests that ended with an allowed error */
	/*
	 * The most descriptors and objects that the library still had after a workload
	 * without a fault.
	 */
	uint32_t nr_own_fds;
	uint64_t nr_objects;
	struct fail_fault fault;
	struct fail_site sites[FAIL_SITES_MAX];
};

extern struct fail_shared *fail_shared;

/*
 * Pass all system calls of the library to the fault injector. Call it once, before all
 * others.
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

/* Whether every result has to be as if no call had failed. */
extern bool fail_is_strict;

/*
 * Waits take milliseconds. A wait that takes this many seconds counts as one that never
 * ends.
 */
enum { FAIL_PATIENCE_S = 30 };

/*
 * Return: whether a call of a front-end (kernel AIO, POSIX AIO, io_uring) may fail with
 * error, other than a request's.
 */
bool fail_may_refuse(int error);
/* Return: whether a request may end with error. */
bool fail_may_end_with(int error);

/* A request of any front-end. */
struct fail_job {
	const char *what;
	/* bytes requested; or the expected result of a request without bytes */
	int64_t asked;
	int also; /* a further error that it may have if a call fails; or 0 */
	int64_t res;
	bool is_pending; /* accepted, and not yet complete */
	bool is_accepted;
};

/* Report each completion of the request here, exactly once. */
void fail_complete(struct fail_job *job, int64_t res);
/* Check the result: a count of at least 1 (all bytes if strict), or an allowed error. */
void fail_judge_count(const struct fail_job *job);
/* Check the result: job->asked, or an allowed error. */
void fail_judge_value(const struct fail_job *job);

/*
 * fail-data.c
 */

enum { FAIL_BLOCK = 512, FAIL_BLOCKS = 3, FAIL_VECTORS = 128 };

/*
 * A file of FAIL_BLOCKS blocks. One request writes each block, then another request reads
 * it. The first block has one buffer, the second a short vector, the third a long one.
 */
struct fail_file {
	int fd;    /* of requests */
	int plain; /* descriptor of the same file, used without the library */
	struct fail_block {
		unsigned salt; /* varies the contents */
		unsigned nr_pieces;
		char out[FAIL_BLOCK], in[FAIL_BLOCK];
		struct iovec outs[FAIL_VECTORS], ins[FAIL_VECTORS];
	} blocks[FAIL_BLOCKS];
};

/*
 * fd is a descriptor of an empty file. The file uses it for everything; the caller closes
 * it.
 */
void fail_file_open(struct fail_file *file, int fd, unsigned salt);
/* Drop the written data from the page cache, if the file system allows that. */
void fail_file_cool(const struct fail_file *file);
/*
 * The request has written block i: check the file's block, and write the part that it did
 * not write.
 */
void fail_file_written(const struct fail_file *file, unsigned i,
		       const struct fail_job *job);
/* The request has read block i: check the data. */
void fail_file_read(const struct fail_file *file, unsigned i,
		    const struct fail_job *job);

enum { FAIL_STREAM_BYTES = 512 };

/*
 * A pipe or a socket, and the bytes that pass through it. Each byte is read once, in order.
 */
struct fail_stream {
	int from, to;
	size_t nr_put, nr_got;
	char bytes[FAIL_STREAM_BYTES];
};

void fail_stream_open(struct fail_stream *stream, bool is_socket,
		      unsigned salt);
/* Return: the next nr bytes to write to the stream. */
const char *fail_stream_next(const struct fail_stream *stream, size_t nr);
/* Write the next nr bytes, without the library. */
void fail_stream_put(struct fail_stream *stream, size_t nr);
/* The request has written the next nr bytes, or some of them: write the remaining bytes. */
void fail_stream_written(struct fail_stream *stream, size_t nr,
			 const struct fail_job *job);
/* The request has read the bytes at buf: check that they follow all bytes read before. */
void fail_stream_read(struct fail_stream *stream, const void *buf,
		      const struct fail_job *job);
/*
 * Check that all bytes that were written and not read are still in the stream. Close both
 * ends.
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
