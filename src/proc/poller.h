/* SPDX-License-Identifier: MIT */
/*
 * Pollers: an epoll, with an eventfd in it that ends a wait
 *
 * Both descriptors are the engine's own (ownfd.h), and the host may want
 * their numbers: they are used under the lock, except for waiting, where the
 * descriptor is noted as in use.
 *
 *   I1  The descriptors change under the lock. A call on either is made under
 *       it, or is counted in nr_waiting before the lock is released under which
 *       the descriptor was read.
 *   I2  The poller and each thread that waits share the descriptors; the last
 *       of them to leave closes them. So a thread that ends a poller waits for
 *       nobody: a thread that sleeps there has been woken, and one that never
 *       comes back (a handler left by siglongjmp(), and its thread waits for
 *       nothing more) keeps the descriptors open, and nothing else.
 *   I3  A descriptor is given away once no thread waits on it. A thread that
 *       never comes back keeps it; that it is such a thread shows when a second
 *       is over, in which no lock is held.
 *
 * Thread-safety: any thread. uaio_poller_wait() and uaio_pollers_yield() sleep,
 * holding no lock.
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

/*
 * The descriptors of a poller. The poller may be gone before the threads that
 * wait there.
 */
struct uaio_poller_fds {
	struct uaio_slab_node slab;

	/* under the poller's lock; then the last one's */
	int epoll; /* owns */
	int wake;  /* owns */

	uint32_t side;          /* under lock: where waits that begin count */
	uint32_t nr_waiting[2]; /* atomic: waits, of each side */
	uint32_t nr_refs;       /* atomic: the poller, waits, yields */
};

struct uaio_poller {
	struct uaio_lock lock; /* rank POLLER */

	struct uaio_poller_fds *fds; /* under lock; shares: NULL if not open */
	uint32_t is_open;            /* atomic, written under lock */
	uint32_t generation;         /* atomic: how often it was set up */
	struct list node;            /* under the lock of all: if open */
};

/*
 * Data of events. 0: of the poller's own eventfd, which ends a wait. Otherwise the lower
 * bits are a pointer; those of UAIO_POLLER_NOBODYS are 0, as its events only wake.
 */
enum { UAIO_POLLER_POINTER_BITS = 48 };
#define UAIO_POLLER_NOBODYS (1ull << UAIO_POLLER_POINTER_BITS)

/*
 * Called each time the engine starts, also in a child of fork(): no poller is
 * open.
 */
void uaio_pollers_init(void);

void uaio_poller_init(struct uaio_poller *poller);
/*
 * No thread begins to use the poller any more. Threads that wait there are
 * woken, and not waited for.
 */
void uaio_poller_fini(struct uaio_poller *poller);

/*
 * Open the poller, if it is not open. Not by a thread of the library: the
 * host may be closing all descriptors meanwhile.
 * Return: 0, or -errno if there are no descriptors.
 */
int uaio_poller_open(struct uaio_poller *poller);

/*
 * The same; -EMFILE if the library would have more descriptors than its share
 * (ownfd.h).
 */
int uaio_poller_open_within_share(struct uaio_poller *poller);

/*
 * relaxed: a thread that may use it is told by the one that opened it, or opens
 * it
 */
static inline bool uaio_poller_is_open(const struct uaio_poller *poller)
{
	return load_relaxed(&poller->is_open);
}

/*
 * epoll_ctl(2) on fd, with EPOLLET.
 * Return: 0, -EBADF if the poller is not open, or what the call returns.
 */
int uaio_poller_ctl(struct uaio_poller *poller, int op, int fd, uint32_t events,
		    uint64_t data);

/*
 * Return: whether the epoll knows the open file that fd is now by this number. This takes
 * one system call. No other thread changes what the epoll knows of fd meanwhile.
 */
bool uaio_poller_has(struct uaio_poller *poller, int fd);

/* The same as uaio_poller_ctl(), on the epoll of inner. */
int uaio_poller_nest(struct uaio_poller *poller, int op,
		     struct uaio_poller *inner, uint64_t data);

/* End a wait: one that is under way, or else the next. */
void uaio_poller_wake(struct uaio_poller *poller);

/*
 * Take events that are there.
 * Return: how many; -EBADF if the poller is not open. Events with data 0 only
 * say that a wait was to end.
 */
int uaio_poller_take(struct uaio_poller *poller, struct epoll_event *ret_events,
		     int max);

/* How to wait. */
struct uaio_poller_wait {
	int64_t deadline_ns;
	const void *mask; /* of signals, or NULL */
	size_t mask_bytes;
	uint32_t generation; /* of the poller; in another it is not open */
	bool is_cancel_point;
};

/*
 * Wait for events.
 * Return: as uaio_poller_take(), 0 when the time is over, and -EINTR.
 */
int uaio_poller_wait(struct uaio_poller *poller, struct epoll_event *ret_events,
		     int max, const struct uaio_poller_wait *wait);

/*
 * For a thread that polls the poller's descriptor in a call of its own. From hold to
 * release the descriptor stays, and is readable when there are events or the wait is to
 * end. The memory of a hold outlives a sleep that the thread never comes back from: the
 * caller releases it then.
 */
struct uaio_poller_hold {
	struct uaio_poller_fds *fds; /* shares; or NULL */
	uint32_t side;
};

/* Return: the descriptor, or -EBADF. */
int uaio_poller_hold(struct uaio_poller *poller, uint32_t generation,
		     struct uaio_poller_hold *ret);
/* Does nothing if it was released already. */
void uaio_poller_release(struct uaio_poller_hold *hold);

/* As uaio_poller_take(), and clears what ended the wait. */
int uaio_poller_collect(struct uaio_poller *poller, uint32_t generation,
			struct epoll_event *ret_events, int max);

/* If this thread waits here, a handler has left that wait behind: end it. */
void uaio_poller_forget(void);

static inline uint32_t uaio_poller_generation(const struct uaio_poller *poller)
{
	/* relaxed: it changes only while no thread uses the poller */
	return load_relaxed(&poller->generation);
}

/*
 * The host wants the number fd: move to another descriptor.
 * Return: 0; -ENOENT: fd belongs to no poller; -EBUSY: a lost thread waits on
 * it, or there is no other descriptor.
 */
int uaio_pollers_yield(int fd);

#endif /* UAIO_PROC_POLLER_H */
