/* SPDX-License-Identifier: MIT */
/*
 * io_uring for rows: the client of all tests, and notes of what it sees
 *
 * As for kernel AIO, results are counts or negative errnos. What is submitted
 * gets a serial number as its user_data, and what completes is noted by it: not
 * the numbers themselves, and not the order of what runs at once.
 */
#ifndef CONFORM_URING_H
#define CONFORM_URING_H

#include <linux/time_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conform.h"
#include "uring-client.h"

/* Opcodes of newer headers. */
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
/* Of io_uring_register(2): the number is one that the thread registered. */
#define REGISTER_USE_REGISTERED_RING (1U << 31)

/* A ring that the row works with: where it cannot be had, the row ends. */
struct uring new_uring(uint32_t nr, uint32_t flags);
struct uring new_uring_of(uint32_t nr, const struct io_uring_params *params);

/* The next SQE: zeroes, but for its user_data. */
struct io_uring_sqe *sqe_of(struct uring *ring, int opcode, int fd);
/* The same with the fields that most have. */
struct io_uring_sqe *sqe_rw(struct uring *ring, int opcode, int fd,
			    const void *addr, size_t len, uint64_t off);
/* A poll for input, with these flags of an SQE. */
struct io_uring_sqe *sqe_poll(struct uring *ring, int fd, uint8_t flags);
/* Copies one that was filled in elsewhere; it gets a user_data. */
struct io_uring_sqe *sqe_copy(struct uring *ring,
			      const struct io_uring_sqe *sqe);

/* The completions there are, after the kernel has had the chance to do what it put off. */
uint32_t uring_settle(const struct uring *ring);
/* Waits some seconds at most until so many are. Return: whether they are. */
bool uring_wait(struct uring *ring, uint32_t nr);
/* The completion for sqe's user_data, waited for; others are dropped. */
bool uring_find(struct uring *ring, uint64_t user_data,
		struct io_uring_cqe *cqe);

/* key=RESULT, with the flags and what else is special. */
void note_cqe(const char *key, const struct io_uring_cqe *cqe);
/*
 * Waits for nr completions and notes them by their place among what was
 * submitted since the ring was empty: key.0, key.1, ..., then what came
 * besides. note_in_order() notes them as they come, with that place.
 */
void note_cqes(const char *key, struct uring *ring, uint32_t nr);
void note_in_order(const char *key, struct uring *ring, uint32_t nr);
/*
 * Submits what is prepared, one request, and notes how it ends. What else ends
 * meanwhile is dropped.
 */
long try_sqe(const char *key, struct uring *ring);
/* What is there without waiting. */
void note_ready(const char *key, const struct uring *ring);
/* The words that the kernel keeps in the rings, relative to what they were. */
void note_rings(const char *key, const struct uring *ring);

/* Provided buffers: what io_uring_register() takes, with members of newer headers. */
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

/* Adds nr buffers of so many bytes, that follow each other, to the list of a group. */
void uring_provide(struct uring *ring, int group, void *memory, size_t bytes,
		   int first, int nr);

/* A time for a timeout; never by a clock's value. */
struct __kernel_timespec span_of(long long ns);
#define SPAN_SOON span_of(2 * MS)
#define SPAN_NEVER span_of(3600 * 1000 * MS)

#endif
