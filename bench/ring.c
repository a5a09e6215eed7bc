/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ring.h"

int ring_make(unsigned entries)
{
	struct io_uring_params params = { 0 };
	int fd = (int)syscall(SYS_io_uring_setup, entries, &params);

	if (fd < 0)
		fail("io_uring_setup", errno);
	return fd;
}

static char *map(int fd, size_t bytes, off_t at)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_POPULATE, fd, at);

	if (memory == MAP_FAILED)
		fail("mmap", errno);
	return memory;
}

void ring_open(struct ring *ring, unsigned entries, size_t completions)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_CQSIZE,
		.cq_entries =
			(unsigned)(completions < 2 * entries ? 2 * entries
							     : completions),
	};
	const struct io_sqring_offsets *sq = &params.sq_off;
	const struct io_cqring_offsets *cq = &params.cq_off;
	size_t sq_bytes, cq_bytes;
	char *rings;

	ring->fd = (int)syscall(SYS_io_uring_setup, entries, &params);
	if (ring->fd < 0)
		fail("io_uring_setup", errno);
	sq_bytes = sq->array + params.sq_entries * sizeof(unsigned);
	cq_bytes = cq->cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	rings = map(ring->fd, sq_bytes > cq_bytes ? sq_bytes : cq_bytes,
		    IORING_OFF_SQ_RING);
	ring->sq_tail = (_Atomic unsigned *)(rings + sq->tail);
	ring->sq_mask = *(unsigned *)(rings + sq->ring_mask);
	ring->array = (unsigned *)(rings + sq->array);
	ring->cq_head = (_Atomic unsigned *)(rings + cq->head);
	ring->cq_tail = (_Atomic unsigned *)(rings + cq->tail);
	ring->cq_mask = *(unsigned *)(rings + cq->ring_mask);
	ring->cqes = (struct io_uring_cqe *)(rings + cq->cqes);
	ring->sqes = (struct io_uring_sqe *)map(
		ring->fd, params.sq_entries * sizeof(*ring->sqes),
		IORING_OFF_SQES);
	ring->nr_queued = 0;
}

struct io_uring_sqe *ring_sqe(struct ring *ring, int op, int fd, uint64_t id)
{
	unsigned tail, place;
	struct io_uring_sqe *sqe;

	if (ring->nr_queued > ring->sq_mask)
		ring_enter(ring, 0);
	tail = atomic_load_explicit(ring->sq_tail, memory_order_relaxed);
	place = tail & ring->sq_mask;
	sqe = &ring->sqes[place];
	*sqe = (struct io_uring_sqe){ .opcode = (uint8_t)op,
				      .fd = fd,
				      .user_data = id };
	ring->array[place] = place;
	/*
	 * release, without a full barrier: the kernel reads the entry only in a later
	 * system call.
	 */
	atomic_store_explicit(ring->sq_tail, tail + 1, memory_order_release);
	ring->nr_queued++;
	return sqe;
}

void ring_enter(struct ring *ring, unsigned nr_wanted)
{
	unsigned flags = nr_wanted ? IORING_ENTER_GETEVENTS : 0;
	long ret;

	do
		ret = syscall(SYS_io_uring_enter, ring->fd, ring->nr_queued,
			      nr_wanted, flags, NULL, 0);
	while (ret < 0 && errno == EINTR);
	if (ret != (long)ring->nr_queued)
		fail("io_uring_enter", ret < 0 ? errno : EAGAIN);
	ring->nr_queued = 0;
}

bool ring_has(const struct ring *ring)
{
	return atomic_load_explicit(ring->cq_tail, memory_order_acquire) !=
	       atomic_load_explicit(ring->cq_head, memory_order_relaxed);
}

void ring_wait(const struct ring *ring)
{
	if (syscall(SYS_io_uring_enter, ring->fd, 0, 1, IORING_ENTER_GETEVENTS,
		    NULL, 0) < 0 &&
	    errno != EINTR)
		fail("io_uring_enter", errno);
}

uint64_t ring_take(struct ring *ring, int *res)
{
	unsigned head =
		atomic_load_explicit(ring->cq_head, memory_order_relaxed);
	const struct io_uring_cqe *cqe = &ring->cqes[head & ring->cq_mask];
	uint64_t id;

	while (atomic_load_explicit(ring->cq_tail, memory_order_acquire) ==
	       head)
		ring_enter(ring, 1);
	id = cqe->user_data;
	*res = cqe->res;
	atomic_store_explicit(ring->cq_head, head + 1, memory_order_release);
	return id;
}

void ring_register(const struct ring *ring, unsigned op, void *arg, unsigned nr)
{
	if (syscall(SYS_io_uring_register, ring->fd, op, arg, nr) < 0)
		fail("io_uring_register", errno);
}
