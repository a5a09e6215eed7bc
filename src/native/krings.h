/* SPDX-License-Identifier: MIT */
/*
 * The kernel's rings, used as a client: contexts of kernel AIO, and rings of io_uring
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
 * kaio.c: a context of kernel AIO. Its memory is shared with the kernel: the kernel
 * writes events and the tail, the library reads them and writes the head.
 *
 * Thread-safety: any thread may submit; one thread at a time takes events.
 */

/* The header of the shared memory; the events follow it. */
struct uaio_kaio_ring {
	uint32_t id;
	uint32_t nr; /* capacity in events */
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
/* Close the context. Waits until the kernel has completed its requests. */
void uaio_kaio_close(struct uaio_kaio_ring *ring);

/* Return: whether there is a completion; only a hint. */
static inline bool uaio_kaio_has(const struct uaio_kaio_ring *ring)
{
	/* relaxed, both: the thread that takes events looks again */
	return load_relaxed(&ring->tail) != load_relaxed(&ring->head);
}

/* Return: how many events were taken, at most max. */
unsigned uaio_kaio_take(struct uaio_kaio_ring *ring,
			struct io_event *ret_events, unsigned max);

/*
 * kuring.c: a ring of io_uring. Its memory is shared with the kernel: the library
 * writes requests and the tail of the submission queue, the kernel writes completions
 * and the tail of the completion queue.
 *
 * Any thread makes the ring; one thread, its user, then uses it. The user registers the
 * ring's descriptor with the kernel (IORING_REGISTER_RING_FDS). Then the ring needs no
 * descriptor in the table, so the program cannot close it. A child of fork() has none
 * of the ring's memory.
 *
 * Thread-safety: a ring is opened and closed while no other thread has it; all other
 * functions are for the user alone.
 */

struct uaio_kuring {
	int fd;         /* owns: until its user has adopted it; then -1 */
	uint32_t index; /* after that: its registered index in the kernel */

	void *rings; /* owns */
	size_t rings_bytes;
	struct io_uring_sqe *sqes; /* owns */
	size_t sqes_bytes;

	/* in the kernel's memory */
	uint32_t *sq_head; /* the kernel writes it */
	uint32_t *sq_tail;
	uint32_t *cq_head;
	uint32_t *cq_tail; /* the kernel writes it */
	struct io_uring_cqe *cqes;

	uint32_t sq_entries;
	uint32_t cq_entries;
	uint32_t filled; /* the tail, including requests not yet submitted */
};

/*
 * Make a ring that takes nr_sq requests by one call, and has room for nr_cq
 * completions. Context: a thread of the client, since the ring's descriptor is opened
 * as ownfd.h says.
 * Return: 0; -errno of the kernel or of a seccomp filter.
 */
int uaio_kuring_open(unsigned nr_sq, unsigned nr_cq,
		     struct uaio_kuring *ret_ring);

/*
 * Make the calling thread the ring's user. While the thread lives, the ring can be
 * polled by its descriptor, which the caller may drop afterwards
 * (uaio_kuring_drop_fd()). Return: 0, or -errno.
 */
int uaio_kuring_adopt(struct uaio_kuring *ring);
/* Close the descriptor, which is no longer needed. */
void uaio_kuring_drop_fd(struct uaio_kuring *ring);

/* Free the ring. Requests that the kernel still has are lost. */
void uaio_kuring_close(struct uaio_kuring *ring);

/* Return: the next submission entry to fill, all zero; NULL if there is no room now. */
struct io_uring_sqe *uaio_kuring_next(struct uaio_kuring *ring);

/*
 * Submit all filled entries. Does not wait for any request.
 * Return: how many the kernel has taken, from the first on, if any; otherwise -errno.
 * The other entries are discarded.
 */
int uaio_kuring_submit(struct uaio_kuring *ring);

/* Return: how many completions were taken, at most max. */
unsigned uaio_kuring_take(struct uaio_kuring *ring,
			  struct io_uring_cqe *ret_cqes, unsigned max);

#endif /* UAIO_NATIVE_KRINGS_H */
