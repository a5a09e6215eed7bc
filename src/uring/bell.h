/* SPDX-License-Identifier: MIT */
/*
 * Bells: a thread that polls a ring's descriptor learns of completions
 *
 * The descriptor is that of a file in memory, which an epoll refuses and poll() calls
 * ready at all times. So calls that poll are made on the ring's bell instead, an
 * eventfd of the library's, which the ring gets when it is first polled.
 *
 *   I1  The bell is rung, that is, its counter is not 0, by each post, under the
 *       queue's lock. So each post is an edge for those that wait for edges.
 *   I2  A client takes completions by memory, of which nobody is told. So before a
 *       thread sleeps in a call that polls, and before a bell is added to an epoll,
 *       bells are settled: each says what is true. A bell changes only under the
 *       queue's lock, so what is posted meanwhile rings it afterwards.
 *   I3  A thread that names a bell by its number uses the ring (ring.h, I4), or holds
 *       the queue's lock of a ring that it uses. The bell of a ring that dies is
 *       silent; it is closed when the ring is freed.
 *   I4  A child of fork() has no bells.
 *
 * Context: any thread, also in a signal handler: in one that interrupted the engine,
 * and in a thread with a descriptor table of its own, no ring has a bell.
 *
 * Tested by test-uring-bell.c and test/host/bells.c.
 */
#ifndef UAIO_URING_BELL_H
#define UAIO_URING_BELL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

struct epoll_event;
struct uaio_uring;

/* How many bells there are; atomic. */
extern uint32_t uaio_uring_nr_bells __attribute__((visibility("hidden")));

/* Called each time the engine starts. */
void uaio_uring_bells_init(void);

/* For ring.c: a ring is made, or dies, or is freed. */
void uaio_uring_bell_init(struct uaio_uring *ring);
void uaio_uring_bell_silence(struct uaio_uring *ring);
void uaio_uring_bell_fini(struct uaio_uring *ring);

/* Completions were posted. The queue's lock is held, and there is a bell. */
void uaio_uring_bell_ring_locked(struct uaio_uring *ring);

void uaio_uring_bells_settle_slowly(void);

static inline bool uaio_uring_has_bells(void)
{
	/* relaxed: a thread that polls a bell has seen it made */
	return load_relaxed(&uaio_uring_nr_bells);
}

/* Settle all bells. A relaxed load if there is none. Does not change errno. */
static inline void uaio_uring_bells_settle(void)
{
	if (__builtin_expect(uaio_uring_has_bells(), 0))
		uaio_uring_bells_settle_slowly();
}

/*
 * Return: the bell to poll in place of fd, settled; fd itself if it is no ring's that
 * is known, or no bell can be had. *ret_is_full: whether the ring has no room for
 * submissions: then it is not ready for writing, as a bell always is.
 */
int uaio_uring_bell_for(int fd, bool *ret_is_full);

/* Mirrors epoll_ctl(2). Return: 0 or -errno; 1 if fd is no ring of ours. */
int uaio_uring_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);

#endif /* UAIO_URING_BELL_H */
