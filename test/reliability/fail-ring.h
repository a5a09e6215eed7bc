/* SPDX-License-Identifier: MIT */
/*
 * The client of io_uring that two workloads of fail-each share: one ring at a time, whose
 * requests are jobs
 */
#ifndef FAIL_RING_H
#define FAIL_RING_H

#include "fail-each.h"
#include "uring-client.h"

void fail_ring_open(void);
/* Requests that still wait are cancelled. */
void fail_ring_close(void);

/* io_uring_register(), which is called again if it may fail and does. */
void fail_ring_register(uint32_t opcode, const void *arg, uint32_t nr_args);

/* Return: the next request, whose SQE is fail_ring_sqe() until the next is added. */
struct fail_job *fail_ring_add(const char *what, int opcode, int fd,
			       const void *addr, size_t len, int64_t off,
			       int64_t asked);
struct io_uring_sqe *fail_ring_sqe(void);
/* Return: what SQEs of other requests name the request by. */
uint64_t fail_ring_name(const struct fail_job *job);

/* Submit what was added. */
void fail_ring_submit(void);

/*
 * Wait until the request is complete; NULL: until all are. shot is called for each
 * completion of a multishot request, also for the last one; it may be NULL.
 */
typedef void fail_shot_fn(struct fail_job *job, const struct io_uring_cqe *cqe);
void fail_ring_await(const struct fail_job *job, fail_shot_fn *shot);
/* The same, until *nr is at least min or the request is complete. */
void fail_ring_await_shots(const struct fail_job *job, fail_shot_fn *shot,
			   const size_t *nr, size_t min);
/* All requests are complete: the next ones have their slots. */
void fail_ring_clear(void);

/* Cancel a request that waits; return when it is complete. */
void fail_ring_cancel(struct fail_job *job, fail_shot_fn *shot);

#endif /* FAIL_RING_H */
