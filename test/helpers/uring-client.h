/* SPDX-License-Identifier: MIT */
/*
 * A simple client of io_uring, used instead of liburing: creates and maps a ring,
 * submits requests, reaps completions
 *
 * Unlike with liburing, a test may write any value to any word of the rings.
 * uring_setup(), uring_enter() and uring_register() return a count or a negative errno.
 * Each program links one of two definitions of these functions: uring-syscall.c uses
 * syscall(2), test/unit/uring-linked.c calls the library that is linked.
 */
#ifndef TEST_HELPERS_URING_CLIENT_H
#define TEST_HELPERS_URING_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/io_uring.h"

struct uring {
	int fd;
	struct io_uring_params params;
	size_t rings_bytes, sqes_bytes;
	void *rings;
	uint32_t *sq_head, *sq_tail, *sq_flags, *sq_dropped;
	uint32_t *sq_array; /* NULL with NO_SQARRAY */
	uint32_t *cq_head, *cq_tail, *cq_flags, *cq_overflow;
	uint32_t sq_mask, cq_mask;
	/* array elements per SQE or CQE: 2 with SQE128 or CQE32, else 1 */
	uint32_t sqe_slots, cqe_slots;
	/*
	 * the SQ tail to publish; includes the SQEs that are filled in but not yet
	 * published
	 */
	uint32_t prepared;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

/*
 * The calls
 */

long uring_setup(uint32_t nr, struct io_uring_params *params);
long uring_enter(int fd, uint32_t to_submit, uint32_t min_complete,
		 uint32_t flags, const void *arg, size_t arg_bytes);
long uring_register(int fd, uint32_t opcode, const void *arg, uint32_t nr_args);
/*
 * Return: the offset to pass to mmap() instead of `offset` (IORING_OFF_*); with the
 * kernel, `offset` itself.
 */
int64_t uring_map_offset(int fd, uint64_t offset);

/*
 * A ring
 */

/* Set up a ring and map it. Return: 0; or the negative errno of the failed call. */
long uring_open(struct uring *ring, uint32_t nr,
		const struct io_uring_params *params);
/* Map the ring that uring_setup() described. Return: 0; or mmap()'s errno, negated. */
long uring_map(struct uring *ring, int fd,
	       const struct io_uring_params *params);
/*
 * Initialize `ring` for a ring whose memory is already mapped at these addresses.
 */
void uring_at(struct uring *ring, int fd, const struct io_uring_params *params,
	      void *rings, void *sqes);
/*
 * Make entry i of the SQ array refer to SQE i, for all i. A client has to do this only
 * once.
 */
void uring_fill_array(const struct uring *ring);
/* Unmap the ring. The caller must not use it any more. */
void uring_unmap(const struct uring *ring);

/*
 * Submissions
 */

/* Return: the next free SQE, with these arguments; its other fields are zero. */
struct io_uring_sqe *uring_put(struct uring *ring, int opcode, int fd,
			       uint64_t user_data);
struct io_uring_sqe *uring_put_rw(struct uring *ring, int opcode, int fd,
				  uint64_t addr, size_t len, uint64_t off,
				  uint64_t user_data);
/*
 * Write the SQ tail, which publishes all prepared SQEs.
 * Return: how many SQEs the kernel has not consumed.
 */
uint32_t uring_publish(struct uring *ring);
/*
 * Publish and submit all prepared SQEs.
 * Return: the result of uring_enter().
 */
long uring_submit(struct uring *ring);
/* Like uring_submit(), and wait for nr completions. */
long uring_submit_wait(struct uring *ring, uint32_t nr);

/*
 * Completions
 */

/* Return: how many completions are in the ring. */
uint32_t uring_ready(const struct uring *ring);
/* Return: the oldest completion; NULL if the ring has none. */
const struct io_uring_cqe *uring_peek(const struct uring *ring);
/* Copy the oldest completion and consume it. Return: whether there was one. */
bool uring_take(const struct uring *ring, struct io_uring_cqe *cqe);
/* Consume all completions. Return: how many there were. */
uint32_t uring_take_all(const struct uring *ring);

#endif /* TEST_HELPERS_URING_CLIENT_H */
