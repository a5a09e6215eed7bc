/* SPDX-License-Identifier: MIT */
/*
 * Pollers: an epoll with an eventfd in it that ends a wait
 *
 * Both descriptors are the engine's own (ownfd.h), and the host may want their
 * numbers: they are used under the lock, but for waiting, where the number is
 * noted as in use.
 *
 *   I1  The numbers change under the lock. A call on either is made under it, or
 *       counted in nr_waiting before the lock is released under which the
 *       number was read.
 *   I2  The poller and each who waits share the descriptors; the last of them to
 *       leave closes them. So nobody who ends a poller waits for anybody: who
 *       sleeps there has been woken, and one who never comes back (a handler
 *       left by siglongjmp, and its thread waits for nothing more) keeps them
 *       open, and nothing else.
 *   I3  Who takes a number away does so after nobody waits on it. One who never
 *       comes back keeps it; that it is he who is waited for shows when a second
 *       is over, in which no lock is held.
 *
 * Thread-safety: any thread. uaio_poller_wait() and uaio_pollers_yield() sleep,
 * holding no lock.
 */
#ifndef UAIO_ENGINE_POLLER_H
#define UAIO_ENGINE_POLLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/slab.h"

/* The descriptors of a poller, which may be gone before those who wait there. */
struct uaio_poller_fds {
	struct uaio_slab_node slab;

	/* under the poller's lock; then the last one's */
	int epoll; /* owns */
	int wake;  /* owns */

	uint32_t side;          /* under lock: where those who begin count */
	uint32_t nr_waiting[2]; /* atomic: changes side with the number */
	uint32_t nr_refs; /* atomic: the poller, and who waits or yields */
};

struct uaio_poller {
	struct uaio_lock lock; /* rank POLLER */

	struct uaio_poller_fds *fds; /* under lock; shares: NULL if not open */
	uint32_t is_open;            /* atomic, written under lock */
	uint32_t life;               /* atomic: how many times it was begun */
	struct list node;            /* under the lock of all: if open */
};

/* From nothing: no poller is open. */
void uaio_pollers_init(void);

void uaio_poller_init(struct uaio_poller *poller);
/* Nobody begins to use it any more; who waits there is woken, and not awaited. */
void uaio_poller_fini(struct uaio_poller *poller);

/*
 * Not by a thread of ours: a host that closes all numbers may be at it.
 * Return: 0, or -errno if there are no descriptors; 0 if it is open already.
 */
int uaio_poller_open(struct uaio_poller *poller);

/* The same, -EMFILE if ours would be more than their share (ownfd.h) by it. */
int uaio_poller_open_within_share(struct uaio_poller *poller);

/* relaxed: who may use it is told by who opened it, or opens it */
static inline bool uaio_poller_is_open(const struct uaio_poller *poller)
{
	return load_relaxed(&poller->is_open);
}

/*
 * epoll_ctl() on fd, with EPOLLET. Return: 0, -EBADF if the poller is not open,
 * or what the call says.
 */
int uaio_poller_ctl(struct uaio_poller *poller, int op, int fd, uint32_t events,
		    uint64_t data);

/* The same, on the poller that inner is. */
int uaio_poller_nest(struct uaio_poller *poller, int op,
		     struct uaio_poller *inner, uint64_t data);

/* End a wait, or the next one. */
void uaio_poller_wake(struct uaio_poller *poller);

/*
 * Take events that are there.
 * Return: how many; -EBADF: it is not open. Of ret_events those with data 0 only
 * say that a wait was to end.
 */
int uaio_poller_take(struct uaio_poller *poller, struct epoll_event *ret_events,
		     int max);

/* How to wait. */
struct uaio_poller_wait {
	int64_t deadline_ns;
	const void *mask; /* of signals, or NULL */
	size_t mask_bytes;
	uint32_t life; /* of the poller: another's is not open for us */
};

/*
 * Wait for events. Return: as uaio_poller_take(), 0 when the time is over, and
 * -EINTR.
 */
int uaio_poller_wait(struct uaio_poller *poller, struct epoll_event *ret_events,
		     int max, const struct uaio_poller_wait *wait);

/*
 * The same for who waits in a call of its own: from enter to leave the number is
 * there, and readable when the wait is to end, or has events.
 * Return: the number, or -EBADF.
 */
int uaio_poller_enter(struct uaio_poller *poller, uint32_t life,
		      uint32_t *ret_serial);
void uaio_poller_leave(uint32_t serial);

/* As uaio_poller_take(), by who was to end its wait. */
int uaio_poller_collect(struct uaio_poller *poller, uint32_t life,
			struct epoll_event *ret_events, int max);

/* What this thread waits on, if it does, was left behind. */
void uaio_poller_forget(void);

static inline uint32_t uaio_poller_life(const struct uaio_poller *poller)
{
	/* relaxed: it changes only when the poller is nobody's */
	return load_relaxed(&poller->life);
}

/*
 * The host wants the number fd: move to another.
 * Return: 0; -ENOENT: fd is of none; -EBUSY: somebody is lost in a wait on it, or
 * there is no other number.
 */
int uaio_pollers_yield(int fd);

#endif /* UAIO_ENGINE_POLLER_H */
