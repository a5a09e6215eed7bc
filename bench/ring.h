/* SPDX-License-Identifier: MIT */
/*
 * An io_uring ring without liburing, by system calls. Each program that uses these
 * functions defines fail(), which prints what failed and ends the program.
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

/*
 * ring_make() creates a ring, and does not map the ring. ring_open() creates a ring and
 * maps it; the completion queue has room for `completions`, and at least for
 * 2 * entries.
 */
int ring_make(unsigned entries);
void ring_open(struct ring *ring, unsigned entries, size_t completions);
struct io_uring_sqe *ring_sqe(struct ring *ring, int op, int fd, uint64_t id);
/* Submit the queued requests, and wait for nr_wanted completions. */
void ring_enter(struct ring *ring, unsigned nr_wanted);
/*
 * Consume a completion, of which there must be one.
 * Return: the id of its request; *res: its result.
 */
uint64_t ring_take(struct ring *ring, int *res);
/*
 * ring_has(): return whether a completion is in the ring. ring_wait() sleeps until
 * there is a completion.
 */
bool ring_has(const struct ring *ring);
void ring_wait(const struct ring *ring);
void ring_register(const struct ring *ring, unsigned op, void *arg,
		   unsigned nr);

#endif /* BENCH_RING_H */
