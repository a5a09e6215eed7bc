/* SPDX-License-Identifier: MIT */
/*
 * Pollers: an epoll, with an eventfd in it that ends a wait
 *
 * Both descriptors belong to the library (ownfd.h), and the program may claim their
 * numbers. So they are used under the lock. Only waits are without it, and are counted instead.
 *
 *   I1  The descriptors change under the lock. A call on one is made under the lock; or
 *       it is counted in nr_waiting before the thread that has read the descriptor
 *       releases the lock.
 *   I2  The poller and each waiting thread share the descriptors; the last of them closes
 *       them. So a thread that ends a poller waits for no other: it wakes the sleeping
 *       threads. A lost thread keeps only the descriptors open. A thread is lost if a
 *       handler left its wait by siglongjmp() and the thread never waits again.
 *   I3  A descriptor number is given to the program once no thread waits on it. A lost
 *       thread keeps the number. A thread counts as lost after one second, during which
 *       no lock is held.
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

	/* under the poller's lock; without a poller, used by the last thread only */
	int epoll; /* owns */
	int wake;  /* owns */

	uint32_t side; /* under lock: index into nr_waiting for new waits */
	uint32_t nr_waiting[2]; /* atomic: waits of each side */
	uint32_t nr_refs; /* atomic: held by the poller, waits and yields */
};

struct uaio_poller {
	struct uaio_lock lock; /* rank POLLER */

	struct uaio_poller_fds *fds; /* under lock; shares: NULL if not open */
	uint32_t is_open;            /* atomic, written under lock */
	uint32_t generation;         /* atomic: how often it was initialised */
	struct list node;            /* under the lock of all: if open */
};

/*
 * Data of events. 0 marks the poller's own eventfd, which ends a wait. Otherwise the
 * lower bits are a pointer. They are 0 in UAIO_POLLER_NOBODYS, whose events only wake.
 */
enum { UAIO_POLLER_POINTER_BITS = 48 };
#define UAIO_POLLER_NOBODYS (1ull << UAIO_POLLER_POINTER_BITS)

/* Called each time the library starts, also in a child of fork(): no poller is open. */
void uaio_pollers_init(void);

void uaio_poller_init(struct uaio_poller *poller);
/*
 * End the poller: no thread begins to use it any more. Threads that wait on it are woken,
 * and not waited for.
 */
void uaio_poller_fini(struct uaio_poller *poller);

/*
 * Open the poller, if it is not open. Not called by a thread of the library, since the
 * program may be closing all descriptors meanwhile.
 * Return: 0, or -errno if there are no descriptors.
 */
int uaio_poller_open(struct uaio_poller *poller);

/*
 * Like uaio_poller_open(), but fail with -EMFILE if the library would exceed its share of
 * descriptors (ownfd.h).
 */
int uaio_poller_open_within_share(struct uaio_poller *poller);

/*
 * relaxed: a thread that uses the poller was notified by the thread that opened it, or
 * opens it itself
 */
static inline bool uaio_poller_is_open(const struct uaio_poller *poller)
{
	return load_relaxed(&poller->is_open);
}

/*
 * epoll_ctl(2) on fd, with EPOLLET.
 * Return: 0, -EBADF if the poller is not open, or the error of epoll_ctl(2).
 */
int uaio_poller_ctl(struct uaio_poller *poller, int op, int fd, uint32_t events,
		    uint64_t data);

/*
 * Return: whether the epoll has an entry for this number and the open file that fd is
 * now. Takes one system call.
 * Context: no other thread changes the epoll's entry of fd meanwhile.
 */
bool uaio_poller_has(struct uaio_poller *poller, int fd);

/* Like uaio_poller_ctl(), for the epoll of inner. */
int uaio_poller_nest(struct uaio_poller *poller, int op,
		     struct uaio_poller *inner, uint64_t data);

/* End the current wait, or else the next one. */
void uaio_poller_wake(struct uaio_poller *poller);

/*
 * Take the pending events without waiting.
 * Return: their number; -EBADF if the poller is not open. An event with data 0 only says
 * that a wait was to end.
 */
int uaio_poller_take(struct uaio_poller *poller, struct epoll_event *ret_events,
		     int max);

/* Parameters of a wait. */
struct uaio_poller_wait {
	int64_t deadline_ns;
	const void *mask; /* signal mask, or NULL */
	size_t mask_bytes;
	uint32_t generation; /* of the poller; -EBADF if it has changed */
	bool is_cancel_point;
};

/*
 * Wait for events.
 * Return: like uaio_poller_take(); 0 after the deadline; -EINTR.
 */
int uaio_poller_wait(struct uaio_poller *poller, struct epoll_event *ret_events,
		     int max, const struct uaio_poller_wait *wait);

/*
 * A hold lets a thread poll the poller's descriptor in a call of its own. From hold to
 * release the descriptor stays open, and is readable when there are events or the wait
 * must end. The memory of a hold must outlive a sleep that a handler left for good; the
 * caller releases the hold later.
 */
struct uaio_poller_hold {
	struct uaio_poller_fds *fds; /* shares; or NULL */
	uint32_t side;
};

/* Return: the descriptor, or -EBADF. */
int uaio_poller_hold(struct uaio_poller *poller, uint32_t generation,
		     struct uaio_poller_hold *ret);
/* Has no effect if the hold was released already. */
void uaio_poller_release(struct uaio_poller_hold *hold);

/* Like uaio_poller_take(), but also reset the eventfd that ended the wait. */
int uaio_poller_collect(struct uaio_poller *poller, uint32_t generation,
			struct epoll_event *ret_events, int max);

/* End a wait that a handler of this thread has left behind, if there is one. */
void uaio_poller_forget(void);

static inline uint32_t uaio_poller_generation(const struct uaio_poller *poller)
{
	/* relaxed: it changes only while no thread uses the poller */
	return load_relaxed(&poller->generation);
}

/*
 * Free the number fd, which the program claims, by moving to another descriptor.
 * Return: 0; -ENOENT: no poller uses fd; -EBUSY: a lost thread waits on fd, or there is
 * no other descriptor.
 */
int uaio_pollers_yield(int fd);

#endif /* UAIO_PROC_POLLER_H */
