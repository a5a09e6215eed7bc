/* SPDX-License-Identifier: MIT */
/*
 * io_uring for test cases: functions that prepare and submit requests
 * (uring-client.h), and functions that print what the test case observes
 *
 * Functions return counts or negative errnos, like those for kernel AIO in conform.h.
 * Each submitted request has a serial number as its user_data. Test cases print
 * completions by the position of their request among the submissions. They print
 * neither the serial number nor the order in which concurrent requests complete.
 */
#ifndef CONFORM_URING_H
#define CONFORM_URING_H

#include <linux/time_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conform.h"
#include "uring-client.h"

/* Opcodes that older headers lack. */
enum {
	OP_WAITID = 50,
	OP_FUTEX_WAIT = 51,
	OP_FUTEX_WAKE = 52,
	OP_FUTEX_WAITV = 53,
	OP_FTRUNCATE = 55,
	OP_BIND = 56,
	OP_LISTEN = 57,
	OP_EPOLL_WAIT = 59,
	OP_READV_FIXED = 60,
	OP_WRITEV_FIXED = 61,
	OP_PIPE = 62,
};
/*
 * A flag of io_uring_register(2): the descriptor is the index of a registered ring.
 */
#define REGISTER_USE_REGISTERED_RING (1U << 31)

/* Creates a ring. If no ring can be created, ends the test case. */
struct uring new_uring(uint32_t nr, uint32_t flags);
struct uring new_uring_of(uint32_t nr, const struct io_uring_params *params);

/*
 * Return: the next SQE. Its members are 0 except for the arguments and user_data.
 */
struct io_uring_sqe *sqe_of(struct uring *ring, int opcode, int fd);
/* As sqe_of(), with the fields that most operations use. */
struct io_uring_sqe *sqe_rw(struct uring *ring, int opcode, int fd,
			    const void *addr, size_t len, uint64_t off);
/* Prepares a poll for input, with these IOSQE_* flags. */
struct io_uring_sqe *sqe_poll(struct uring *ring, int fd, uint8_t flags);
/* Copies a filled-in SQE to the ring, and gives the copy a new user_data. */
struct io_uring_sqe *sqe_copy(struct uring *ring,
			      const struct io_uring_sqe *sqe);

/*
 * Lets the kernel post the completions that it has deferred.
 * Return: how many completions are then in the ring.
 */
uint32_t uring_settle(const struct uring *ring);
/* Waits up to PATIENCE_MS. Return: whether nr completions are there. */
bool uring_wait(struct uring *ring, uint32_t nr);
/*
 * Waits for the completion with this user_data, and drops the completions that precede
 * it in the ring.
 * Return: whether the completion has arrived.
 */
bool uring_find(struct uring *ring, uint64_t user_data,
		struct io_uring_cqe *cqe);

/* Prints key=RESULT, with the flags and any further members that are set. */
void note_cqe(const char *key, const struct io_uring_cqe *cqe);
/*
 * Both functions wait for nr completions, and print each as key.N. N is the number of
 * the completion's request. Requests are numbered from 0, and again from 0 after each
 * call of note_cqes(), note_in_order() or try_sqe(). If completions are missing, or more
 * have arrived, the functions print how many. note_cqes() prints the completions in the
 * order of N, note_in_order() in the order of arrival.
 */
void note_cqes(const char *key, struct uring *ring, uint32_t nr);
void note_in_order(const char *key, struct uring *ring, uint32_t nr);
/*
 * Submits the one prepared request. Prints and returns its result. Drops the
 * completions of other requests.
 */
long try_sqe(const char *key, struct uring *ring);
/* Prints how many completions the ring has, without waiting. */
void note_ready(const char *key, const struct uring *ring);
/*
 * Prints heads, tails and flags of both queues, and the counts `dropped` and
 * `overflow`.
 */
void note_rings(const char *key, const struct uring *ring);

/* Constants for arrays of provided buffers, which older headers lack */
enum { REGISTER_PBUF_STATUS = 26, PBUF_RING_MMAP = 1, PBUF_RING_INC = 2 };

struct buf_reg {
	uint64_t ring_addr;
	uint32_t ring_entries;
	uint16_t bgid;
	uint16_t flags;
	uint64_t resv[3];
};

struct buf_status {
	uint32_t group;
	uint32_t head;
	uint32_t resv[8];
};

/* Adds nr adjacent buffers of `bytes` bytes each to a buffer group. */
void uring_provide(struct uring *ring, int group, void *memory, size_t bytes,
		   int first, int nr);

/* Return: a duration of ns nanoseconds, as the argument of a timeout. */
struct __kernel_timespec span_of(long long ns);
#define SPAN_SOON span_of(2 * MS)
#define SPAN_NEVER span_of(3600 * 1000 * MS)

#endif
