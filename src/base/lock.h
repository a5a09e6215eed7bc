/* SPDX-License-Identifier: MIT */
/*
 * Locks with a rank
 *
 * A mutex of four bytes. A thread that finds it taken spins for a microsecond
 * or two, which is longer than it is held as a rule, and then sleeps, since the
 * holder may have been preempted. Zero bytes are a free lock, so static and
 * freshly mapped memory needs no initialiser.
 *
 * The enum below is the lock order: a thread takes locks only in rising rank.
 * Builds with UAIO_TESTING check it at every acquisition.
 *
 * Context: any thread. Not recursive: a signal handler that interrupts a
 * holder must not come here (proc/entry.h sees to it).
 */
#ifndef UAIO_BASE_LOCK_H
#define UAIO_BASE_LOCK_H

#include "base/atomic.h"
#include "base/check.h"

enum uaio_lock_rank {
	UAIO_RANK_START, /* bringing the engine up */
	UAIO_RANK_AGENT, /* calls for threads with another descriptor table */
	UAIO_RANK_IDENTITY, /* which identities threads have */
	UAIO_RANK_TABLE,    /* context table, quota */
	UAIO_RANK_BELLS,    /* which bells are to be settled */
	UAIO_RANK_REAP,     /* a context's head */
	UAIO_RANK_GROUP,    /* a queue's requests and completions */
	UAIO_RANK_FILES,    /* the descriptor table */
	UAIO_RANK_FILE,     /* one open file */
	UAIO_RANK_INODES,   /* the table of ordering keys */
	UAIO_RANK_INODE,    /* order of one inode's requests */
	UAIO_RANK_READY,    /* what in a queue waits for its files */
	UAIO_RANK_FALLBACK, /* which queues the fallback thread looks after */
	UAIO_RANK_NATIVES,  /* which rings of the kernel's there are */
	UAIO_RANK_DRIVER, /* what is to be submitted to the kernel's io_uring */
	UAIO_RANK_POLLERS,      /* which pollers there are */
	UAIO_RANK_POLLER,       /* one of them */
	UAIO_RANK_POLLER_INNER, /* a poller that another one watches */
	UAIO_RANK_ENDABLES,     /* waits that can be ended, and are idle */
	UAIO_RANK_NATIVE,       /* taking from one of the kernel's rings */
	UAIO_RANK_PAGE,         /* cold reads */
	UAIO_RANK_CREWS,        /* which crews there are */
	UAIO_RANK_ACCOUNT,      /* one account of the work queue */
	UAIO_RANK_MANAGER,      /* calling the thread that adds workers */
	UAIO_RANK_BOUND,        /* to which processors workers are bound */
	UAIO_RANK_RINGMEM,      /* ring chunks */
	UAIO_RANK_CALLBACK,     /* calls of functions of the client's */
	UAIO_RANK_BUFFERS,      /* from which requests choose their memory */
	UAIO_RANK_HANDLERS,     /* handlers of signals, of the program's */
	UAIO_RANK_TRAP,         /* the threads and signals of a program
				 * under the trap */
	UAIO_RANK_SLAB,         /* object caches */
	UAIO_RANK_FAULT,        /* how many requests each fault has seen */
	UAIO_RANK_OWNFD,        /* descriptors of our own */
	UAIO_RANK_CHECK,        /* which memory requests in flight have */
	UAIO_RANK_FIBERS,       /* which fibers requests have in a sanitizer */
	UAIO_RANK_FIBER,        /* one of these */
	UAIO_RANK_STACKS,       /* where threads have submitted them */
	UAIO_RANK_SCAN, /* scanning the program's code for system calls */
	UAIO_NR_RANKS,  /* at most 64 */
};

struct uaio_lock {
	uint32_t word; /* 0 free, 1 held, 2 held and somebody sleeps */
};

#ifdef UAIO_TESTING
void uaio_rank_push(enum uaio_lock_rank rank);
void uaio_rank_pop(enum uaio_lock_rank rank);
#else
static inline void uaio_rank_push(enum uaio_lock_rank rank)
{
	(void)rank;
}

static inline void uaio_rank_pop(enum uaio_lock_rank rank)
{
	(void)rank;
}
#endif

/* What is rare. Not inline, so that the callers of the others stay small. */
void uaio_lock_contended(struct uaio_lock *lock);
void uaio_unlock_contended(struct uaio_lock *lock);

static inline void uaio_lock(struct uaio_lock *lock, enum uaio_lock_rank rank)
{
	uint32_t free = 0;

	uaio_rank_push(rank);
	/* [MB:lock] acquire: pairs with uaio_unlock(). */
	if (unlikely(!cas_acquire(&lock->word, &free, 1)))
		uaio_lock_contended(lock);
}

/* Return: whether the lock was free; then the caller holds it now. */
static inline bool uaio_trylock(struct uaio_lock *lock,
				enum uaio_lock_rank rank)
{
	uint32_t free = 0;

	/* [MB:lock] acquire: pairs with uaio_unlock(). */
	if (!cas_acquire(&lock->word, &free, 1))
		return false;
	uaio_rank_push(rank);
	return true;
}

static inline void uaio_unlock(struct uaio_lock *lock, enum uaio_lock_rank rank)
{
	uaio_rank_pop(rank);
	/* [MB:lock] release: pairs with uaio_lock(). */
	if (unlikely(xchg_release(&lock->word, 0) == 2))
		uaio_unlock_contended(lock);
}

#endif /* UAIO_BASE_LOCK_H */
