/* SPDX-License-Identifier: MIT */
/*
 * io_uring for rows: the client that all tests share, and notes of what it
 * observes
 *
 * As for kernel AIO, functions return counts or negative errnos. Each submitted request has
 * a serial number as its user_data. Rows note completions by their position among the
 * submissions, not by serial number, and not in the order in which concurrent requests
 * complete.
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
/* For io_uring_register(2): the descriptor is the index of a registered ring. */
#define REGISTER_USE_REGISTERED_RING (1U << 31)

/* Creates a ring. If that fails, it ends the row. */
struct uring new_uring(uint32_t nr, uint32_t flags);
struct uring new_uring_of(uint32_t nr, const struct io_uring_params *params);

/* Return: the next SQE, zeroed except for the arguments and user_data. */
struct io_uring_sqe *sqe_of(struct uring *ring, int opcode, int fd);
/* As sqe_of(), with the fields that most operations use. */
struct io_uring_sqe *sqe_rw(struct uring *ring, int opcode, int fd,
			    const void *addr, size_t len, uint64_t off);
/* Prepares a poll for input, with these IOSQE_* flags. */
struct io_uring_sqe *sqe_poll(struct uring *ring, int fd, uint8_t flags);
/* Copies a filled-in SQE to the ring, with its own user_data. */
struct io_uring_sqe *sqe_copy(struct uring *ring,
			      const struct io_uring_sqe *sqe);

/* Return: how many completions there are after deferred work has run. */
uint32_t uring_settle(const struct uring *ring);
/* Waits up to PATIENCE_MS. Return: whether nr completions are there. */
bool uring_wait(struct uring *ring, uint32_t nr);
/* Waits for the completion with that user_data, and drops others. */
bool uring_find(struct uring *ring, uint64_t user_data,
		struct io_uring_cqe *cqe);

/* Notes key=RESULT, with the flags and any further members that are set. */
void note_cqe(const char *key, const struct io_uring_cqe *cqe);
/*
 * Waits for nr completions, and notes them by the position of their request among those
 * submitted since the ring was empty: key.0, key.1, ... Then it notes any further
 * completions. note_in_order() notes completions in the order of their arrival, with that
 * position.
 */
void note_cqes(const char *key, struct uring *ring, uint32_t nr);
void note_in_order(const char *key, struct uring *ring, uint32_t nr);
/*
 * Submits the one prepared request and notes its result. Drops other
 * completions.
 */
long try_sqe(const char *key, struct uring *ring);
/* Notes the completions that are there, without waiting. */
void note_ready(const char *key, const struct uring *ring);
/* Notes by how much each of the ring's words that the kernel writes has changed. */
void note_rings(const char *key, const struct uring *ring);

/* Provided buffers as io_uring_register() takes them in newer headers. */
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

/* Adds nr adjacent buffers, each of that many bytes, to a buffer group. */
void uring_provide(struct uring *ring, int group, void *memory, size_t bytes,
		   int first, int nr);

/* Return: a duration for a timeout, never an absolute time. */
struct __kernel_timespec span_of(long long ns);
#define SPAN_SOON span_of(2 * MS)
#define SPAN_NEVER span_of(3600 * 1000 * MS)

#endif
