/* SPDX-License-Identifier: MIT */
/*
 * The io_uring client that two workloads of fail-each share: it has one ring at a time, and
 * each request of the ring is a job (struct fail_job)
 */
#ifndef FAIL_RING_H
#define FAIL_RING_H

#include "fail-each.h"
#include "uring-client.h"

void fail_ring_open(void);
/* Close the ring, which cancels the waiting requests. */
void fail_ring_close(void);

/* Call io_uring_register(); if it fails and a fault may be the cause, call it again. */
void fail_ring_register(uint32_t opcode, const void *arg, uint32_t nr_args);

/* Return: the next request, whose SQE is fail_ring_sqe() until the next is added. */
struct fail_job *fail_ring_add(const char *what, int opcode, int fd,
			       const void *addr, size_t len, int64_t off,
			       int64_t asked);
struct io_uring_sqe *fail_ring_sqe(void);
/* Return: the user_data of the request, for SQEs that refer to it. */
uint64_t fail_ring_name(const struct fail_job *job);

/* Submit the added requests. */
void fail_ring_submit(void);

/*
 * Wait until the request is complete. NULL: wait until all are. shot is called for each
 * completion of a multishot request, including the last. It may be NULL.
 */
typedef void fail_shot_fn(struct fail_job *job, const struct io_uring_cqe *cqe);
void fail_ring_await(const struct fail_job *job, fail_shot_fn *shot);
/* Wait until *nr is at least min, or the request is complete. */
void fail_ring_await_shots(const struct fail_job *job, fail_shot_fn *shot,
			   const size_t *nr, size_t min);
/* All requests are complete: free their slots. */
void fail_ring_clear(void);

/* Cancel a waiting request. Returns once the request is complete. */
void fail_ring_cancel(struct fail_job *job, fail_shot_fn *shot);

#endif /* FAIL_RING_H */
