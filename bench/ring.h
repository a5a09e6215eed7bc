/* SPDX-License-Identifier: MIT */
/*
 * A ring of io_uring, used by system calls. Programs that use it define fail(), which
 * prints what failed and ends the program.
 */
#ifndef BENCH_RING_H
#define BENCH_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

_Noreturn void fail(const char *what, int error);

struct ring {
	int fd;
	_Atomic unsigned *sq_tail, *cq_head, *cq_tail;
	unsigned sq_mask, cq_mask, nr_queued;
	unsigned *array;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

enum { RING_ENTRIES = 256 };

/* ring_make() returns a ring without mapping it. ring_open() makes a ring and maps it. */
int ring_make(unsigned entries);
void ring_open(struct ring *ring, unsigned entries, size_t completions);
struct io_uring_sqe *ring_sqe(struct ring *ring, int op, int fd, uint64_t id);
/* Submit what is queued, and wait for nr_wanted completions. */
void ring_enter(struct ring *ring, unsigned nr_wanted);
/*
 * Consume a completion, which must be there.
 * Return: the request's id.
 */
uint64_t ring_take(struct ring *ring, int *res);
/* ring_has(): return whether a completion is there. ring_wait() sleeps until one is. */
bool ring_has(const struct ring *ring);
void ring_wait(const struct ring *ring);
void ring_register(const struct ring *ring, unsigned op, void *arg,
		   unsigned nr);

#endif /* BENCH_RING_H */
