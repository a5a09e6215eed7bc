/* SPDX-License-Identifier: MIT */
/* A client of io_uring for programs under the trap */
#ifndef TEST_TRAP_CLIENT_H
#define TEST_TRAP_CLIENT_H

#include <errno.h>
#include <sys/mman.h>

#include "uring-client.h"

/*
 * Create and map a ring.
 * Return: 0, or a negative errno.
 */
static inline long ring_open(struct uring *ring)
{
	const struct io_uring_params params = { .flags = 0 };
	long ret = uring_open(ring, 8, &params);
	char *cq;

	if (ret < 0)
		return ret;
	/*
	 * Map the CQ ring separately, as old programs do, because the trap must support
	 * this, too.
	 */
	cq = mmap(NULL, ring->rings_bytes, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_POPULATE, ring->fd,
		  (off_t)IORING_OFF_CQ_RING);
	if (cq == MAP_FAILED)
		return -errno;
	ring->cq_head = (uint32_t *)(void *)(cq + ring->params.cq_off.head);
	ring->cq_tail = (uint32_t *)(void *)(cq + ring->params.cq_off.tail);
	ring->cqes =
		(struct io_uring_cqe *)(void *)(cq + ring->params.cq_off.cqes);
	return 0;
}

static inline long ring_enter(const struct uring *ring, unsigned nr,
			      unsigned min)
{
	return uring_enter(ring->fd, nr, min, min ? IORING_ENTER_GETEVENTS : 0,
			   NULL, 8);
}

static inline void ring_prepare(struct uring *ring, int op)
{
	(void)uring_put(ring, op, 0, 0);
	(void)uring_publish(ring);
}

static inline void ring_prepare_read(struct uring *ring, int fd, void *buf,
				     unsigned bytes, uint64_t offset)
{
	(void)uring_put_rw(ring, IORING_OP_READ, fd, (uintptr_t)buf, bytes,
			   offset, 0);
	(void)uring_publish(ring);
}

/*
 * Consume a completion. There must be one in the ring.
 * Return: its result.
 */
static inline int ring_result(const struct uring *ring)
{
	struct io_uring_cqe cqe = { .res = -ENOENT };

	(void)uring_take(ring, &cqe);
	return cqe.res;
}

/*
 * Read through the ring.
 * Return: the request's result, or the error of the call that waits for it.
 */
static inline int ring_read(struct uring *ring, int fd, void *buf,
			    unsigned bytes, uint64_t offset)
{
	long ret;

	ring_prepare_read(ring, fd, buf, bytes, offset);
	ret = ring_enter(ring, 1, 1);
	while (ret >= 0 || ret == -EINTR) {
		if (uring_ready(ring))
			return ring_result(ring);
		ret = ring_enter(ring, 0, 1);
	}
	return (int)ret;
}

#endif /* TEST_TRAP_CLIENT_H */
