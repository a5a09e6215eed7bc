/* SPDX-License-Identifier: MIT */
/*
 * Locks; each has a rank, which defines the order in which a thread may acquire them
 *
 * A lock is a mutex of four bytes. A thread that finds the lock held spins for 1 to 2
 * us, which is longer than locks are usually held. If the lock is still held, the
 * thread sleeps, since the holder may have been preempted. A lock whose bytes are all
 * zero is free, so a lock in static or newly mapped memory needs no initialiser.
 *
 * The enum below is the lock order: a thread that holds a lock acquires only locks of
 * higher ranks, which stand further down. The comment above a rank says what its lock
 * protects. Builds with UAIO_TESTING check the order at every acquisition.
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
	/* starting the library in this process */
	UAIO_RANK_START,
	/* system calls that the agent makes for other threads (table.h) */
	UAIO_RANK_AGENT,
	/* table of the threads' user and group ids */
	UAIO_RANK_IDENTITY,
	/* tables of contexts and rings; the limit aio-max-nr */
	UAIO_RANK_TABLE,
	/* eventfds that wake polls of rings (uring/bell.h) */
	UAIO_RANK_BELLS,
	/* the head of a context's completion ring */
	UAIO_RANK_REAP,
	/* requests and completions of one queue */
	UAIO_RANK_GROUP,
	/* table of descriptors that have requests */
	UAIO_RANK_FILES,
	/* data of one open file */
	UAIO_RANK_FILE,
	/* table of inodes, to keep requests of a file in order */
	UAIO_RANK_INODES,
	/* the order of the requests of one inode */
	UAIO_RANK_INODE,
	/* requests of one queue that wait for a file or a timeout */
	UAIO_RANK_READY,
	/* list of queues that the fallback thread serves */
	UAIO_RANK_FALLBACK,
	/* table of contexts of the kernel's AIO */
	UAIO_RANK_NATIVES,
	/* submissions to the kernel's io_uring */
	UAIO_RANK_DRIVER,
	/* list of all pollers: epolls of the library */
	UAIO_RANK_POLLERS,
	/* data of one poller */
	UAIO_RANK_POLLER,
	/*
	 * data of a poller whose epoll is nested in another poller's epoll
	 * (uaio_poller_nest()); acquired while the lock of that other poller is held
	 */
	UAIO_RANK_POLLER_INNER,
	/* list of unused endables: epolls in which workers wait (proc/endable.h) */
	UAIO_RANK_ENDABLES,
	/* getting events from one context of the kernel's AIO */
	UAIO_RANK_NATIVE,
	/* reads that wait for the page cache, by device (wait/page.h) */
	UAIO_RANK_PAGE,
	/* list of all crews: groups of workers (wq/wq.h) */
	UAIO_RANK_CREWS,
	/* lists and workers of one account: bounded or unbounded work (wq/wq.h) */
	UAIO_RANK_ACCOUNT,
	/* one manager: a thread that starts workers of a crew */
	UAIO_RANK_MANAGER,
	/* the processors to which workers are bound */
	UAIO_RANK_BOUND,
	/* chunks of memory for completion rings */
	UAIO_RANK_RINGMEM,
	/* SIGEV_THREAD functions without a thread (posix/callback.h) */
	UAIO_RANK_CALLBACK,
	/* provided buffers of io_uring */
	UAIO_RANK_BUFFERS,
	/* deferred signal handlers of the program */
	UAIO_RANK_HANDLERS,
	/* threads, memory and signals under the trap (trap/trap.h) */
	UAIO_RANK_TRAP,
	/* free objects of one slab */
	UAIO_RANK_SLAB,
	/* counters of injected faults */
	UAIO_RANK_FAULT,
	/* list of the library's own descriptors */
	UAIO_RANK_OWNFD,
	/* memory of requests in flight, for uaio-check(1) */
	UAIO_RANK_CHECK,
	/* table of ThreadSanitizer fibers of requests */
	UAIO_RANK_FIBERS,
	/* one ThreadSanitizer fiber */
	UAIO_RANK_FIBER,
	/* table of call stacks at submissions */
	UAIO_RANK_STACKS,
	/* search of the program's code for system calls */
	UAIO_RANK_SCAN,
	UAIO_NR_RANKS, /* at most 64 */
};

struct uaio_lock {
	/* 0: free; 1: held; 2: held, and a thread may sleep */
	uint32_t word;
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

/*
 * Acquire the lock if it is free.
 * Return: whether the caller now holds it.
 */
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
