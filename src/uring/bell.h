/* SPDX-License-Identifier: MIT */
/*
 * Bells: how poll(), select() and epoll on a ring's descriptor notice completions
 *
 * A ring's descriptor is a memory file: epoll refuses it, and poll() always calls it
 * ready. So the library's poll(), select() and epoll_ctl() use the ring's bell instead.
 * A bell is an eventfd of the library, made when the ring is first polled.
 *
 *   I1  A thread that posts completions rings the bell under the queue's lock: it adds
 *       1 to the eventfd. It also does so when it moves overflowed completions into the
 *       ring. So edge-triggered epolls see an edge for each post.
 *   I2  Clients consume completions by advancing the ring's head in memory; the library
 *       is not notified. So before a thread sleeps in a polling call, or adds a bell to
 *       an epoll, it settles the bells: it makes each eventfd readable exactly if its
 *       ring has completions. A bell changes only under the queue's lock. So if a
 *       completion is posted after the bell was settled, the post rings the bell again.
 *       A poster rings the bell after it has published a completion. A client may
 *       consume the completion in between. To settle a bell that is not rung, the
 *       client waits for the lock, so its poll does not report the consumed completion.
 *   I3  A thread that uses a bell's descriptor uses the ring (ring.h, I4), also while
 *       it sleeps in a polling call. So the descriptor is not closed or reused
 *       meanwhile. When a ring dies, the counter of its bell is reset to 0. When the
 *       ring is freed, the bell is closed. A thread that leaves a polling call by
 *       siglongjmp(), or is cancelled in it, leaks the ring's memory and bell.
 *   I4  If the program puts its own file at a bell's descriptor (dup2), the library
 *       first moves the bell to another descriptor. A thread that is about to poll
 *       reads the bell's descriptor without the queue's lock. If the bell moves before
 *       the poll begins, the thread polls the program's file. A thread that already
 *       sleeps still waits for the bell. An epoll still reports a moved bell, but the
 *       program can no longer change or remove the bell's entry, which has the old
 *       descriptor.
 *   I5  A child of fork() has no bells.
 *   I6  A ring is due if its bell must be compared with its completions. A thread that
 *       is about to sleep settles only the due rings. A poster adds the ring to the
 *       list of due rings before it publishes a completion, under the queue's lock. A
 *       shared ring (share.h) is always due, because other processes do not ring its
 *       bell. If the bell of a due ring is silent (not rung) and the ring is not
 *       shared, the settling thread removes the ring from the list. For this it holds
 *       the list's lock, and takes the queue's lock after that. So polling costs
 *       nothing for rings without completions. A due ring has a bell, and is removed
 *       from the list before the ring is freed.
 *
 * Context: any thread, also in a signal handler. In a handler that interrupted the
 * library, and in a thread with its own descriptor table, these functions behave as if
 * no ring had a bell.
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
	/*
	 * uaio_process_nr_forks at the last search for shared rings: if it has changed
	 * since, search again
	 */
	uint32_t nr_forks;
	struct uaio_uring *first; /* first of the list of due rings (I6) */
};

extern struct uaio_uring_bells uaio_uring_bells
	__attribute__((visibility("hidden")));

#ifdef UAIO_TESTING
/*
 * For tests: how often a due ring's bell was compared with its completions (I6).
 * Atomic.
 */
extern uint32_t uaio_uring_bells_nr_settled;
#endif

/*
 * Called each time the engine (the library's core) starts, also in a child of fork().
 */
void uaio_uring_bells_init(void);

/*
 * ring.c calls the first when a ring is made, the second when the ring dies, and the
 * third when the ring is freed.
 */
void uaio_uring_bell_init(struct uaio_uring *ring);
void uaio_uring_bell_silence(struct uaio_uring *ring);
void uaio_uring_bell_fini(struct uaio_uring *ring);

/*
 * The caller is about to publish completions. It holds the queue's lock, and the ring
 * has a bell.
 */
void uaio_uring_bell_expect_locked(struct uaio_uring *ring);
/* The caller has published the completions. It still holds the queue's lock. */
void uaio_uring_bell_ring_locked(struct uaio_uring *ring);

void uaio_uring_bells_settle_slowly(void);

static inline bool uaio_uring_has_bells(void)
{
	/*
	 * relaxed: a thread that polls a bell knows that the bell was made, and so sees
	 * a count that includes the bell
	 */
	return load_relaxed(&uaio_uring_bells.nr);
}

/* Return: whether some ring may be due (I6). */
static inline bool uaio_uring_has_due_bells(void)
{
	/*
	 * [MB:uring-due] acquire: this thread sees the rings that find_shared() made due
	 * after a fork. Pairs with find_shared(). The other loads are relaxed: a client that
	 * has consumed a completion has also seen that the completion's ring was made
	 * due
	 */
	return uaio_uring_has_bells() &&
	       (load_acquire(&uaio_uring_bells.nr_forks) !=
			load_relaxed(&uaio_process_nr_forks) ||
		load_relaxed(&uaio_uring_bells.first));
}

/*
 * Settle all bells: make each eventfd readable exactly if its ring has completions
 * (I2). Costs a few loads if no bell needs to be compared with its ring (I6). Preserves
 * errno.
 */
static inline void uaio_uring_bells_settle(void)
{
	if (__builtin_expect(uaio_uring_has_due_bells(), 0))
		uaio_uring_bells_settle_slowly();
}

/* What to poll in place of a ring's descriptor. */
struct uaio_uring_bell {
	struct uaio_uring
		/* the caller uses this ring (I3); NULL: poll the descriptor itself */
		*ring;
	int fd;
	/*
	 * The submission queue is full: do not report POLLOUT, which an eventfd would
	 * report.
	 */
	bool is_full;
};

/*
 * Settle the bell of the ring at fd: make the bell readable exactly if the ring has
 * completions (I2).
 * Return: the bell to poll in place of fd; or fd itself, if fd is not a known ring or
 * the bell cannot be made.
 */
struct uaio_uring_bell uaio_uring_bell_get(int fd);
void uaio_uring_bell_put_slowly(struct uaio_uring *ring);

/*
 * Settle the bell of the ring at fd, as uaio_uring_bell_get() does. *ret_is_full: see
 * struct uaio_uring_bell. A request that polls the bell keeps the bell's eventfd open
 * after the ring has died, and then waits for ever.
 * Return: the bell's file, with a reference; NULL if fd is not a known ring, or the
 * bell cannot be made.
 * Context: the thread has entered the library (entry.h).
 */
struct uaio_file *uaio_uring_bell_file(int fd, bool *ret_is_full);

/*
 * The function `polled` of struct uaio_sink (sink.h). The core calls it for a request
 * that polls a ring: change the request to a poll of the ring's bell.
 * Return: the bell's file, with a reference; NULL if the request's descriptor is not a
 * known ring, or the bell cannot be made.
 */
struct uaio_file *uaio_uring_polled(struct uaio_sqe *sqe);
/*
 * The function `polled_again` of struct uaio_sink: if the request polls a ring's bell,
 * settle the bell, and change the request's events as uaio_uring_polled() does.
 */
void uaio_uring_polled_again(struct uaio_sqe *sqe);

/* Stop using a ring that uaio_uring_bell_get() returned. */
static inline void uaio_uring_bell_put(struct uaio_uring *ring)
{
	if (ring)
		uaio_uring_bell_put_slowly(ring);
}

/*
 * The program wants to use descriptor number fd, which belongs to the library. If fd is
 * a bell, move the bell to another descriptor.
 * Return: 0; -ENOENT: no bell is at fd; -EBUSY: no other descriptor is available.
 */
int uaio_uring_bell_yield(int fd);

/*
 * Mirrors epoll_ctl(2). Return: 0, or its error; 1 if fd is not a ring of the library.
 */
int uaio_uring_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);

#endif /* UAIO_URING_BELL_H */
