/* SPDX-License-Identifier: MIT */
#include "uring-client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/*
 * load() is an acquire load, and store() a release store. They pair with the stores and
 * loads of the kernel, or of the library.
 */
static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void store(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/*
 * A ring
 */

static uint32_t *word(void *rings, uint32_t offset)
{
	return (uint32_t *)(void *)((char *)rings + offset);
}

void uring_at(struct uring *ring, int fd, const struct io_uring_params *params,
	      void *rings, void *sqes)
{
	const struct io_sqring_offsets *sq = &params->sq_off;
	const struct io_cqring_offsets *cq = &params->cq_off;
	const bool has_array = !(params->flags & IORING_SETUP_NO_SQARRAY);

	*ring = (struct uring){
		.fd = fd,
		.params = *params,
		.rings = rings,
		.sq_head = word(rings, sq->head),
		.sq_tail = word(rings, sq->tail),
		.sq_flags = word(rings, sq->flags),
		.sq_dropped = word(rings, sq->dropped),
		.sq_array = has_array ? word(rings, sq->array) : NULL,
		.cq_head = word(rings, cq->head),
		.cq_tail = word(rings, cq->tail),
		.cq_flags = word(rings, cq->flags),
		.cq_overflow = word(rings, cq->overflow),
		.sq_mask = *word(rings, sq->ring_mask),
		.cq_mask = *word(rings, cq->ring_mask),
		.sqe_slots = params->flags & IORING_SETUP_SQE128 ? 2 : 1,
		.cqe_slots = params->flags & IORING_SETUP_CQE32 ? 2 : 1,
		.prepared = load(word(rings, sq->tail)),
		.sqes = sqes,
		.cqes = (void *)word(rings, cq->cqes),
	};
}

static void *map(int fd, size_t bytes, uint64_t offset)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_POPULATE, fd,
		    (off_t)uring_map_offset(fd, offset));
}

/* munmap() fails only if `bytes` or the address is wrong, which is a bug of the test. */
static void unmap(void *memory, size_t bytes)
{
	if (munmap(memory, bytes) == 0)
		return;
	perror("munmap");
	abort();
}

static size_t rings_bytes_of(const struct io_uring_params *params)
{
	const size_t width = params->flags & IORING_SETUP_CQE32 ? 2 : 1;
	size_t cqes = params->cq_off.cqes +
		      params->cq_entries * width * sizeof(struct io_uring_cqe);
	size_t array =
		params->sq_off.array + params->sq_entries * sizeof(uint32_t);

	if (params->flags & IORING_SETUP_NO_SQARRAY)
		array = 0;
	return cqes > array ? cqes : array;
}

long uring_map(struct uring *ring, int fd, const struct io_uring_params *params)
{
	const size_t width = params->flags & IORING_SETUP_SQE128 ? 2 : 1;
	const size_t rings_bytes = rings_bytes_of(params);
	const size_t sqes_bytes =
		params->sq_entries * width * sizeof(struct io_uring_sqe);
	void *rings, *sqes;
	long error;

	/*
	 * Kernels before Linux 5.4 demand a separate mapping for the completion ring.
	 */
	rings = map(fd, rings_bytes, IORING_OFF_SQ_RING);
	if (rings == MAP_FAILED)
		return -errno;
	sqes = map(fd, sqes_bytes, IORING_OFF_SQES);
	if (sqes == MAP_FAILED) {
		error = -errno;
		unmap(rings, rings_bytes);
		return error;
	}
	uring_at(ring, fd, params, rings, sqes);
	ring->rings_bytes = rings_bytes;
	ring->sqes_bytes = sqes_bytes;
	return 0;
}

long uring_open(struct uring *ring, uint32_t nr,
		const struct io_uring_params *params)
{
	struct io_uring_params own = *params;
	long fd = uring_setup(nr, &own);

	return fd < 0 ? fd : uring_map(ring, (int)fd, &own);
}

void uring_fill_array(const struct uring *ring)
{
	for (uint32_t i = 0; ring->sq_array && i < ring->params.sq_entries; i++)
		ring->sq_array[i] = i;
}

void uring_unmap(const struct uring *ring)
{
	unmap(ring->rings, ring->rings_bytes);
	unmap(ring->sqes, ring->sqes_bytes);
}

/*
 * Submissions
 */

struct io_uring_sqe *uring_put(struct uring *ring, int opcode, int fd,
			       uint64_t user_data)
{
	const uint32_t slot = ring->prepared++ & ring->sq_mask;
	struct io_uring_sqe *sqe = &ring->sqes[slot * ring->sqe_slots];

	if (ring->sq_array)
		ring->sq_array[slot] = slot;
	memset(sqe, 0, sizeof(*sqe) * ring->sqe_slots);
	sqe->opcode = (uint8_t)opcode;
	sqe->fd = fd;
	sqe->user_data = user_data;
	return sqe;
}

struct io_uring_sqe *uring_put_rw(struct uring *ring, int opcode, int fd,
				  uint64_t addr, size_t len, uint64_t off,
				  uint64_t user_data)
{
	struct io_uring_sqe *sqe = uring_put(ring, opcode, fd, user_data);

	sqe->addr = addr;
	sqe->len = (uint32_t)len;
	sqe->off = off;
	return sqe;
}

uint32_t uring_publish(struct uring *ring)
{
	store(ring->sq_tail, ring->prepared);
	return ring->prepared - load(ring->sq_head);
}

long uring_submit(struct uring *ring)
{
	return uring_enter(ring->fd, uring_publish(ring), 0, 0, NULL, 0);
}

long uring_submit_wait(struct uring *ring, uint32_t nr)
{
	return uring_enter(ring->fd, uring_publish(ring), nr,
			   IORING_ENTER_GETEVENTS, NULL, 0);
}

/*
 * Completions
 */

uint32_t uring_ready(const struct uring *ring)
{
	return load(ring->cq_tail) - *ring->cq_head;
}

const struct io_uring_cqe *uring_peek(const struct uring *ring)
{
	const uint32_t head = *ring->cq_head;

	if (load(ring->cq_tail) == head)
		return NULL;
	return &ring->cqes[(head & ring->cq_mask) * ring->cqe_slots];
}

bool uring_take(const struct uring *ring, struct io_uring_cqe *cqe)
{
	const struct io_uring_cqe *oldest = uring_peek(ring);

	if (!oldest)
		return false;
	*cqe = *oldest;
	store(ring->cq_head, *ring->cq_head + 1);
	return true;
}

uint32_t uring_take_all(const struct uring *ring)
{
	const uint32_t tail = load(ring->cq_tail);
	const uint32_t nr = tail - *ring->cq_head;

	store(ring->cq_head, tail);
	return nr;
}
