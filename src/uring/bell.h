/* SPDX-License-Identifier: MIT */
/*
 * Bells: a thread that polls a ring's descriptor learns of completions
 *
 * The descriptor is that of a file in memory, which an epoll refuses and poll() calls
 * ready at all times. So calls that poll are made on the ring's bell instead, an
 * eventfd of the library's, which the ring gets when it is first polled.
 *
 *   I1  The bell is rung, that is, its counter is not 0, by each post, under the
 *       queue's lock; and so it is when what overflowed is put into the ring. So
 *       each is an edge for those that wait for edges.
 *   I2  A client takes completions by memory, and the library is not notified. So
 *       before a thread sleeps in a call that polls, and before a bell is added to an
 *       epoll, bells are settled: each says what is true. A bell changes only under the
 *       queue's lock, so what is posted meanwhile rings it afterwards. Before a
 *       client is shown a completion its bell is unsure, until it is rung: so a
 *       client that takes the completion and settles waits for that, under the lock,
 *       and is told of nothing that it has taken.
 *   I3  A thread that names a bell by its number uses the ring (ring.h, I4) as long as
 *       it does, also while it sleeps in a call that polls: so the number is no other
 *       file's. The bell of a ring that dies is silent; it is closed when the ring is
 *       freed. A thread that leaves such a sleep by siglongjmp(), or is cancelled
 *       there, keeps the ring's memory and its bell.
 *   I4  If the program puts a file of its own at a bell's number, the bell moves. All
 *       that read the number do so under the queue's lock, but for a thread that is
 *       about to poll: if that happens between its look and its call, it polls the
 *       program's file. A sleep that has begun goes on with the bell. An epoll tells of
 *       the bell as before, but knows it by its old number: by the ring's descriptor
 *       it can neither be changed there nor removed.
 *   I5  A child of fork() has no bells.
 *   I6  Only due rings are settled before a sleep. A ring is put on the list of due
 *       rings under its queue's lock: before a client is shown a completion, and for
 *       good when other processes share the ring, as these do not ring its bell. A
 *       thread that settles removes a ring that is silent and not shared. It holds the
 *       list's lock, and the queue's lock within that one. So a ring that no completion
 *       came to costs a thread that polls nothing. A due ring has a bell, and is freed
 *       only after it was removed.
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
#include "proc/process.h"

struct epoll_event;
struct uaio_file;
struct uaio_sqe;
struct uaio_uring;

struct uaio_uring_bells {
	/* all atomic */
	uint32_t nr;
	uint32_t nr_forks;        /* of which due rings were looked for */
	struct uaio_uring *first; /* of the due rings (I6) */
};

extern struct uaio_uring_bells uaio_uring_bells
	__attribute__((visibility("hidden")));

#ifdef UAIO_TESTING
/* How many due rings threads have settled; atomic. */
extern uint32_t uaio_uring_bells_nr_settled;
#endif

/* Called each time the engine starts. */
void uaio_uring_bells_init(void);

/* For ring.c: a ring is made, or dies, or is freed. */
void uaio_uring_bell_init(struct uaio_uring *ring);
void uaio_uring_bell_silence(struct uaio_uring *ring);
void uaio_uring_bell_fini(struct uaio_uring *ring);

/* What is known of a bell without its queue's lock. */
enum uaio_uring_bell_state {
	UAIO_URING_BELL_SILENT, /* must be 0, as RUNG is 1: has_some() */
	UAIO_URING_BELL_RUNG,
	UAIO_URING_BELL_UNSURE,
};

/* Completions are about to be shown. The queue's lock is held, and there is a bell. */
void uaio_uring_bell_expect_locked(struct uaio_uring *ring);
/* They were. */
void uaio_uring_bell_ring_locked(struct uaio_uring *ring);

void uaio_uring_bells_settle_slowly(void);

static inline bool uaio_uring_has_bells(void)
{
	/* relaxed: a thread that polls a bell has seen it made */
	return load_relaxed(&uaio_uring_bells.nr);
}

/* Return: whether a bell may have to be settled. */
static inline bool uaio_uring_has_due_bells(void)
{
	/*
	 * [MB:uring-due] acquire: rings that a fork has made due. Pairs with
	 * find_shared(). relaxed, the others: a client that takes a completion has
	 * seen its ring made due
	 */
	return uaio_uring_has_bells() &&
	       (load_acquire(&uaio_uring_bells.nr_forks) !=
			load_relaxed(&uaio_process_nr_forks) ||
		load_relaxed(&uaio_uring_bells.first));
}

/* Settle all bells. A few loads if none is due. Does not change errno. */
static inline void uaio_uring_bells_settle(void)
{
	if (__builtin_expect(uaio_uring_has_due_bells(), 0))
		uaio_uring_bells_settle_slowly();
}

/* What is polled in place of a descriptor. */
struct uaio_uring_bell {
	struct uaio_uring
		*ring; /* uses (I3); NULL: the descriptor itself is polled */
	int fd;
	/* No room for submissions: it is not ready for writing, as a bell always is. */
	bool is_full;
};

/*
 * Return: the bell to poll in place of fd, settled; or fd itself if it is no ring's
 * that is known, or no bell can be had.
 */
struct uaio_uring_bell uaio_uring_bell_get(int fd);
void uaio_uring_bell_put_slowly(struct uaio_uring *ring);

/*
 * The file of the bell of fd, settled, with a reference. A request that polls it keeps
 * it also when the ring has ended, as it would keep the ring in the kernel; it waits
 * then. *ret_is_full: as above.
 * Return: NULL: fd is no ring's that is known, or no bell can be had.
 * Context: the thread has entered.
 */
struct uaio_file *uaio_uring_bell_file(int fd, bool *ret_is_full);

/* A function of struct uaio_sink. */
struct uaio_file *uaio_uring_polled(struct uaio_sqe *sqe);

/* It is polled no more. */
static inline void uaio_uring_bell_put(struct uaio_uring *ring)
{
	if (ring)
		uaio_uring_bell_put_slowly(ring);
}

/*
 * The program wants the number fd, which is the library's own: have the bell there
 * elsewhere. Return: 0; -ENOENT: there is none; -EBUSY: there is no other number.
 */
int uaio_uring_bell_yield(int fd);

/* Mirrors epoll_ctl(2). Return: 0 or -errno; 1 if fd is no ring of ours. */
int uaio_uring_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);

#endif /* UAIO_URING_BELL_H */
