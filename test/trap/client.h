/* SPDX-License-Identifier: MIT */
/* A ring of io_uring, by the system calls alone. */
#ifndef TEST_TRAP_CLIENT_H
#define TEST_TRAP_CLIENT_H

#include <errno.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct ring {
	int fd;
	unsigned *sq_tail, *sq_mask, *sq_array;
	unsigned *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

static inline void *ring_map(int fd, size_t bytes, unsigned long offset)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_POPULATE, fd, (off_t)offset);
}

/* Return: 0, or -1 with errno set. */
static inline int ring_open(struct ring *ring)
{
	struct io_uring_params p;
	char *sq, *cq;

	memset(&p, 0, sizeof(p));
	ring->fd = (int)syscall(SYS_io_uring_setup, 8, &p);
	if (ring->fd < 0)
		return -1;
	sq = ring_map(ring->fd, p.sq_off.array + p.sq_entries * 4,
		      IORING_OFF_SQ_RING);
	cq = ring_map(ring->fd,
		      p.cq_off.cqes + p.cq_entries * sizeof(*ring->cqes),
		      IORING_OFF_CQ_RING);
	ring->sqes = ring_map(ring->fd, p.sq_entries * sizeof(*ring->sqes),
			      IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || ring->sqes == MAP_FAILED)
		return -1;
	ring->sq_tail = (unsigned *)(sq + p.sq_off.tail);
	ring->sq_mask = (unsigned *)(sq + p.sq_off.ring_mask);
	ring->sq_array = (unsigned *)(sq + p.sq_off.array);
	ring->cq_head = (unsigned *)(cq + p.cq_off.head);
	ring->cq_tail = (unsigned *)(cq + p.cq_off.tail);
	ring->cq_mask = (unsigned *)(cq + p.cq_off.ring_mask);
	ring->cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
	return 0;
}

static inline int ring_enter(struct ring *ring, unsigned nr, unsigned min)
{
	return (int)syscall(SYS_io_uring_enter, ring->fd, nr, min,
			    min ? IORING_ENTER_GETEVENTS : 0, NULL, 8);
}

static inline void ring_prepare(struct ring *ring, int op)
{
	unsigned tail = *ring->sq_tail, at = tail & *ring->sq_mask;

	memset(&ring->sqes[at], 0, sizeof(*ring->sqes));
	ring->sqes[at].opcode = (uint8_t)op;
	ring->sq_array[at] = at;
	__atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
}

static inline void ring_prepare_read(struct ring *ring, int fd, void *buf,
				     unsigned bytes, unsigned long offset)
{
	struct io_uring_sqe *sqe = &ring->sqes[*ring->sq_tail & *ring->sq_mask];

	ring_prepare(ring, IORING_OP_READ);
	sqe->fd = fd;
	sqe->addr = (uintptr_t)buf;
	sqe->len = bytes;
	sqe->off = offset;
}

static inline int ring_has(struct ring *ring)
{
	return __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE) !=
	       *ring->cq_head;
}

/* Take a completion, which is there. */
static inline int ring_result(struct ring *ring)
{
	unsigned head = *ring->cq_head;
	int ret = ring->cqes[head & *ring->cq_mask].res;

	__atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
	return ret;
}

/* Return: the request's result, or what waiting for it failed with. */
static inline int ring_read(struct ring *ring, int fd, void *buf,
			    unsigned bytes, unsigned long offset)
{
	ring_prepare_read(ring, fd, buf, bytes, offset);
	if (ring_enter(ring, 1, 1) < 0 && errno != EINTR)
		return -errno;
	while (!ring_has(ring))
		if (ring_enter(ring, 0, 1) < 0 && errno != EINTR)
			return -errno;
	return ring_result(ring);
}

#endif /* TEST_TRAP_CLIENT_H */
