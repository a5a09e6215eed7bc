/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of the program `fuzz`
 *
 * struct world describes one scenario: a few rings, and the things that requests on
 * them may use. These are descriptors of all kinds, paths in the program's own
 * directory, addresses, arguments. fuzz-make.c combines these at random in requests.
 * The kernel or the library refuses many of the requests, and none affects anything
 * outside the scenario. At the end of a scenario, the program removes everything that
 * belongs to it.
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

/*
 * The program does not count completions whose user_data has this bit: those of
 * messages (MSG_RING), and those that carry the tag of a registered file or buffer.
 */
#define EXTRA (UINT64_C(1) << 63)

/*
 * Kinds of isolated scenarios (fuzz-kind.c). Each kind has the
 * features of KIND_PLAIN, and those that its comment names.
 */
enum kind {
	KIND_PLAIN,
	KIND_SKIP,     /* requests with IOSQE_CQE_SKIP_SUCCESS */
	KIND_DISABLED, /* a ring created disabled, and restrictions */
	/* one request at a time, with marks for a trace of memory accesses */
	KIND_TRACED,
	NR_KINDS,
};

enum {
	NR_RINGS = 3,
	NR_FDS_MAX = 64,
	NR_REQUESTS = 4096, /* most requests of one scenario */
	ARENA = 1 << 18,
	/*
	 * After the arena come GAP bytes without access, then 2 * GAP read-only bytes.
	 * Some requests use them.
	 */
	GAP = 4096,
	NR_ARRAYS = 40,
	ARRAY = ARENA, /* bytes of each array */
	BATCH_MAX = 8,
};

struct request {
	struct io_uring_sqe sqe; /* a copy of the submitted SQE */
	bool is_pending, is_silent, makes_fd;
	uint8_t ring;
	uint8_t opcode, flags;
	int closes; /* descriptor that the request closes; or -1 */
	int pipe[2];
};

struct ring {
	/*
	 * The ring has restrictions, so calls on it may be refused: do not wait for its
	 * completions.
	 */
	bool is_lossy;
	struct uring uring; /* if its fd is -1, there is no ring */
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
extern char *arena; /* ARENA bytes for requests, between inaccessible bytes */
/*
 * NR_ARRAYS arrays of ARRAY bytes. In an isolated scenario, each ring of
 * provided buffers is in one of these arrays. No request reads data into the arrays, so
 * the client's entries must stay unchanged.
 */
extern char *arrays;
/*
 * The scenario is isolated: it has few requests at a time, and its results do
 * not depend on time.
 */
extern bool is_alone;
extern enum kind kind;

uint32_t any(uint32_t n);
void failed(const char *what, long number) __attribute__((noreturn));

/* fuzz.c: submits requests, and handles their completions */
/*
 * Fill in and submit nr requests. If the ring does not accept some of them, remove these
 * from the submission queue.
 */
void submit(struct ring *ring, uint32_t nr);
void take_all(struct ring *ring);
/* Cancel all requests of a ring, and wait until they have completed. */
void finish(struct ring *ring);

/*
 * fuzz-alone.c: runs an isolated scenario, and records how its requests
 * complete
 */
void live_alone(uint64_t patience_us);
void note_alone(const struct request *request, const struct io_uring_cqe *cqe);
void note_silent(unsigned place);
/*
 * Reap until all requests that post a completion have done so, or patience_us is over.
 * Return: whether all of them have posted a completion.
 */
bool await(struct ring *ring, uint64_t patience_us);

/*
 * fuzz-kind.c: parse KIND:SEED, or SEED alone, and set `kind`.
 * Return: whether the text is valid.
 */
bool parse_seed(const char *text, uint64_t *ret_seed);
/*
 * Called when all requests from index `from` on that post a completion have done so.
 * Return: whether the requests without a completion (IOSQE_CQE_SKIP_SUCCESS) have ended,
 * too.
 */
bool await_silent(struct ring *ring, unsigned from, uint64_t patience_us);

/*
 * KIND_TRACED. The program stores to one of these marks before a scenario,
 * before each submission, and after the completions of that submission. So a trace of
 * the program's memory accesses shows these moments. print_traced() prints the addresses
 * of the data that a scenario submits.
 */
enum mark { MARK_WORLD, MARK_BEGIN, MARK_END, NR_MARKS };

void make_mark(enum mark mark);
void print_traced(const struct ring *ring);

/* fuzz-world.c: what belongs to a scenario */
void close_fd(int fd);
void make_memory(void);
void make_world(void);
void end_world(void);
bool open_ring(struct ring *ring);
void close_ring(struct ring *ring);

/*
 * Call io_uring_register() and io_uring_enter() on a disabled ring, then enable the
 * ring.
 */
void live_disabled(struct ring *ring);

/* fuzz-make.c: random values, most of them valid, and random requests */
uint64_t memory(void);
uint32_t length(void);
int some_fd(void);
uint64_t some_user_data(void);
/*
 * Return: an array that a request can register: of descriptors if is_file; else of
 * vectors.
 */
void *some_table(bool is_file);
void make_sqe(struct ring *ring, struct io_uring_sqe *sqe,
	      struct request *request);
/*
 * Fill in the memory to which requests point: vectors, addresses, times and so on.
 */
void make_arguments(void);
/*
 * vectors(): the vectors to which requests point. arguments(): all other memory to
 * which requests point.
 * Return: the address of this memory. *ret_bytes: its size.
 */
const void *arguments(size_t *ret_bytes);
const void *vectors(size_t *ret_bytes);

/*
 * fuzz-register.c. Make a random call of io_uring_register().
 * Return: its result.
 */
long make_register(struct ring *ring, uint32_t *ret_opcode);
/*
 * Register restrictions that allow most operations on the ring, and forbid the others.
 */
long register_likely_restrictions(struct ring *ring);

#endif
