/* SPDX-License-Identifier: MIT */
/*
 * Rings
 *
 * A ring is what io_uring_setup makes: a queue (queue.h), with memory from which a
 * client's submissions are taken and into which completions are put (memmap.h). Its
 * descriptor is that of the memory; table.h leads from descriptors to rings.
 *
 *   I1  A ring is never unmapped (slab.h), and stays on the list of all rings.
 *   I2  One thread at a time submits, or changes what is registered: it holds the
 *       ring by the word `submit`. That may last as long as a request that is
 *       executed at once, so the thread holds none of the core's locks meanwhile.
 *   I3  nr_holds counts the descriptors of a ring that are known, and the places
 *       among the rings that threads have registered. When there is none left, the
 *       ring dies: DEAD is set once, and never again until the ring is made anew.
 *       From then on nobody gets to hold the ring or to use it, and the thread that
 *       has set DEAD, or the one that holds the ring just then, closes the queue and
 *       cancels what can be cancelled. Nobody waits.
 *   I4  A thread that waits for completions, or that sends a message to a ring, uses
 *       the ring (nr_users), so that its memory stays. It counts first and looks
 *       for DEAD then; the thread that sets DEAD looks at the count after that.
 *   I5  nr_taken counts completions that are owed, nr_done those that came. A ring
 *       that is dead is freed when both are the same and nobody uses it, by the next
 *       thread that makes a ring or that closes one.
 *   I6  A child of fork() has its parent's rings by number and memory, but no queue:
 *       epoch tells (uaio_uring_is_here()). It may take them over (share.h).
 *
 * Lock order: the table's lock, the ring's word, the queue's lock.
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

/* submit */
enum {
	UAIO_URING_HELD = 1,
	UAIO_URING_WAITED = 2, /* threads sleep until it is not held */
	UAIO_URING_DEAD = 4,
	UAIO_URING_OWES = 8, /* rsrc.h, I5; only with HELD */
};

/* restrict.c */
struct uaio_uring_restrictions {
	bool is_registered;
	uint8_t sqe_flags_allowed; /* IOSQE_* */
	uint8_t sqe_flags_required;
	/* A bit for each opcode that is allowed. */
	uint64_t register_ops;
	uint64_t sqe_ops;
};

struct uaio_uring {
	struct uaio_slab_node node;
	struct uaio_uring *next; /* of all, immutable */

	/* atomic, written under the table's lock */
	uint64_t dev, ino; /* of its memory; ino is 0 if it is not open */
	uint32_t nr_holds;
	int32_t witness; /* owns: witness.h; or -1 */
	uint32_t epoch;  /* of the engine that it belongs to */

	/* immutable while open */
	uint32_t setup;            /* IORING_SETUP_* */
	uint32_t nr_forks;         /* when it was made: see share.h */
	bool is_inherited;         /* it was its parent's */
	uint64_t generation;       /* of the queue */
	struct uaio_uring_mem mem; /* but for its array: setup.c */

	struct uaio_called called; /* immutable: how the core calls the ring */

	/*
	 * atomic; they change when it is resized (setup.c), by the thread that holds
	 * it and under the queue's lock
	 */
	uint32_t sq_entries, cq_entries;

	/* atomic */
	uint32_t submit;
	uint32_t nr_users;
	uint32_t shares_files; /* rsrc.h, I4; never taken back */
	/*
	 * So many of the next receives with many shots have few, as others have ended
	 * for want of room for their completions: a guess.
	 */
	uint32_t nr_short;
	uint32_t is_disabled; /* until IORING_REGISTER_ENABLE_RINGS */
	uint32_t is_restricted;
	uint32_t clock; /* CLOCK_*, by which its waits are */
	/*
	 * Where a client has mapped the rings last, as far as that is known; 0:
	 * nowhere. For sanitizers of threads.
	 */
	uintptr_t seen_at;
	const void *owner; /* the thread that submits; NULL: any may */

	/* of the thread that holds the ring */
	uint32_t sq_head;
	bool is_without_drains; /* CQE_SKIP_SUCCESS was used */
	bool was_drained; /* and the next request behind that is yet to come */
	bool is_picky;    /* each submission needs a closer look */
	uint64_t nr_taken;
	/* shares (ref): those of the requests that this call submits */
	struct uaio_sleeper *sleepers;
	/* written under the queue's lock as well */
	struct uaio_uring_table files;
	struct uaio_uring_table buffers;
	uint32_t max_workers[2];
	struct uaio_uring_restrictions
		restrictions;    /* immutable once enabled */
	uint64_t *personalities; /* owns; by number, 0: none; or NULL */
	uint32_t next_personality;

	struct uaio_uring_groups groups; /* kbuf.h */
	struct uaio_uring_region region; /* memmap.h */

	struct uaio_queue queue __attribute__((aligned(64)));

	/* under the queue's lock */
	uint64_t progress;    /* atomic; cq.h: the tail, in its lower half */
	uint32_t nr_timeouts; /* that have ended, which ends waits */
	uint64_t cq_events; /* atomic; completions so far, but those of these */
	struct heap counting;         /* timeouts that end by a count */
	uint64_t nr_counted;          /* of these, ever */
	struct list reached;          /* those that are due; timeout.c, I2 */
	uint32_t nr_reached;          /* atomic */
	uint32_t nr_uncounted;        /* of a post: what cq_events leaves out */
	bool is_ending;               /* a thread ends those that are due */
	struct uaio_uring_rsrc *owed; /* owns: rsrc.h, I5; or NULL */
	const struct uaio_uring_note *updating; /* a poll; see cancel.h */
	bool is_updating;
	bool was_swallowed; /* the completion of that poll */
	uint64_t nr_done;
	struct uaio_uring_overflow *first_over, *last_over; /* owns */
	struct uaio_file *eventfd; /* shares (ref); or NULL */
	bool is_eventfd_async;     /* only what workers execute is signalled */
	int32_t bell;              /* atomic; bell.h: a descriptor, or -1 */
	uint32_t bell_state;       /* atomic: bell.h */
	uint32_t has_waited;       /* atomic: uaio_uring_may_complete() */
	bool is_in_epoll; /* the bell is, or was; under the queue's lock */
	bool is_due;      /* it is on the list of bell.c */
	struct uaio_uring *next_due; /* while it is on that list */

	/* under the lock of ring.c */
	struct uaio_uring *next_dead;
	bool is_counted;
};

/* Return: whether other processes may use the ring (share.h). */
static inline bool uaio_uring_is_shared(const struct uaio_uring *ring)
{
	/* relaxed: a process counts its fork before the child is there */
	return unlikely(load_relaxed(&uaio_process_nr_forks) != ring->nr_forks);
}

/* Return: whether places of files may change meanwhile (rsrc.h, I4). */
static inline bool uaio_uring_shares_files(const struct uaio_uring *ring)
{
	/* relaxed: the thread's own, or another's that leaves what it may have */
	return load_relaxed(&ring->shares_files);
}

/* A request that changes places is about to be given to the core (rsrc.h, I4). */
static inline void uaio_uring_set_shares_files(struct uaio_uring *ring)
{
	/* relaxed: it is this thread that looks */
	store_relaxed(&ring->shares_files, 1);
}

/* Called each time the engine starts. */
void uaio_urings_init(void);
/* The process forks: see to I1 of share.h. */
void uaio_urings_fork(void);

/*
 * Make a ring. params is the client's, checked, with the sizes.
 * Return: its descriptor, or with IORING_SETUP_REGISTERED_FD_ONLY its place among those
 * of this thread; or -errno.
 */
int uaio_uring_new(struct io_uring_params *params,
		   struct uaio_uring **ret_ring);

/* Return: whether the ring is of this process and not of one that it is a child of */
bool uaio_uring_is_here(const struct uaio_uring *ring);

/*
 * For table.c, under its lock: make a ring of a parent's one of this process, but for
 * its epoch. Another thread may not know it yet.
 */
void uaio_uring_take_over(struct uaio_uring *ring);

/*
 * Hold a ring, for the caller that finds it by fd (or by its registered number).
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

/* The ring has lost its last hold; the caller holds no lock. */
void uaio_uring_die(struct uaio_uring *ring);

/* Return: the first of all rings, open or not. */
struct uaio_uring *uaio_uring_first(void);

/* Add what the rings have counted. */
struct uaio_counters;
void uaio_urings_count(struct uaio_counters *counters);

#endif /* UAIO_URING_RING_H */
