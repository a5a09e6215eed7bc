/* SPDX-License-Identifier: MIT */
/*
 * Poller: an epoll, and in it an eventfd by which a thread ends the waits of others
 *
 * The epoll and the eventfd belong to the library (ownfd.h), but the program may claim
 * their numbers, for example by dup2(). So the library uses both descriptors under the
 * poller's lock. Only a wait does not hold the lock; the poller counts the wait
 * instead.
 *
 *   I1  The descriptors change under the lock. A call on a descriptor is made under the
 *       lock; or the thread reads the descriptor and counts the call in nr_waiting
 *       before it releases the lock.
 *   I2  The poller and each waiting thread have a reference to the descriptors. The
 *       thread that drops the last one closes the descriptors. So a thread that ends a poller
 *       only wakes the sleeping threads, and does not wait for them. A thread is lost if
 *       a handler left its wait by siglongjmp() and the thread never waits again. A lost
 *       thread only keeps the descriptors open.
 *   I3  The program gets a descriptor's number once no thread waits on the descriptor.
 *       If a thread is lost, the library keeps the number. A thread counts as lost if it
 *       has not returned one second after it was woken. No lock is held during this
 *       second.
 *
 * Context: any thread. uaio_poller_wait() and uaio_pollers_yield() sleep, holding no
 * lock.
 *
 * Tested by src/ready/test-ready-limits.c and test-lost.c.
 */
#ifndef UAIO_PROC_POLLER_H
#define UAIO_PROC_POLLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/slab.h"

/* The descriptors of a poller. They may outlive the poller while threads wait on them. */
struct uaio_poller_fds {
	struct uaio_slab_node slab;

	/*
	 * under the poller's lock; once the poller has ended, only the thread with the
	 * last reference uses them
	 */
	int epoll; /* owns */
	int wake;  /* owns */

	/*
	 * under lock: new waits are counted in nr_waiting[side]; when a descriptor
	 * moves to another number, `side` changes from 0 to 1, or back
	 */
	uint32_t side;
	uint32_t nr_waiting[2]; /* atomic: waits on each side */
	/*
	 * atomic: number of references: one of the poller, one of each wait, and one of
	 * each move of a descriptor to another number
	 */
	uint32_t nr_refs;
};

struct uaio_poller {
	struct uaio_lock lock; /* rank POLLER */

	/*
	 * under lock; shares: the poller's descriptors; NULL if the poller is not open
	 */
	struct uaio_poller_fds *fds;
	/* atomic, written under lock: whether fds is not NULL */
	uint32_t is_open;
	/* atomic: how often this poller was initialised */
	uint32_t generation;
	/* if open: in the list of open pollers, under the lock of that list */
	struct list node;
};

/*
 * The data of an event. 0: the poller's own eventfd, which ends a wait. Otherwise the
 * lower bits are a pointer. UAIO_POLLER_NOBODYS has no pointer: its events only wake a
 * thread.
 */
enum { UAIO_POLLER_POINTER_BITS = 48 };
#define UAIO_POLLER_NOBODYS (1ull << UAIO_POLLER_POINTER_BITS)

/*
 * Called each time the library starts, also in a child of fork(): record that no poller
 * is open.
 */
void uaio_pollers_init(void);

void uaio_poller_init(struct uaio_poller *poller);
/*
 * End the poller: from now on no thread may begin to use it. Wake the threads that wait
 * on it, without waiting until they have returned.
 */
void uaio_poller_fini(struct uaio_poller *poller);

/*
 * Open the poller, if it is not open. Only threads of the program call this (ownfd.h,
 * I1).
 * Return: 0; or the error of opening the descriptors, such as -EMFILE.
 */
int uaio_poller_open(struct uaio_poller *poller);

/*
 * Like uaio_poller_open(), but fail with -EMFILE if the library would exceed its share of
 * descriptors (ownfd.h).
 */
int uaio_poller_open_within_share(struct uaio_poller *poller);

/*
 * relaxed: a thread that uses the poller has opened it, or was notified by the thread
 * that has opened it
 */
static inline bool uaio_poller_is_open(const struct uaio_poller *poller)
{
	return load_relaxed(&poller->is_open);
}

/*
 * Like epoll_ctl(2) on fd, with EPOLLET.
 * Return: 0, -EBADF if the poller is not open, or the error of epoll_ctl(2).
 */
int uaio_poller_ctl(struct uaio_poller *poller, int op, int fd, uint32_t events,
		    uint64_t data);

/*
 * Return: whether the epoll has an entry for number fd and the open file that fd refers
 * to now. Makes one system call.
 * Context: no other thread changes the epoll's entry of fd meanwhile.
 */
bool uaio_poller_has(struct uaio_poller *poller, int fd);

/* Like uaio_poller_ctl(), for the epoll of the poller `inner` instead of a file. */
int uaio_poller_nest(struct uaio_poller *poller, int op,
		     struct uaio_poller *inner, uint64_t data);

/*
 * End the current waits on the poller; if there are none, the next wait ends at once.
 */
void uaio_poller_wake(struct uaio_poller *poller);

/*
 * Get the pending events without waiting.
 * Return: the number of events; -EBADF if the poller is not open. An event with data 0
 * is only the wake-up by which uaio_poller_wake() ends waits.
 */
int uaio_poller_take(struct uaio_poller *poller, struct epoll_event *ret_events,
		     int max);

/* Parameters of a wait. */
struct uaio_poller_wait {
	int64_t deadline_ns;
	/* signal mask during the wait; NULL: the thread's own mask */
	const void *mask;
	size_t mask_bytes;
	/*
	 * the poller's expected generation; the wait fails with -EBADF if it has
	 * changed
	 */
	uint32_t generation;
	bool is_cancel_point;
	/* only a signal handler ends the wait with -EINTR (waiter.h) */
	bool outlasts_stops;
};

/*
 * Wait for events.
 * Return: like uaio_poller_take(); 0 after the deadline; -EINTR after a signal.
 */
int uaio_poller_wait(struct uaio_poller *poller, struct epoll_event *ret_events,
		     int max, const struct uaio_poller_wait *wait);

/*
 * A hold lets a thread poll the poller's epoll by a system call of its own. From
 * uaio_poller_hold() to uaio_poller_release() the epoll's descriptor stays open. The
 * epoll is readable when it has events or when the wait must end. If a handler leaves
 * the thread's sleep by siglongjmp(), the caller releases the hold later; the memory of
 * the hold must last until then.
 */
struct uaio_poller_hold {
	struct uaio_poller_fds *fds; /* shares; or NULL */
	uint32_t side;
};

/*
 * Return: the epoll's descriptor; -EBADF: the poller is not open, or has another
 * generation.
 */
int uaio_poller_hold(struct uaio_poller *poller, uint32_t generation,
		     struct uaio_poller_hold *ret);
/* Release a hold. If it was released already, do nothing. */
void uaio_poller_release(struct uaio_poller_hold *hold);

/* Like uaio_poller_take(), but also reset the eventfd if it has ended the wait. */
int uaio_poller_collect(struct uaio_poller *poller, uint32_t generation,
			struct epoll_event *ret_events, int max);

/* If a handler has left a wait of this thread by siglongjmp(), end this wait. */
void uaio_poller_forget(void);

static inline uint32_t uaio_poller_generation(const struct uaio_poller *poller)
{
	/* relaxed: the generation changes only while no thread uses the poller */
	return load_relaxed(&poller->generation);
}

/*
 * The program claims the number fd. If a poller uses fd, move it to another number.
 * Return: 0; -ENOENT: no poller uses fd; -EBUSY: a lost thread waits on fd, or no other
 * descriptor is free.
 */
int uaio_pollers_yield(int fd);

#endif /* UAIO_PROC_POLLER_H */
