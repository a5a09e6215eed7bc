/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the program `rings` share
 *
 * struct world describes one scenario: a few rings, files and streams, threads that
 * submit requests to the rings, and threads that disturb them. A request occupies a
 * slot from its submission until its last completion. Its user_data contains the
 * scenario, the ring, how often the slot was used, and the slot.
 *
 * Each word of a file contains the file (or pair of files) and the offset to which it
 * belongs, and the version of its block. A block has BLOCK bytes; each slot has a block
 * of its own in every file. Each word of a stream says to which stream it was written.
 * No two words of streams are equal.
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
	/* the first NR_STABLE files keep their descriptors */
	NR_STABLE = 4,
	NR_FILES = 8,
	/* pairs of files; the two files of a pair take turns at one descriptor */
	NR_PAIRS = 4,
	NR_SHARED = 3,
	NR_THREADS_MAX = 4,
	NR_RINGS = NR_SHARED + NR_THREADS_MAX,
	NR_SLOTS = 256, /* of each ring */
	NR_SPARE = 16,  /* blocks that belong to no slot */
	NR_BLOCKS = NR_RINGS * NR_SLOTS + NR_SPARE,
	BLOCK = 256,
	WORDS = BLOCK / 8,
	NR_STREAMS = 4,  /* two pipes and two pairs of sockets */
	NR_BUFFERS = 32, /* provided buffers in each ring */
	GROUP = 1,
	NR_MULTI = 12, /* most multishot requests in a scenario at a time */
	BATCH_MAX = 16,
	NR_CLOSING = 64,
	NR_DESCRIPTORS = 1024, /* limit of the process's descriptors */
	/*
	 * Descriptors whose files are replaced. The kernel allocates no descriptors as
	 * high as these by itself.
	 */
	PAIR_FD = 900,
	/* descriptors of the first two streams' read ends */
	STREAM_FD = PAIR_FD + NR_PAIRS,
	OWN_FD = STREAM_FD + 2,
	/* Indices of registered files */
	PAIR_INDEX = NR_STABLE,
	OWN_INDEX = PAIR_INDEX + NR_PAIRS,
	NR_REGISTERED = OWN_INDEX + NR_THREADS_MAX,
};

/*
 * Sanitizers have problems with signal handlers, cancelled threads, and children of
 * processes with threads. So a build with a sanitizer has none of these.
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
	KIND_STALL, /* a read of a pipe that remains empty */
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
	KIND_POST, /* MSG_RING */
	/* the completion that a MSG_RING request posts to another ring */
	KIND_MESSAGE,
	KIND_UPDATE,
	KIND_SYNC,
	KIND_MISTAKE,
	NR_KINDS,
};

enum slot_state { SLOT_FREE, SLOT_PENDING, SLOT_DONE };

struct slot {
	/* atomic */
	uint64_t user_data;
	uint32_t state; /* enum slot_state; written under slots_lock */

	/* under the ring's slots_lock */
	uint32_t generation;
	uint16_t nr_holds;
	uint16_t next_free;
	/*
	 * If this request writes the block of another slot: that slot. Otherwise NULL.
	 */
	struct slot *holds;

	/*
	 * The members from here on belong to the thread that submits, then to the
	 * thread that consumes the completion.
	 */
	uint8_t kind;
	/* the file, pair or stream that the request's words contain (word_of()) */
	uint8_t id;
	/* the descriptor may be closed before the request starts */
	bool may_be_bad;
	/* the submitting thread may end before the request does */
	bool may_be_left;
	bool is_exact;  /* it must read exactly `version` */
	uint16_t files; /* a bit for each file that the request may use */
	/*
	 * Index of the request's file in world.files. NR_FILES: the request uses no
	 * file, or one of the two files that take turns at a descriptor (NR_PAIRS).
	 */
	uint16_t file;
	uint32_t version;
	uint32_t block;
	uint32_t len;
	/* The request's first word in the file: its index from the file's start */
	uint32_t first;
	/*
	 * Index of the stream that the request reads or writes. -1: it reads stream 0 or
	 * 1, because another thread replaces one by the other at the request's
	 * descriptor.
	 */
	int stream;
	int fd;
	/* the descriptor, or index of a registered file, of a read or write */
	int used;
	struct ring *target; /* of a POST */
	uint64_t message;
	struct __kernel_timespec time;
	struct iovec iov;
	uint64_t words[WORDS];
};

struct ring {
	/*
	 * changes when the thread that owns the ring resizes it; no other thread uses
	 * such a ring
	 */
	struct uring uring;
	int fd; /* of `uring`; does not change while the ring is open */
	unsigned index;
	bool is_open, has_thread, has_drains;
	uint32_t nr_pending; /* atomic */

	pthread_mutex_t sq_lock; /* held by a thread while the thread submits */
	/*
	 * Held to consume completions. It also protects the members up to slots_lock.
	 */
	pthread_mutex_t cq_lock;
	struct io_uring_buf_ring *array;
	uint16_t array_tail;
	bool is_given[NR_BUFFERS];
	uint64_t buffers[NR_BUFFERS][WORDS];

	pthread_mutex_t slots_lock;
	uint16_t first_free; /* NR_SLOTS: none */
	struct slot slots[NR_SLOTS];
};

struct stream {
	int ends[2]; /* ends[0] is for reads, ends[1] for writes */
	/* atomic */
	uint64_t nr_written, sum_written;
	uint64_t nr_read, sum_read;
	int32_t nr_readers;
};

struct thread {
	unsigned index;
	uint64_t random;
	pthread_t thread;
	/* counts the words that this thread writes to streams */
	uint64_t serial;
	/*
	 * this thread, or a thread or child that submits for it, may end while its
	 * requests are in flight
	 */
	bool leaves;
	struct ring *own;
	uint8_t own_file; /* index of the file at the thread's own descriptor */
	uint8_t own_registered[NR_RINGS];
	/* registered indices of the rings' descriptors; or -1 */
	int registered[NR_RINGS];
};

struct world {
	uint64_t seed;
	uint16_t number;
	/* threads are cancelled in calls, or leave them by siglongjmp() */
	bool may_leave;
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
	uint32_t is_over; /* the scenario ends, so the disturbing threads end */
	uint32_t nr_multi;

	pthread_mutex_t closing_lock;
	/* descriptors that requests opened and that requests will close */
	int closing[NR_CLOSING];
	unsigned nr_closing;
};

/* Shared by all scenarios, including those that run in child processes */
struct record {
	/* atomic */
	uint64_t nr_completed;
	uint64_t nr_of[NR_KINDS];
	uint64_t nr_resized, nr_children, nr_signals, nr_jumps, nr_cancelled;
	uint64_t nr_made; /* rings made by make_rings() */
	/*
	 * Indexed by block: the version of the newest write; and the version that each
	 * file must contain. The request in the block's slot owns the block's elements.
	 */
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

/* Return: whether the ring has a kernel thread that polls for submissions. */
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

/* Return: which files may contain words with this id, a bit for each. */
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
/* Return: a free slot of the ring, for a new request; NULL if all are in use. */
struct slot *get_slot(struct ring *ring, enum kind kind);
/*
 * The request `writer` writes the block that belongs to the slot `holder`. So `holder`
 * stays in use until that write is complete.
 */
void hold_slot(struct ring *ring, struct slot *holder, struct slot *writer);
/* The ring did not accept the request: free its slot. */
void take_back(struct ring *ring, struct slot *slot);
/* Provide all buffers of the ring (IORING_REGISTER_PBUF_RING). */
void give_buffers(struct ring *ring);
/*
 * Consume all completions in the ring.
 * Return: how many.
 */
unsigned reap(struct ring *ring);
uint32_t nr_pending_of_all(void);
/* Print the requests in flight to standard error. */
void tell_pending(void);

/*
 * Requests that a thread submits by one call. The thread holds the ring's sq_lock until
 * the call has returned.
 */
struct batch {
	struct thread *thread;
	struct ring *ring;
	uint32_t before; /* head of the submission queue before the call */
	unsigned nr;
	bool uses_own, uses_own_registered;
	bool is_sure; /* at least one request soon completes by itself */
	struct slot *slots[BATCH_MAX];
};

/* rings-make.c */
void draw_requests(struct batch *batch, unsigned nr);
void draw_nops(struct batch *batch, unsigned nr);
/*
 * Add a request of this kind to the batch.
 * Return: its SQE, in which only opcode, fd and user_data are set; NULL if no slot is
 * free.
 */
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
/* thread: the only thread that submits to the ring; NULL: each thread may. */
void open_ring(struct ring *ring, struct thread *thread, uint32_t flags,
	       uint32_t entries, uint32_t cq_entries);
void *submit_and_finish(void *thread);
/*
 * Return: a shared ring without SQPOLL: io_uring_enter() itself submits the requests.
 */
struct ring *any_plain_ring(struct thread *thread);
/*
 * Choose about nr requests, at random or only NOPs, and put them into the submission
 * queue. The caller holds sq_lock, and submits the requests.
 */
void begin_batch(struct batch *batch, struct thread *thread, struct ring *ring,
		 bool is_nops, unsigned nr);
/*
 * Free the slots of the requests that the ring did not accept.
 * Return: how many it accepted.
 */
unsigned settle(struct batch *batch);

/* rings-disturb.c: functions of threads, which run until the scenario ends */
void *replace_descriptors(void *thread);
void *send_signals(void *thread);
void *fork_children(void *thread);
void *make_rings(void *thread);
void *jump_out(void *thread);
void *cancel_threads(void *thread);
/* Install the handlers of the signals. */
void handle_signals(struct thread *thread);
void open_storm_ring(void);
void close_storm_ring(void);

/*
 * rings-usage.c. After each scenario: check that the process uses no more than after
 * the first few scenarios.
 */
void check_usage(unsigned nr_worlds);
/* Record how much memory is resident. */
void sample(unsigned nr_worlds);
/*
 * After the last scenario: check that memory has not grown from scenario to scenario.
 */
void check_memory(void);

#endif /* RINGS_H */
