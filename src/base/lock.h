/* SPDX-License-Identifier: MIT */
/*
 * Locks with a rank
 *
 * A lock is a mutex of four bytes. A thread that finds the lock held spins for 1 to 2
 * us, which is longer than locks are usually held. If the lock is still held, the
 * thread sleeps, since the holder may have been preempted. A lock whose bytes are all
 * zero is free, so a lock in static or newly mapped memory needs no initialiser.
 *
 * The enum below is the lock order: a thread acquires locks only in rising rank. Builds
 * with UAIO_TESTING check this at every acquisition.
 *
 * Context: any thread. Locks are not recursive: a signal handler that interrupts a
 * holder must not acquire a lock. So in such a handler uaio_enter() fails
 * (proc/entry.h).
 */
#ifndef UAIO_BASE_LOCK_H
#define UAIO_BASE_LOCK_H

#include "base/atomic.h"
#include "base/check.h"

enum uaio_lock_rank {
	UAIO_RANK_START,    /* starting the library */
	UAIO_RANK_AGENT,    /* agent (table.h): calls for other threads */
	UAIO_RANK_IDENTITY, /* the identities of threads */
	UAIO_RANK_TABLE,    /* tables of contexts and rings, quota */
	UAIO_RANK_BELLS,    /* bells (uring/bell.h), eventfds of rings */
	UAIO_RANK_REAP,     /* the head of a context's completion ring */
	UAIO_RANK_GROUP,    /* a queue's requests and completions */
	UAIO_RANK_FILES,    /* the descriptor table */
	UAIO_RANK_FILE,     /* one open file */
	UAIO_RANK_INODES,   /* the table of inodes, for ordering requests */
	UAIO_RANK_INODE,    /* the order of one inode's requests */
	UAIO_RANK_READY, /* requests of a queue that wait for files or a time */
	UAIO_RANK_FALLBACK,     /* queues that the fallback thread serves */
	UAIO_RANK_NATIVES,      /* contexts of the kernel's AIO */
	UAIO_RANK_DRIVER,       /* submissions to the kernel's io_uring */
	UAIO_RANK_POLLERS,      /* the set of pollers */
	UAIO_RANK_POLLER,       /* one poller */
	UAIO_RANK_POLLER_INNER, /* a poller that another poller watches */
	UAIO_RANK_ENDABLES,     /* waits (proc/endable.h) that are idle */
	UAIO_RANK_NATIVE, /* reaping from one of the kernel's AIO contexts */
	UAIO_RANK_PAGE,   /* devices that missed the page cache (wait/page.h) */
	UAIO_RANK_CREWS,  /* the set of crews (wq/wq.h) */
	UAIO_RANK_ACCOUNT,  /* one account of the work queue */
	UAIO_RANK_MANAGER,  /* the manager of a crew */
	UAIO_RANK_BOUND,    /* the processors that workers are bound to */
	UAIO_RANK_RINGMEM,  /* chunks of memory for rings */
	UAIO_RANK_CALLBACK, /* calls of the client's functions */
	UAIO_RANK_BUFFERS,  /* provided buffers */
	UAIO_RANK_HANDLERS, /* deferred signal handlers of the program */
	UAIO_RANK_TRAP,     /* programs under the trap */
	UAIO_RANK_SLAB,     /* object caches */
	UAIO_RANK_FAULT,    /* counters of injected faults */
	UAIO_RANK_OWNFD,    /* descriptors of the library */
	UAIO_RANK_CHECK,    /* memory of requests in flight */
	UAIO_RANK_FIBERS,   /* sanitizer fibers of requests */
	UAIO_RANK_FIBER,    /* one sanitizer fiber */
	UAIO_RANK_STACKS,   /* stack traces of submissions */
	UAIO_RANK_SCAN,     /* scan of the program's code for system calls */
	UAIO_NR_RANKS,      /* at most 64 */
};

struct uaio_lock {
	uint32_t word; /* 0: free; 1: held; 2: held, and a thread may sleep */
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

/* The slow paths are not inline, so that uaio_lock() and uaio_unlock() stay small. */
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

/* Acquire the lock if it is free. Return: whether it was; then the caller holds it. */
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
