/* SPDX-License-Identifier: MIT */
/*
 * liburing's functions, for rings of the kernel's and of ours
 *
 * liburing makes system calls by its own instruction, where they cannot be
 * interposed. So its functions are: each that makes one of io_uring's calls is
 * here, under its name and without a version, so that it stands in for every
 * version of liburing. A program gets all of them or none, so a struct that one
 * has filled is read by the others.
 *
 *   I1  struct uaio_liburing has the layout of struct io_uring, which is the same
 *       from liburing 2.0 on. Programs read and write it by functions that were
 *       compiled into them: both sqe_tail, the pointers to the rings' words,
 *       sqes, cqes, the masks and numbers of entries, flags, features and ring_fd
 *       are theirs to use.
 *   I2  The place in the submission array is the place of the SQE: the array is
 *       filled when the ring is set up, and does not change.
 *   I3  sqe_head is what has been shown to the other side, and sqe_tail what the
 *       program has prepared.
 *   I4  int_flags has bits of this header only, and is read here only.
 *
 * All functions return a negative error number and leave errno alone. What they
 * do on a ring of the kernel's is what liburing 2.3 does, and for functions that
 * came later what the manual of 2.14 says.
 *
 * Not here, as they make no call, or none that a ring of ours answers: the
 * numbers of the version, io_uring_get_sqe, io_uring_memory_size, zero-copy
 * receiving, BPF. These stay liburing's.
 *
 * Context: as for the system calls; a ring is used by one thread at a time.
 *
 * Tested by test/uring/library.c.
 */
#ifndef UAIO_LIBURING_LIBURING_H
#define UAIO_LIBURING_LIBURING_H

#include <assert.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/io_uring.h"
#include "base/symver.h"

struct uaio_liburing_sq {
	uint32_t *khead;
	uint32_t *ktail;
	uint32_t *kring_mask;
	uint32_t *kring_entries;
	uint32_t *kflags;
	uint32_t *kdropped;
	uint32_t *array; /* NULL: the ring has none */
	struct io_uring_sqe *sqes;
	uint32_t sqe_head;
	uint32_t sqe_tail;
	size_t ring_bytes;
	void *ring;
	uint32_t mask;
	uint32_t nr_entries;
	uint32_t sqes_bytes;
	uint32_t unused;
};

struct uaio_liburing_cq {
	uint32_t *khead;
	uint32_t *ktail;
	uint32_t *kring_mask;
	uint32_t *kring_entries;
	uint32_t *kflags; /* NULL on old kernels */
	uint32_t *koverflow;
	struct io_uring_cqe *cqes;
	size_t ring_bytes;
	void *ring; /* may be the same as the other's */
	uint32_t mask;
	uint32_t nr_entries;
	uint32_t unused[2];
};

struct uaio_liburing {
	struct uaio_liburing_sq sq;
	struct uaio_liburing_cq cq;
	uint32_t flags;
	int ring_fd; /* -1: there is none, only a registered one */
	uint32_t features;
	int enter_fd; /* what enter is called with: ring_fd, or an index */
	uint8_t int_flags;
	uint8_t unused[3];
	uint32_t unused2;
};

static_assert(sizeof(struct uaio_liburing) == 216, "as liburing's");
static_assert(offsetof(struct uaio_liburing, cq) == 104, "as liburing's");
static_assert(offsetof(struct uaio_liburing, flags) == 192, "as liburing's");
static_assert(offsetof(struct uaio_liburing, int_flags) == 208,
	      "as liburing's");

/* int_flags; those of enter have its bits. */
enum {
	UAIO_LIBURING_REGISTERS_BY_INDEX = 1,
	UAIO_LIBURING_HAS_CLIENTS_MEMORY = 2,
	UAIO_LIBURING_ENTERS_BY_INDEX = 16, /* IORING_ENTER_REGISTERED_RING */
	UAIO_LIBURING_NO_IOWAIT = 128,      /* IORING_ENTER_NO_IOWAIT */
	UAIO_LIBURING_OF_ENTER =
		UAIO_LIBURING_ENTERS_BY_INDEX | UAIO_LIBURING_NO_IOWAIT,
};

/* Newer than some headers, with the prefix U_ in place of IORING_. */
enum {
	U_SETUP_NO_MMAP = 1 << 14,
	U_SETUP_REGISTERED_FD_ONLY = 1 << 15,
	U_SETUP_NO_SQARRAY = 1 << 16,
	U_CQE_F_SKIP = 1 << 5,
	U_CQE_F_32 = 1 << 15,
	U_FEAT_REG_REG_RING = 1 << 13,
	U_FEAT_MIN_TIMEOUT = 1 << 15,
	U_FEAT_NO_IOWAIT = 1 << 17,
	U_ENTER_EXT_ARG_REG = 1 << 6,
};

/* The three calls. Return: as the system call, with a negative error number. */
int uaio_liburing_enter(const struct uaio_liburing *ring, uint32_t to_submit,
			uint32_t min_complete, uint32_t flags, const void *arg,
			size_t arg_bytes);
int uaio_liburing_register(const struct uaio_liburing *ring, uint32_t opcode,
			   const void *arg, uint32_t nr_args);

#endif /* UAIO_LIBURING_LIBURING_H */
