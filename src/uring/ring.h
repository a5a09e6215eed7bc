/* SPDX-License-Identifier: MIT */
/*
 * Rings: what io_uring_setup() makes
 *
 * A ring is a queue (queue.h) with memory that it shares with the client, for
 * submissions and completions (memmap.h). The ring's descriptor is a descriptor of this
 * memory's file. table.h finds the ring of a descriptor.
 *
 *   I1  A ring's struct is never unmapped (slab.h), and stays on the list of all rings.
 *   I2  One thread at a time submits, or changes what is registered: the thread that
 *       holds the ring. Holding a ring means owning a lock, the bit HELD of `submit`.
 *       The holder may execute requests meanwhile, so it then holds none of the core's
 *       locks.
 *   I3  nr_holds counts the known descriptors of a ring, and the slots of threads that
 *       have registered it. When it drops to 0, the ring dies: the bit DEAD of `submit`
 *       is set, and stays set until the struct is reused. From then on no further
 *       thread can hold or use the ring. The thread that sets DEAD closes the queue and
 *       cancels requests. If another thread holds the ring, this holder closes the
 *       queue and cancels the requests when it releases the ring. No thread waits for
 *       the release.
 *   I4  A thread that waits for completions, or sends a message to a ring, uses the
 *       ring: it counts in nr_users, which keeps the ring's memory. The thread
 *       increments nr_users, then checks DEAD. The thread that sets DEAD checks
 *       nr_users afterwards.
 *   I5  nr_taken counts the completions that accepted submissions and registered tags
 *       must get; nr_done counts those that were posted. A dead ring can be freed once
 *       nr_taken equals nr_done and no thread uses the ring. The next thread that makes
 *       or closes a ring frees it.
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

struct uaio_uring_overflow;

/* Bits of the word `submit`. */
enum {
	UAIO_URING_HELD = 1,
	UAIO_URING_WAITED = 2, /* a thread sleeps until the ring is released */
	UAIO_URING_DEAD = 4,
	/* set only with HELD: on release the holder must drop the entries in `owed` */
	UAIO_URING_OWES = 8,
};

/* What a ring allows (restrict.c). */
struct uaio_uring_restrictions {
	bool is_registered;
	uint8_t sqe_flags_allowed; /* IOSQE_* */
	uint8_t sqe_flags_required;
	/* A bit for each allowed opcode, of io_uring_register() and of submissions. */
	uint64_t register_ops;
	uint64_t sqe_ops;
};

struct uaio_uring {
	struct uaio_slab_node node;
	struct uaio_uring *next; /* next in the list of all rings; immutable */

	/* Atomic, written under the table's lock. */
	/*
	 * device and inode number of the ring's memory file; ino is 0 if the ring is
	 * not open
	 */
	uint64_t dev, ino;
	uint32_t nr_holds;
	/*
	 * owns: a witness (witness.h), while a thread closes a descriptor of the ring;
	 * or -1
	 */
	int32_t witness;
	/* uaio_engine_start_nr() when this process made the ring or took it over (I6) */
	uint32_t epoch;

	/* Immutable while the ring is open. */
	uint32_t setup; /* IORING_SETUP_* */
	/* uaio_process_nr_forks when the ring was made: share.h */
	uint32_t nr_forks;
	bool is_inherited;   /* taken over from the parent process */
	uint64_t generation; /* the generation of `queue` (queue.h) */
	struct uaio_uring_mem
		mem; /* immutable, but a resize changes the layout */

	/*
	 * immutable: the function that executes messages, cancels and similar requests
	 * (cancel.h)
	 */
	struct uaio_called called;

	/*
	 * Atomic. A resize (setup.c) changes these, in the thread that holds the ring
	 * and under the queue's lock.
	 */
	uint32_t sq_entries, cq_entries;

	/* Atomic. */
	uint32_t submit;
	uint32_t nr_users;
	/*
	 * other threads may change slots of registered files (rsrc.h, I4); never
	 * cleared
	 */
	uint32_t shares_files;
	/*
	 * How many of the next multishot receives get no duplicate of their descriptor,
	 * because they will probably end early: earlier receives found no room in the
	 * ring. A guess.
	 */
	uint32_t nr_short;
	uint32_t is_disabled; /* 1 until IORING_REGISTER_ENABLE_RINGS */
	uint32_t is_restricted;
	uint32_t clock; /* CLOCK_*, for waits */
	/* Where the client last mapped the rings; 0: unknown. For ThreadSanitizer. */
	uintptr_t seen_at;
	/* the only thread that may submit; NULL: any thread */
	const void *owner;

	/* The next members belong to the thread that holds the ring (I2). */
	uint32_t sq_head;
	/* IOSQE_CQE_SKIP_SUCCESS was used, so IOSQE_IO_DRAIN is now refused */
	bool is_without_drains;
	/*
	 * a drain was submitted: the first request that is submitted once the drain is
	 * complete starts only when the call that submits it ends (add_linked())
	 */
	bool was_drained;
	/* each submission needs prepare_rare() (sq.c), even one without flags */
	bool checks_each_sqe;
	uint64_t nr_taken;
	/*
	 * shares (ref): sleepers (op/sleeper.h) of the requests that the current
	 * io_uring_enter() call submits
	 */
	struct uaio_sleeper *sleepers;
	/*
	 * Other threads read these tables under the queue's lock, so changes need this
	 * lock, too (rsrc.h).
	 */
	struct uaio_uring_table files;
	struct uaio_uring_table buffers;
	uint32_t max_workers[2];
	struct uaio_uring_restrictions
		restrictions; /* immutable once the ring is enabled */
	/* owns: a hash of credentials for each personality (0: unused); or NULL */
	uint64_t *personalities;
	uint32_t next_personality;

	struct uaio_uring_groups groups; /* kbuf.h */
	struct uaio_uring_region region; /* memmap.h */

	struct uaio_queue queue __attribute__((aligned(64)));

	/* Under the queue's lock. */
	uint64_t progress; /* atomic; tail and nr_timeouts (cq.h) */
	/*
	 * number of unlinked timeouts that have completed; each of them ended all waits
	 */
	uint32_t nr_timeouts;
	/* atomic; number of completions so far, except of unlinked timeouts */
	uint64_t cq_events;
	/* timeouts that wait for a number of completions */
	struct heap counting;
	/* number that the next timeout with a count gets (uaio_uring_timeout.number) */
	uint64_t nr_counted;
	/* timeouts whose count is reached: timeout.c, I2 */
	struct list reached;
	uint32_t nr_reached; /* atomic */
	/* how many completions of the current post must not count in cq_events */
	uint32_t nr_uncounted;
	bool is_ending; /* a thread is completing the timeouts in `reached` */
	/*
	 * owns: list of registered files that other threads replaced, and that the
	 * ring's holder must drop (rsrc.h, I5); or NULL
	 */
	struct uaio_uring_rsrc *owed;
	uint64_t nr_done;
	struct uaio_uring_overflow *first_over, *last_over; /* owns */
	struct uaio_file *eventfd; /* shares (ref); or NULL */
	bool is_eventfd_async; /* the eventfd signals only completions by workers */
	int32_t bell;          /* atomic; bell.h: a descriptor, or -1 */
	bool is_rung;          /* atomic: the bell is readable; bell.h */
	/*
	 * atomic; a thread has waited for completions since uaio_uring_may_complete()
	 * last cleared this flag
	 */
	uint32_t has_waited;
	/* the bell is, or was, in an epoll; under the queue's lock */
	bool is_in_epoll;
	bool is_due;                 /* on the list of due rings (bell.c) */
	struct uaio_uring *next_due; /* next in the list of due rings */

	/* Under the lock of ring.c. */
	struct uaio_uring *next_dead;
	bool is_counted;
};

/* Return: whether other processes may use the ring (share.h). */
static inline bool uaio_uring_is_shared(const struct uaio_uring *ring)
{
	/*
	 * relaxed: before the child exists, fork() increments the counter, and then
	 * locks and unlocks each queue (share.h, I1)
	 */
	return unlikely(load_relaxed(&uaio_process_nr_forks) != ring->nr_forks);
}

/*
 * Return: whether other threads may change slots of registered files (rsrc.h, I4).
 */
static inline bool uaio_uring_shares_files(const struct uaio_uring *ring)
{
	/*
	 * relaxed: if this thread set shares_files, it sees the new value. A thread
	 * that sends a file to the ring may also have set it (rsrc.h, I5). Even if this
	 * thread does not see that, the replaced file stays, because only this thread,
	 * the holder, drops the file.
	 */
	return load_relaxed(&ring->shares_files);
}

/*
 * Call this before the core accepts a request that changes slots of registered files
 * (rsrc.h, I4).
 */
static inline void uaio_uring_set_shares_files(struct uaio_uring *ring)
{
	/*
	 * relaxed: only this thread, which holds the ring, must see the new value
	 */
	store_relaxed(&ring->shares_files, 1);
}

/* Called each time the engine (the library's core) starts. */
void uaio_urings_init(void);
/*
 * Called in fork() before the child exists: wait until each post that has begun has
 * ended (share.h, I1).
 */
void uaio_urings_fork(void);

/*
 * Make a ring from params, which uaio_uring_check_params() has checked and completed.
 * Return: its descriptor, or with IORING_SETUP_REGISTERED_FD_ONLY its slot in this
 * thread; or -errno.
 */
int uaio_uring_new(struct io_uring_params *params,
		   struct uaio_uring **ret_ring);

/* Return: whether the ring belongs to this process, rather than to a parent process */
bool uaio_uring_is_here(const struct uaio_uring *ring);

/*
 * For table.c, under its lock: make a ring of the parent a ring of this process. The
 * caller then sets `epoch`: from then on other threads can use the ring.
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

/* End the ring, because nr_holds has dropped to 0 (I3). Caller holds no lock. */
void uaio_uring_die(struct uaio_uring *ring);

/* Return: the first ring of the list of all rings, open or not. */
struct uaio_uring *uaio_uring_first(void);

/* Add the statistics of all rings, also of freed ones, to *counters. */
struct uaio_counters;
void uaio_urings_count(struct uaio_counters *counters);

#endif /* UAIO_URING_RING_H */
