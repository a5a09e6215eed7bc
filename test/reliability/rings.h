/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the program rings share
 *
 * A world is a few rings, files and streams, and threads that submit requests to the rings
 * while other threads disturb them. A request has a slot from its submission until its
 * last completion, and its user_data names world, ring, use of the slot, and slot.
 *
 * Every word of a file says which file it is for, at which offset, and which version of
 * its block it is. A block is BLOCK bytes, and each slot has one in every file. Every word
 * of a stream says which stream it was written to, and is the only one of its value.
 */
#ifndef RINGS_H
#define RINGS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "uring-client.h"

#define NR_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))
#define POISON UINT64_C(0x5a5a5a5a5a5a5a5a)
#define UNKNOWN UINT32_C(0xffffffff) /* a version */

enum {
	NR_STABLE = 4, /* files, of which no pair has one */
	NR_FILES = 8,
	NR_PAIRS = 4, /* of files that take turns at one descriptor */
	NR_SHARED = 3,
	NR_THREADS_MAX = 4,
	NR_RINGS = NR_SHARED + NR_THREADS_MAX,
	NR_SLOTS = 256, /* of each ring */
	NR_SPARE = 16,  /* blocks that no slot has */
	NR_BLOCKS = NR_RINGS * NR_SLOTS + NR_SPARE,
	BLOCK = 256,
	WORDS = BLOCK / 8,
	NR_STREAMS = 4,  /* two pipes, then two pairs of sockets */
	NR_BUFFERS = 32, /* provided, of each ring */
	GROUP = 1,
	NR_MULTI = 12, /* multishot requests of a world */
	BATCH_MAX = 16,
	NR_CLOSING = 64,
	NR_DESCRIPTORS = 1024, /* that the process may have */
	/* Descriptors that are replaced. The kernel gives out none so high by itself. */
	PAIR_FD = 900,
	STREAM_FD = PAIR_FD + NR_PAIRS, /* of the first two streams */
	OWN_FD = STREAM_FD + 2,
	/* Indices of registered files. */
	PAIR_INDEX = NR_STABLE,
	OWN_INDEX = PAIR_INDEX + NR_PAIRS,
	NR_REGISTERED = OWN_INDEX + NR_THREADS_MAX,
};

/*
 * What sanitizers make of handlers, of threads that are cancelled, and of children of a process
 * whose threads are at work, is their own: none of these is in their builds.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_SANITIZED = 1 };
#else
enum { IS_SANITIZED = 0 };
#endif

enum kind {
	KIND_NOP,
	KIND_READ,
	KIND_WRITE,
	KIND_SEND,
	KIND_RECEIVE,
	KIND_RECEIVE_MULTI,
	KIND_STALL, /* a read of a pipe that stays empty */
	KIND_POLL,
	KIND_POLL_MULTI,
	KIND_ACCEPT,
	KIND_ACCEPT_MULTI,
	KIND_CONNECT,
	KIND_OPEN,
	KIND_CLOSE,
	KIND_TIMEOUT,
	KIND_LINK_TIMEOUT,
	KIND_CANCEL,
	KIND_POST,    /* MSG_RING */
	KIND_MESSAGE, /* what a MSG_RING posts to another ring */
	KIND_UPDATE,
	KIND_SYNC,
	KIND_MISTAKE,
	NR_KINDS,
};

enum slot_state { SLOT_FREE, SLOT_PENDING, SLOT_DONE };

struct slot {
	/* atomic */
	uint64_t user_data;
	uint32_t state; /* enum slot_state; written under the lock */

	/* under the lock of the ring's slots */
	uint32_t generation;
	uint16_t nr_holds;
	uint16_t next_free;
	struct slot *holds; /* the slot whose block this one writes; or NULL */

	/* of whoever submits the request, then of whoever takes its completion */
	uint8_t kind;
	uint8_t id;       /* that is in the words which it writes */
	bool may_be_bad;  /* its descriptor may be closed meanwhile */
	bool may_be_left; /* its thread may end meanwhile */
	bool is_exact;    /* it reads this version */
	uint16_t files;   /* a bit for each file that may be meant */
	uint16_t file;    /* the only one of these; or NR_FILES */
	uint32_t version;
	uint32_t block;
	uint32_t len;
	uint32_t first; /* the index in its file of its first word */
	int stream;     /* or -1: any of the first two */
	int fd;
	struct ring *target; /* of a POST */
	uint64_t message;
	struct __kernel_timespec time;
	struct iovec iov;
	uint64_t words[WORDS];
};

struct ring {
	struct uring uring;
	unsigned index;
	bool is_open, has_thread, has_drains;
	uint32_t nr_pending; /* atomic */

	pthread_mutex_t sq_lock; /* who submits */
	pthread_mutex_t cq_lock; /* who takes completions; the buffers below */
	struct io_uring_buf_ring *array;
	uint16_t array_tail;
	bool is_given[NR_BUFFERS];
	uint64_t buffers[NR_BUFFERS][WORDS];

	pthread_mutex_t slots_lock;
	uint16_t first_free; /* NR_SLOTS: none */
	struct slot slots[NR_SLOTS];
};

struct stream {
	int ends[2]; /* to read from, and to write to */
	/* atomic */
	uint64_t nr_written, sum_written;
	uint64_t nr_read, sum_read;
	int32_t nr_readers;
};

struct thread {
	unsigned index;
	uint64_t random;
	pthread_t thread;
	uint64_t serial; /* of words of streams */
	bool leaves; /* a thread that submits for it ends, while its requests go on */
	struct ring *own;
	uint8_t own_file; /* of its own descriptor */
	uint8_t own_registered[NR_RINGS];
	int registered[NR_RINGS]; /* ring descriptors; or -1 */
};

struct world {
	uint64_t seed;
	uint16_t number;
	bool may_leave; /* threads are cancelled in calls, and jump out of them */
	unsigned nr_threads;
	int files[NR_FILES];
	struct stat_id {
		dev_t dev;
		ino_t ino;
	} identities[NR_FILES];
	char paths[NR_FILES][32];
	struct stream streams[NR_STREAMS];
	int stall[2];
	int listener;
	struct sockaddr_un address;
	socklen_t address_bytes;
	struct thread threads[NR_THREADS_MAX];

	/* atomic */
	uint32_t is_over; /* whoever disturbs ends */
	uint32_t nr_multi;

	pthread_mutex_t closing_lock;
	int closing
		[NR_CLOSING]; /* opened by requests, to be closed by requests */
	unsigned nr_closing;
};

/* What all worlds share, and the worlds that are played in children as well. */
struct record {
	/* atomic */
	uint64_t nr_completed;
	uint64_t nr_of[NR_KINDS];
	uint64_t nr_resized, nr_children, nr_signals, nr_jumps, nr_cancelled;
	uint64_t nr_made; /* rings, beside those of the worlds */
	/* of whoever has the slot */
	uint32_t versions[NR_BLOCKS];
	uint32_t expected[NR_FILES][NR_BLOCKS]; /* or UNKNOWN */
};

extern struct world world;
extern struct ring rings[NR_RINGS];
extern struct record *record;
extern const uint8_t pair_files[NR_PAIRS][2];

/* rings.c */
uint32_t any(struct thread *thread, uint32_t n);
void failed(const char *format, ...)
	__attribute__((noreturn, format(printf, 1, 2)));
/* Fail unless ok. */
void require(bool ok, const char *what);
void pause_us(unsigned us);
void lock(pthread_mutex_t *mutex);
void unlock(pthread_mutex_t *mutex);

static inline uint32_t load(const uint32_t *from)
{
	return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

/* Return: whether a thread of the kernel's takes the submissions. */
static inline bool is_polled(const struct ring *ring)
{
	return ring->uring.params.flags & IORING_SETUP_SQPOLL;
}

static inline uint64_t word_of(unsigned id, uint32_t version, uint32_t index)
{
	return (uint64_t)id << 56 | (uint64_t)(version & 0xffffff) << 32 |
	       index;
}

static inline unsigned id_of(uint64_t word)
{
	return (unsigned)(word >> 56);
}

static inline uint32_t version_of(uint64_t word)
{
	return (uint32_t)(word >> 32) & 0xffffff;
}

/* Return: the files that words with this id may be in. */
static inline uint16_t files_of(unsigned id)
{
	if (id < NR_FILES)
		return (uint16_t)(1u << id);
	if (id >= NR_FILES + NR_PAIRS)
		return 0;
	return (uint16_t)(1u << pair_files[id - NR_FILES][0] |
			  1u << pair_files[id - NR_FILES][1]);
}

static inline unsigned stream_id(unsigned stream)
{
	return 0x80 + stream;
}

/* rings-take.c */
const char *name_of(enum kind kind);
void open_slots(struct ring *ring);
/* Return: a slot of the ring's for a new request; NULL if all are in use. */
struct slot *get_slot(struct ring *ring, enum kind kind);
/* The writer writes to the block of the holder, which stays the holder's so long. */
void hold_slot(struct ring *ring, struct slot *holder, struct slot *writer);
/* The request was not accepted. */
void take_back(struct ring *ring, struct slot *slot);
/* Give the ring all of its buffers. */
void give_buffers(struct ring *ring);
/* Take what completions there are. Return: how many. */
unsigned reap(struct ring *ring);
uint32_t nr_pending_of_all(void);
/* What is pending, to standard error. */
void tell_pending(void);

/* Requests of one thread, which it submits by one call while it has the ring's sq_lock */
struct batch {
	struct thread *thread;
	struct ring *ring;
	uint32_t before; /* the head */
	unsigned nr;
	bool uses_own, uses_own_registered;
	bool is_sure; /* one of them ends soon by itself */
	struct slot *slots[BATCH_MAX];
};

/* rings-make.c */
void draw_requests(struct batch *batch, unsigned nr);
void draw_nops(struct batch *batch, unsigned nr);
/* Return: the next submission, zero but for these; NULL if no slot is free. */
struct io_uring_sqe *put(struct batch *batch, enum kind kind, int opcode,
			 int fd);
struct slot *last_of(const struct batch *batch);
bool one_in(const struct batch *batch, uint32_t n);
void poison(struct slot *slot);
void make_async(const struct batch *batch, struct io_uring_sqe *sqe);

/* rings-files.c */
void make_file(struct batch *batch);
void make_chain(struct batch *batch);
void make_open(struct batch *batch);
void make_close(struct batch *batch);
void make_sync(struct batch *batch);
void make_update(struct batch *batch);

/* rings-run.c */
extern pthread_barrier_t barrier;
/* thread: the only one that submits to the ring; or NULL. */
void open_ring(struct ring *ring, struct thread *thread, uint32_t flags,
	       uint32_t entries, uint32_t cq_entries);
void *submit_and_finish(void *thread);
/* A shared ring that takes submissions within the call. */
struct ring *any_plain_ring(struct thread *thread);
/* Draw and publish about nr requests, or NOPs. The caller has sq_lock, and submits them. */
void begin_batch(struct batch *batch, struct thread *thread, struct ring *ring,
		 bool is_nops, unsigned nr);
/* Whatever the ring has not accepted is taken back. Return: what it has. */
unsigned settle(struct batch *batch);

/* rings-disturb.c: threads, until the world is over */
void *replace_descriptors(void *thread);
void *send_signals(void *thread);
void *fork_children(void *thread);
void *make_rings(void *thread);
void *jump_out(void *thread);
void *cancel_threads(void *thread);
/* The handlers, for all worlds. */
void handle_signals(struct thread *thread);
void open_storm_ring(void);
void close_storm_ring(void);

/* rings-usage.c, after each world: the process has no more than after the first few. */
void check_usage(unsigned nr_worlds);
/* Note how much memory is resident. */
void sample(unsigned nr_worlds);
/* After the last: memory has not grown from world to world. */
void check_memory(void);

#endif /* RINGS_H */
