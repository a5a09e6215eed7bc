/* SPDX-License-Identifier: MIT */
/*
 * Rings: what io_uring_setup() makes
 *
 * A ring is a queue (queue.h) with memory that it shares with the client, for
 * submissions and completions (memmap.h). The ring's descriptor is that of this
 * memory's file. table.h finds the ring of a descriptor.
 *
 *   I1  A ring's struct is never unmapped (slab.h), and stays on the list of all rings.
 *   I2  One thread at a time submits, or changes what is registered: the thread that
 *       holds the ring, by the word `submit`. This thread may execute requests
 *       meanwhile, so it then holds none of the core's locks.
 *   I3  nr_holds counts the known descriptors of a ring, and the slots of threads that
 *       have registered it. When it drops to 0, the ring dies: the bit DEAD of `submit`
 *       is set, and stays set until the struct is reused. From then on no further
 *       thread can hold or use the ring. The thread that sets DEAD closes the queue and
 *       cancels requests; if another thread holds the ring, this other thread does so
 *       when it releases the ring. No thread waits for that release.
 *   I4  A thread that waits for completions, or sends a message to a ring, uses the
 *       ring (nr_users), which keeps its memory. The thread increments nr_users, then
 *       checks DEAD. The thread that sets DEAD checks nr_users afterwards.
 *   I5  nr_taken counts the completions that accepted submissions and registered tags
 *       owe; nr_done counts the completions that were posted. A dead ring is freed by
 *       the next thread that makes or closes a ring once nr_taken equals nr_done and no
 *       thread uses the ring.
 *   I6  A child of fork() has its parent's ring structs, but not their queues: `epoch`
 *       tells such rings apart (uaio_uring_is_here()). The child may take a ring over
 *       (share.h).
 *
 * Lock order: the table's lock, the word `submit`, the queue's lock.
 *
 * Tested by test-uring.c, test-uring-setup.c and test-uring-races.c.
 */
#ifndef UAIO_URING_RING_H
#define UAIO_URING_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/slab.h"
#include "proc/process.h"
#include "op/op.h"
#include "req/queue.h"
#include "uring/memmap.h"
#include "uring/kbuf.h"
#include "uring/rsrc.h"

struct uaio_uring_note;
struct uaio_uring_overflow;

/* Bits of the word `submit`. */
enum {
	UAIO_URING_HELD = 1,
	UAIO_URING_WAITED = 2, /* threads sleep until the ring is released */
	UAIO_URING_DEAD = 4,
	/* the holder must drop entries: rsrc.h, I5; only with HELD */
	UAIO_URING_OWES = 8,
};

/* What a ring allows (restrict.c). */
struct uaio_uring_restrictions {
	bool is_registered;
	uint8_t sqe_flags_allowed; /* IOSQE_* */
	uint8_t sqe_flags_required;
	/* One bit for each opcode that is allowed. */
	uint64_t register_ops;
	uint64_t sqe_ops;
};

struct uaio_uring {
	struct uaio_slab_node node;
	struct uaio_uring *next; /* next in the list of all rings; immutable */

	/* Atomic, written under the table's lock. */
	/* identity of its memory file; ino is 0 if the ring is not open */
	uint64_t dev, ino;
	uint32_t nr_holds;
	int32_t witness; /* owns: a descriptor (witness.h); or -1 */
	uint32_t epoch;  /* which start of the engine the ring belongs to */

	/* Immutable while the ring is open. */
	uint32_t setup; /* IORING_SETUP_* */
	/* uaio_process_nr_forks when the ring was made: share.h */
	uint32_t nr_forks;
	bool is_inherited;         /* taken over from the parent process */
	uint64_t generation;       /* generation of the queue */
	struct uaio_uring_mem mem; /* immutable, except its layout: setup.c */

	struct uaio_called called; /* immutable: how the core calls the ring */

	/*
	 * Atomic. A resize (setup.c) changes these, in the thread that holds the ring
	 * and under the queue's lock.
	 */
	uint32_t sq_entries, cq_entries;

	/* Atomic. */
	uint32_t submit;
	uint32_t nr_users;
	uint32_t shares_files; /* rsrc.h, I4; never cleared */
	/*
	 * How many of the next multishot receives will probably end after few shots,
	 * because earlier ones ended for want of room in the ring. A guess.
	 */
	uint32_t nr_short;
	uint32_t is_disabled; /* 1 until IORING_REGISTER_ENABLE_RINGS */
	uint32_t is_restricted;
	uint32_t clock; /* CLOCK_*, for waits */
	/* Where the client last mapped the rings; 0: unknown. For ThreadSanitizer. */
	uintptr_t seen_at;
	/* the only thread that may submit; NULL: any thread */
	const void *owner;

	/* These belong to the thread that holds the ring (I2). */
	uint32_t sq_head;
	/* CQE_SKIP_SUCCESS was used, so drains are now refused */
	bool is_without_drains;
	/* the last submission was a drain, so the next one follows it */
	bool was_drained;
	bool checks_each_sqe; /* each submission needs extra checks */
	uint64_t nr_taken;
	/*
	 * shares (ref): sleepers (op/sleeper.h) of the requests that this call submits
	 */
	struct uaio_sleeper *sleepers;
	/*
	 * Changes also need the queue's lock, under which other threads read these
	 * (rsrc.h).
	 */
	struct uaio_uring_table files;
	struct uaio_uring_table buffers;
	uint32_t max_workers[2];
	struct uaio_uring_restrictions
		restrictions; /* immutable once enabled */
	/* owns: credentials by number, 0 for none; or NULL */
	uint64_t *personalities;
	uint32_t next_personality;

	struct uaio_uring_groups groups; /* kbuf.h */
	struct uaio_uring_region region; /* memmap.h */

	struct uaio_queue queue __attribute__((aligned(64)));

	/* Under the queue's lock. */
	uint64_t progress; /* atomic; cq.h: the lower half is the tail */
	/* number of unlinked timeouts that have completed, each of which ends waits */
	uint32_t nr_timeouts;
	/* atomic; number of completions so far, except of unlinked timeouts */
	uint64_t cq_events;
	struct heap counting; /* timeouts that complete after a count */
	uint64_t nr_counted;  /* how many timeouts ever counted */
	/* timeouts whose count is reached: timeout.c, I2 */
	struct list reached;
	uint32_t nr_reached; /* atomic */
	/* number of completions of the current post that cq_events omits */
	uint32_t nr_uncounted;
	bool is_ending; /* a thread is completing the timeouts in `reached` */
	struct uaio_uring_rsrc *owed; /* owns: rsrc.h, I5; or NULL */
	/* the note of the poll that is being changed: cancel.h */
	const struct uaio_uring_note *updating;
	bool is_updating;
	/* the completion of that poll was hidden from the client */
	bool was_hidden;
	uint64_t nr_done;
	struct uaio_uring_overflow *first_over, *last_over; /* owns */
	struct uaio_file *eventfd; /* shares (ref); or NULL */
	bool is_eventfd_async; /* the eventfd signals only completions by workers */
	int32_t bell;          /* atomic; bell.h: a descriptor, or -1 */
	uint32_t bell_state; /* atomic: bell.h */
	/* atomic; some thread has waited: uaio_uring_may_complete() */
	uint32_t has_waited;
	/* the bell is, or was, in an epoll; under the queue's lock */
	bool is_in_epoll;
	bool is_due;                 /* on the list of due rings (bell.c) */
	struct uaio_uring *next_due; /* next in this list of due rings */

	/* Under the lock of ring.c. */
	struct uaio_uring *next_dead;
	bool is_counted;
};

/* Return: whether other processes may use the ring (share.h). */
static inline bool uaio_uring_is_shared(const struct uaio_uring *ring)
{
	/* relaxed: fork() counts in the parent before the child exists */
	return unlikely(load_relaxed(&uaio_process_nr_forks) != ring->nr_forks);
}

/* Return: whether other threads may change slots of files (rsrc.h, I4). */
static inline bool uaio_uring_shares_files(const struct uaio_uring *ring)
{
	/*
	 * relaxed: set by this thread, or by a thread that leaves the replaced file to
	 * this thread
	 */
	return load_relaxed(&ring->shares_files);
}

/* The core is about to accept a request that changes slots of files (rsrc.h, I4). */
static inline void uaio_uring_set_shares_files(struct uaio_uring *ring)
{
	/* relaxed: only this thread, which holds the ring, depends on it */
	store_relaxed(&ring->shares_files, 1);
}

/* Called each time the engine starts. */
void uaio_urings_init(void);
/* Called in fork(), before the child exists: see I1 of share.h. */
void uaio_urings_fork(void);

/*
 * Make a ring from the client's params, which are checked and have the sizes.
 * Return: its descriptor, or with IORING_SETUP_REGISTERED_FD_ONLY its slot in this
 * thread; or -errno.
 */
int uaio_uring_new(struct io_uring_params *params,
		   struct uaio_uring **ret_ring);

/* Return: whether the ring belongs to this process, rather than to a parent process */
bool uaio_uring_is_here(const struct uaio_uring *ring);

/*
 * For table.c, under its lock: make a ring of the parent a ring of this process. The
 * caller then sets `epoch`, by which other threads see the ring.
 */
void uaio_uring_take_over(struct uaio_uring *ring);

/*
 * Hold a ring (I2), which the caller has found by descriptor or registered slot.
 * Return: false if it is dead.
 */
bool uaio_uring_hold_slowly(struct uaio_uring *ring);
void uaio_uring_release_slowly(struct uaio_uring *ring, uint32_t word);

static inline bool uaio_uring_hold(struct uaio_uring *ring)
{
	uint32_t free = 0;

	/* [MB:uring-submit] acquire: pairs with uaio_uring_release(). */
	return cas_acquire(&ring->submit, &free, UAIO_URING_HELD) ||
	       uaio_uring_hold_slowly(ring);
}

static inline void uaio_uring_release(struct uaio_uring *ring)
{
	uint32_t held = UAIO_URING_HELD;

	/* [MB:uring-submit] release: pairs with uaio_uring_hold(). */
	if (!cas_release(&ring->submit, &held, 0))
		uaio_uring_release_slowly(ring, held);
}

/* Use a ring (I4). Return: false if it is dead. */
bool uaio_uring_use(struct uaio_uring *ring);
void uaio_uring_unuse(struct uaio_uring *ring);

/* The ring has lost its last hold (I3). Caller holds no lock. */
void uaio_uring_die(struct uaio_uring *ring);

/* Return: the first ring of the list of all rings, open or not. */
struct uaio_uring *uaio_uring_first(void);

/* Add the statistics of all rings. */
struct uaio_counters;
void uaio_urings_count(struct uaio_counters *counters);

#endif /* UAIO_URING_RING_H */
