/* SPDX-License-Identifier: MIT */
/*
 * Functions for the kernel's own rings, of which the library is a client: contexts of
 * kernel AIO, and rings of io_uring
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
 * kaio.c: a context of kernel AIO. Its memory is shared by the kernel and the process.
 * The kernel writes events and the tail there; the library reads the events, and writes
 * the head.
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
 * Return: 0 with the ring's memory, whose address is also the kernel's handle; -ENOSYS:
 * the memory has an unknown layout; another error of io_setup().
 */
int uaio_kaio_open(unsigned nr, struct uaio_kaio_ring **ret_ring);
/* Close the context. Waits until the kernel has completed its requests. */
void uaio_kaio_close(struct uaio_kaio_ring *ring);

/* Return: whether there is a completion; only a hint. */
static inline bool uaio_kaio_has(const struct uaio_kaio_ring *ring)
{
	/*
	 * relaxed, both: a thread that takes events reads the tail and the head again
	 */
	return load_relaxed(&ring->tail) != load_relaxed(&ring->head);
}

/* Take up to max events from the ring. Return: how many were taken. */
unsigned uaio_kaio_take(struct uaio_kaio_ring *ring,
			struct io_event *ret_events, unsigned max);

/*
 * kuring.c: a ring of io_uring. Its memory is shared by the kernel and the process. The
 * library writes requests and the tail of the submission queue. The kernel writes
 * completions and the tail of the completion queue.
 *
 * Any thread may make the ring. After that only one thread, the ring's user, uses it. The
 * user registers the ring's descriptor with the kernel (IORING_REGISTER_RING_FDS). After
 * that the ring needs no entry in the descriptor table, so the program cannot close it. A
 * child of fork() has none of the ring's memory.
 *
 * Thread-safety: while a ring is opened or closed, no other thread may use it. Only the
 * user may call the other functions.
 */

struct uaio_kuring {
	/* the ring's descriptor, owned by this struct; -1: closed, and `index` is used */
	int fd;
	/* after registration: the ring's index, used instead of fd */
	uint32_t index;

	void *rings; /* owns */
	size_t rings_bytes;
	struct io_uring_sqe *sqes; /* owns */
	size_t sqes_bytes;

	/* pointers into the memory shared with the kernel */
	/* written by the kernel */
	uint32_t *sq_head;
	uint32_t *sq_tail;
	uint32_t *cq_head;
	/* written by the kernel */
	uint32_t *cq_tail;
	struct io_uring_cqe *cqes;

	uint32_t sq_entries;
	uint32_t cq_entries;
	/* the tail that the next submission will write */
	uint32_t filled;
};

/*
 * Make a ring that submits up to nr_sq requests in one call, and has room for nr_cq
 * completions. Context: a thread of the client, since ownfd.h opens the ring's
 * descriptor.
 * Return: 0; -errno of the kernel or of a seccomp filter.
 */
int uaio_kuring_open(unsigned nr_sq, unsigned nr_cq,
		     struct uaio_kuring *ret_ring);

/*
 * Make the calling thread the ring's user. The caller may then add the ring's descriptor
 * to an epoll, and close it (uaio_kuring_drop_fd()). While this thread lives, the epoll
 * still reports completions.
 * Return: 0; -errno: the kernel has refused to register the descriptor.
 */
int uaio_kuring_adopt(struct uaio_kuring *ring);
/* Close the descriptor, which is no longer needed. */
void uaio_kuring_drop_fd(struct uaio_kuring *ring);

/*
 * Free the ring. The library then gets no completions of requests that the kernel still
 * has.
 */
void uaio_kuring_close(struct uaio_kuring *ring);

/*
 * Return: the next submission entry to fill, zeroed; NULL if all entries are in use.
 */
struct io_uring_sqe *uaio_kuring_next(struct uaio_kuring *ring);

/*
 * Submit all filled entries. Does not wait for any request.
 * Return: how many requests the kernel has accepted, from the first on; the error of
 * io_uring_enter() if it has accepted none. The other entries are discarded.
 */
int uaio_kuring_submit(struct uaio_kuring *ring);

/* Take up to max completions from the ring. Return: how many were taken. */
unsigned uaio_kuring_take(struct uaio_kuring *ring,
			  struct io_uring_cqe *ret_cqes, unsigned max);

#endif /* UAIO_NATIVE_KRINGS_H */
