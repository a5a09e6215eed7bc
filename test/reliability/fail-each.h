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

/* What a fault may make of a request: flags of a kind of call. */
enum {
	FAIL_IS_DATA = 1, /* a request makes it, and may have its error */
	FAIL_IS_MADE = 2, /* it takes effect though it returns an error */
	FAIL_CUT_BYTES =
		4, /* its third argument is a length, which may be cut */
	FAIL_CUT_VECTOR = 8, /* its second and third are a vector, the same */
	FAIL_IS_POLL = 16, /* it is ppoll(): EINTR says that nothing is ready */
};

/* One kind of system call, and all the errors that its manual page allows it here. */
struct fail_kind {
	const char *name;
	long nr;
	/* Whether a call with this number is of this kind; NULL: each is. */
	bool (*is)(const long args[6]);
	unsigned flags;
	int errors[8]; /* up to a 0 */
};

extern const struct fail_kind fail_kinds[];
extern const unsigned fail_nr_kinds;

enum { FAIL_SITES_MAX = 1024 };

/* A site, and how often a workload came there. */
struct fail_site {
	uint64_t
		key; /* its address in the program, and its kind; 0: a free slot */
	uint32_t nr_calls;
	uint32_t nr_cuts; /* calls that can return a short count */
};

static inline uint64_t fail_key(uint32_t address, unsigned kind)
{
	return (uint64_t)address << 16 | kind;
}

/* What one fault does: the n-th call, from 1, of the site fails in this way. */
struct fail_fault {
	uint64_t key; /* 0: none */
	uint32_t n;
	int how;
};

/* Shared by the sweep, the process of a case, and that one's children. All atomic. */
struct fail_shared {
	uint32_t is_on; /* calls are counted, and may fail */
	uint32_t nr_seen;
	uint32_t is_done; /* the call has failed */
	uint32_t
		nr_errors; /* requests that ended with an error that is allowed */
	/* Most that the library had left of each, after the workload without a fault. */
	uint32_t nr_own_fds;
	uint64_t nr_objects;
	struct fail_fault fault;
	struct fail_site sites[FAIL_SITES_MAX];
};

extern struct fail_shared *fail_shared;

/* Answer all system calls of the library from now on. Called once, at first. */
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

/* A wait takes milliseconds; one that takes this long never ends. */
enum { FAIL_PATIENCE_S = 30 };

/* Return: whether a call of a door's, other than a request, may fail with error. */
bool fail_may_refuse(int error);
/* Return: whether a request may end with error. */
bool fail_may_end_with(int error);

/* A request of any door. */
struct fail_job {
	const char *what;
	int64_t asked; /* bytes, or the one result of a request without bytes */
	int also; /* an error that it may have besides, if a call fails; or 0 */
	int64_t res;
	bool is_pending; /* accepted, and not complete */
	bool is_accepted;
};

/* It has ended: call this once for each completion. */
void fail_complete(struct fail_job *job, int64_t res);
/* Its result is a count of at least 1, all of them if strict, or an allowed error. */
void fail_judge_count(const struct fail_job *job);
/* Its result is job->asked, or an allowed error. */
void fail_judge_value(const struct fail_job *job);

/*
 * fail-data.c
 */

enum { FAIL_BLOCK = 512, FAIL_BLOCKS = 3, FAIL_VECTORS = 128 };

/*
 * A file of FAIL_BLOCKS blocks: each is written by one request, and then read by
 * another. The first has one buffer, the second a short vector, the third a long one.
 */
struct fail_file {
	int fd;    /* of requests */
	int plain; /* the same file, for what is done without the library */
	struct fail_block {
		unsigned salt; /* of what is written */
		unsigned nr_pieces;
		char out[FAIL_BLOCK], in[FAIL_BLOCK];
		struct iovec outs[FAIL_VECTORS], ins[FAIL_VECTORS];
	} blocks[FAIL_BLOCKS];
};

/* Both are fd, of a file without bytes; the caller closes it. */
void fail_file_open(struct fail_file *file, int fd, unsigned salt);
/* Take what was written out of the page cache, if the file system lets it go. */
void fail_file_cool(const struct fail_file *file);
/* The request has written block i: check what the file has, and write the rest. */
void fail_file_written(const struct fail_file *file, unsigned i,
		       const struct fail_job *job);
/* The request has read block i: check it. */
void fail_file_read(const struct fail_file *file, unsigned i,
		    const struct fail_job *job);

enum { FAIL_STREAM_BYTES = 512 };

/* A pipe or a socket, and what goes through it: each byte is read once, in order. */
struct fail_stream {
	int from, to;
	size_t nr_put, nr_got;
	char bytes[FAIL_STREAM_BYTES];
};

void fail_stream_open(struct fail_stream *stream, bool is_socket,
		      unsigned salt);
/* Return: where the next nr bytes to be written are. */
const char *fail_stream_next(const struct fail_stream *stream, size_t nr);
/* Write them, without the library. */
void fail_stream_put(struct fail_stream *stream, size_t nr);
/* The request has written the next nr bytes; or some, and the rest follow. */
void fail_stream_written(struct fail_stream *stream, size_t nr,
			 const struct fail_job *job);
/* The request has read what is at buf, after all that was read before. */
void fail_stream_read(struct fail_stream *stream, const void *buf,
		      const struct fail_job *job);
/* All that was written, and not read, is still there. Close both ends. */
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
