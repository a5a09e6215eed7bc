/* SPDX-License-Identifier: MIT */
/*
 * The io_uring client that two workloads of fail-each share. It has one ring at a time;
 * each request of the ring is a job (struct fail_job).
 */
#ifndef FAIL_RING_H
#define FAIL_RING_H

#include "fail-each.h"
#include "uring-client.h"

void fail_ring_open(void);
/* Close the ring. Its requests that still wait are cancelled. */
void fail_ring_close(void);

/* Call io_uring_register(). If it fails because of a fault, call it again. */
void fail_ring_register(uint32_t opcode, const void *arg, uint32_t nr_args);

/*
 * Add a request.
 * Return: its job. fail_ring_sqe() returns its SQE, until the next request is added.
 */
struct fail_job *fail_ring_add(const char *what, int opcode, int fd,
			       const void *addr, size_t len, int64_t off,
			       int64_t asked);
struct io_uring_sqe *fail_ring_sqe(void);
/* Return: the request's user_data, by which other SQEs refer to it. */
uint64_t fail_ring_name(const struct fail_job *job);

/* Submit the requests that were added. */
void fail_ring_submit(void);

/*
 * Wait until this request is complete; NULL: until all are. If it is a multishot
 * request and `shot` is not NULL, call shot() for each completion, the last one
 * included.
 */
typedef void fail_shot_fn(struct fail_job *job, const struct io_uring_cqe *cqe);
void fail_ring_await(const struct fail_job *job, fail_shot_fn *shot);
/*
 * Wait until *nr, which shot() may raise, is at least min, or until the request is
 * complete.
 */
void fail_ring_await_shots(const struct fail_job *job, fail_shot_fn *shot,
			   const size_t *nr, size_t min);
/* Free the slots of all requests, which must be complete. */
void fail_ring_clear(void);

/* Cancel a request that waits. Return once it is complete. */
void fail_ring_cancel(struct fail_job *job, fail_shot_fn *shot);

#endif /* FAIL_RING_H */
