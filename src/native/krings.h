/* SPDX-License-Identifier: MIT */
/*
 * The kernel's rings, as a client of them: contexts of kernel AIO, and rings of io_uring
 */
#ifndef UAIO_NATIVE_KRINGS_H
#define UAIO_NATIVE_KRINGS_H

#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/io_uring.h"

/*
 * kaio.c: a context of the kernel's, with the memory that the kernel shares with us: it
 * writes events and the tail, we read them and write the head.
 *
 * Thread-safety: submitting, any thread; taking, one at a time.
 */

/* The head of the kernel's memory; the events follow. */
struct uaio_kaio_ring {
	uint32_t id;
	uint32_t nr; /* events that have room */
	uint32_t head;
	uint32_t tail;
	uint32_t magic;
	uint32_t compat;
	uint32_t incompat;
	uint32_t header_bytes;
	struct io_event events[];
};

/*
 * Make a ring for at least nr events.
 * Return: 0 with its memory, whose address is also the kernel's handle; or -errno.
 */
int uaio_kaio_open(unsigned nr, struct uaio_kaio_ring **ret_ring);
/* Waits until the kernel has completed what is under way there. */
void uaio_kaio_close(struct uaio_kaio_ring *ring);

/* Return: whether there is a completion; a guess. */
static inline bool uaio_kaio_has(const struct uaio_kaio_ring *ring)
{
	/* relaxed, both: the thread that takes looks again */
	return load_relaxed(&ring->tail) != load_relaxed(&ring->head);
}

/* Return: how many events were taken, at most max. */
unsigned uaio_kaio_take(struct uaio_kaio_ring *ring,
			struct io_event *ret_events, unsigned max);

/*
 * kuring.c: a ring of io_uring, and the memory that it shares with us: we write requests
 * and the tail of their queue, it writes completions and the tail of theirs.
 *
 * The ring is made by any thread, and used by one, its user, which has the kernel
 * note the ring for that thread. Then the ring needs no descriptor, so that the
 * program cannot close it. A child of fork() has none of its memory.
 *
 * Thread-safety: opening and closing, while no other thread has the ring; all else, the
 * user alone.
 */

struct uaio_kuring {
	int fd;         /* owns: until its user has adopted it; then -1 */
	uint32_t index; /* then: the kernel's name for it */

	void *rings; /* owns */
	size_t rings_bytes;
	struct io_uring_sqe *sqes; /* owns */
	size_t sqes_bytes;

	/* in the kernel's memory */
	uint32_t *sq_head; /* the kernel's */
	uint32_t *sq_tail;
	uint32_t *cq_head;
	uint32_t *cq_tail; /* the kernel's */
	struct io_uring_cqe *cqes;

	uint32_t sq_entries;
	uint32_t cq_entries;
	uint32_t filled; /* the tail, with what is not submitted yet */
};

/*
 * Make a ring that takes nr_sq requests by a call, and has room for nr_cq completions.
 * Context: a thread of the client's, as it opens a descriptor (ownfd.h).
 * Return: 0; -errno of the kernel's or a filter's.
 */
int uaio_kuring_open(unsigned nr_sq, unsigned nr_cq,
		     struct uaio_kuring *ret_ring);

/*
 * The calling thread is the user from now on. Return: 0, or -errno. While the thread
 * lives, the ring may be watched, by the descriptor that it has until this returns.
 */
int uaio_kuring_adopt(struct uaio_kuring *ring);
/* The descriptor is not needed any more. */
void uaio_kuring_drop_fd(struct uaio_kuring *ring);

/* What the kernel has is lost. */
void uaio_kuring_close(struct uaio_kuring *ring);

/* Return: the next request to fill, all zero; NULL if there is no room now. */
struct io_uring_sqe *uaio_kuring_next(struct uaio_kuring *ring);

/*
 * Submit all that are filled. Does not wait for any.
 * Return: how many the kernel has taken, from the first on, if any; otherwise -errno.
 * The others are not filled any more.
 */
int uaio_kuring_submit(struct uaio_kuring *ring);

/* Return: how many completions were taken, at most max. */
unsigned uaio_kuring_take(struct uaio_kuring *ring,
			  struct io_uring_cqe *ret_cqes, unsigned max);

#endif /* UAIO_NATIVE_KRINGS_H */
