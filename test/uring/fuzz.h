/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of the program fuzz
 *
 * A world (one scenario) is a few rings and the things that requests on them may use:
 * descriptors of all kinds, paths in the program's own directory, addresses, arguments. Its
 * requests are made of these at random. Many of them are refused, and none affects anything
 * outside of the world (fuzz-make.c). Everything of a world is removed at its end.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "uring-client.h"
#include "uring/abi.h"

#define NR_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))
#define PICK(list) ((list)[any(NR_ELEMENTS(list))])

/* This bit marks the user_data of messages and tags, whose completions are not counted. */
#define EXTRA (UINT64_C(1) << 63)

/* The kinds of isolated worlds: what each has besides the common features (fuzz-kind.c). */
enum kind {
	KIND_PLAIN,
	KIND_SKIP,     /* requests with IOSQE_CQE_SKIP_SUCCESS */
	KIND_DISABLED, /* a ring that is disabled at first, and restrictions */
	KIND_TRACED, /* one request at a time; marks for a trace of memory accesses */
	NR_KINDS,
};

enum {
	NR_RINGS = 3,
	NR_FDS_MAX = 64,
	NR_REQUESTS = 4096, /* of a world */
	ARENA = 1 << 18,
	/* unmapped bytes after the arena, which twice as many readable bytes follow */
	GAP = 4096,
	NR_ARRAYS = 40,
	ARRAY = ARENA, /* bytes of each */
	BATCH_MAX = 8,
};

struct request {
	struct io_uring_sqe sqe; /* a copy of the submitted SQE */
	bool is_pending, is_silent, makes_fd;
	uint8_t ring;
	uint8_t opcode, flags;
	int closes; /* the descriptor that the request closes; or -1 */
	int pipe[2];
};

struct ring {
	/*
	 * The ring has restrictions: calls on it may be refused, so do not wait for its
	 * completions.
	 */
	bool is_lossy;
	struct uring uring; /* fd is -1: none */
	uint32_t nr_pending;
};

struct world {
	uint64_t number;
	struct ring rings[NR_RINGS];
	int fds[NR_FDS_MAX];
	unsigned nr_fds;
	struct request requests[NR_REQUESTS];
	unsigned nr_requests;
	unsigned nr_arrays;
};

extern struct world world;
extern char *arena; /* ARENA bytes; unmapped memory before and after */
/*
 * NR_ARRAYS of ARRAY bytes. In an isolated world, each array of provided buffers uses one,
 * and no request reads into it: the client's entries must stay unchanged.
 */
extern char *arrays;
/* The world is isolated: few requests at a time, whose results do not depend on time. */
extern bool is_alone;
extern enum kind kind;

uint32_t any(uint32_t n);
void failed(const char *what, long number) __attribute__((noreturn));

/* fuzz.c: requests, and what comes of them */
/* Fill in and submit some requests. Requests that are not accepted are freed. */
void submit(struct ring *ring, uint32_t nr);
void take_all(struct ring *ring);
/* Cancel all requests of a ring, and wait until they have ended. */
void finish(struct ring *ring);

/* fuzz-alone.c */
void live_alone(uint64_t patience_us);
void note_alone(const struct request *request, const struct io_uring_cqe *cqe);
void note_silent(unsigned place);
/*
 * Reap until all requests that post a completion have done so, or the time is over. Return:
 * whether all have.
 */
bool await(struct ring *ring, uint64_t patience_us);

/* fuzz-kind.c. Return: whether text is a seed, with or without a kind before it. */
bool parse_seed(const char *text, uint64_t *ret_seed);
/*
 * All requests from index `from` on that post a completion have ended. Return: whether the
 * silent ones (IOSQE_CQE_SKIP_SUCCESS) have ended, too.
 */
bool await_silent(struct ring *ring, unsigned from, uint64_t patience_us);

/*
 * KIND_TRACED. The program stores to one of these marks before a world, before each
 * submission, and after its completions, so that a trace of its memory accesses shows these
 * moments. print_traced() prints where the submitted data of a world are.
 */
enum mark { MARK_WORLD, MARK_BEGIN, MARK_END, NR_MARKS };

void make_mark(enum mark mark);
void print_traced(const struct ring *ring);

/* fuzz-world.c: what the world has. */
void close_fd(int fd);
void make_memory(void);
void make_world(void);
void end_world(void);
bool open_ring(struct ring *ring);
void close_ring(struct ring *ring);

/* Make register calls on a disabled ring, and enable it. */
void live_disabled(struct ring *ring);

/* fuzz-make.c: values, most of which are valid, and requests. */
uint64_t memory(void);
uint32_t length(void);
int some_fd(void);
uint64_t some_user_data(void);
/* Return: memory from which files (or buffers) are registered. */
void *some_table(bool is_file);
void make_sqe(struct ring *ring, struct io_uring_sqe *sqe,
	      struct request *request);
/* Fill in the arguments that requests point to. */
void make_arguments(void);
/* The arguments that are not vectors; the vectors. */
const void *arguments(size_t *ret_bytes);
const void *vectors(size_t *ret_bytes);

/* fuzz-register.c. Return: what the call returned. */
long make_register(struct ring *ring, uint32_t *ret_opcode);
/* Allow most operations on a ring by restrictions, and forbid the rest. */
long register_likely_restrictions(struct ring *ring);

#endif
