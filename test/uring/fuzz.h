/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the program fuzz have in common
 *
 * A world is a few rings, and what requests on them may name: descriptors of all
 * kinds, paths in a folder of the program's own, addresses, arguments. Requests are
 * made of these at random, so that many are refused, and none does anything to what
 * is not the world's (fuzz-make.c says how). All of a world is gone at its end.
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

/* Messages and tags have this in their user_data, and are not counted. */
#define EXTRA (UINT64_C(1) << 63)

/* What worlds that are alone have besides what all have (fuzz-kind.c). */
enum kind {
	KIND_PLAIN,
	KIND_SKIP,     /* requests that are not told of if they succeed */
	KIND_DISABLED, /* a ring that is disabled at first, and restrictions */
	KIND_TRACED, /* one request at a time; marks for a trace of memory accesses */
	NR_KINDS,
};

enum {
	NR_RINGS = 3,
	NR_FDS_MAX = 64,
	NR_REQUESTS = 4096, /* of a world */
	ARENA = 1 << 18,
	GAP = 4096, /* behind it, and then twice as much to read */
	NR_ARRAYS = 40,
	ARRAY = ARENA, /* bytes of each */
	BATCH_MAX = 8,
};

struct request {
	struct io_uring_sqe sqe; /* as it was submitted */
	bool is_pending, is_silent, makes_fd;
	uint8_t ring;
	uint8_t opcode, flags;
	int closes; /* the descriptor that is closed; -1 */
	int pipe[2];
};

struct ring {
	/* What it has is not asked for: whoever may use it is restricted. */
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
extern char *arena; /* ARENA bytes, before which and after which is nothing */
/*
 * NR_ARRAYS of ARRAY bytes: each array of provided buffers of a world that is alone has one,
 * and no request reads into it. What a client has given it must not change.
 */
extern char *arrays;
/* Few requests at a time, whose results do not depend on time. */
extern bool is_alone;
extern enum kind kind;

uint32_t any(uint32_t n);
void failed(const char *what, long number) __attribute__((noreturn));

/* fuzz.c: requests, and what comes of them */
/* Fill in and submit some; what is not taken is taken back. */
void submit(struct ring *ring, uint32_t nr);
void take_all(struct ring *ring);
/* Cancel all of a ring's, and wait until they have ended. */
void finish(struct ring *ring);

/* fuzz-alone.c */
void live_alone(uint64_t patience_us);
void note_alone(const struct request *request, const struct io_uring_cqe *cqe);
void note_silent(unsigned place);
/* Take completions until all that are told of have come. Return: whether they have. */
bool await(struct ring *ring, uint64_t patience_us);

/* fuzz-kind.c. Return: whether text is a seed, with or without a kind before it. */
bool parse_seed(const char *text, uint64_t *ret_seed);
/*
 * The requests of the world from that one on have ended, as far as they are told of.
 * Return: whether the others have, too.
 */
bool await_silent(struct ring *ring, unsigned from, uint64_t patience_us);

/*
 * KIND_TRACED. A trace of the program's accesses has a store to one of these: before a world,
 * before each submission, and after its completions. What one world submits lies in the
 * memory that print_traced() names.
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

/* What is asked of a ring that is disabled, which then is not any more. */
void live_disabled(struct ring *ring);

/* fuzz-make.c: values, most of them good, and requests. */
uint64_t memory(void);
uint32_t length(void);
int some_fd(void);
uint64_t some_user_data(void);
/* What files, or buffers, are registered from. */
void *some_table(bool is_file);
void make_sqe(struct ring *ring, struct io_uring_sqe *sqe,
	      struct request *request);
/* Fill in the arguments that requests point to. */
void make_arguments(void);
/* Those that are no vectors, and the vectors. */
const void *arguments(size_t *ret_bytes);
const void *vectors(size_t *ret_bytes);

/* fuzz-register.c. Return: what the call returned. */
long make_register(struct ring *ring, uint32_t *ret_opcode);
/* Restrict a ring to most of what there is. */
long register_likely_restrictions(struct ring *ring);

#endif
