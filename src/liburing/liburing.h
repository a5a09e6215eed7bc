/* SPDX-License-Identifier: MIT */
/*
 * liburing's functions, for rings of the kernel and rings of the library
 *
 * liburing makes system calls by its own instructions, which cannot be interposed. So the
 * library interposes liburing's functions: each function that makes an io_uring call is
 * defined here, under the same name and without a symbol version. This definition
 * replaces the function of any version of liburing. A program gets either all of these
 * functions or none, so liburing's own functions never use a struct io_uring that these
 * functions have filled.
 *
 *   I1  struct uaio_liburing has the layout of struct io_uring, which is unchanged since
 *       liburing 2.0. liburing's inline functions, compiled into programs, access these
 *       members: sqe_tail, sqe_head, the pointers to the rings' words, sqes, cqes, the
 *       masks and numbers of entries, flags, features and ring_fd.
 *   I2  Entry i of the submission array is always i: the array is filled when the ring is
 *       set up.
 *   I3  sqe_tail: up to here the program has prepared submissions. sqe_head: up to here
 *       they were published in the ring.
 *   I4  Only these functions use int_flags, whose bits are defined here.
 *
 * Functions that return a number return -errno on failure. No function changes errno. On
 * a ring of the kernel these functions behave as in liburing 2.3. Functions that are not
 * in liburing 2.3 behave as the manual of liburing 2.14 says.
 *
 * Not defined here are functions that make no system call, or only calls that a ring of
 * the library does not support: version numbers, io_uring_get_sqe, io_uring_memory_size,
 * zero-copy receive, BPF. Programs use liburing's own functions for these.
 *
 * Context: any thread, like the system calls (uring/uring.h), but only one thread at a
 * time may use a ring.
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
	uint32_t *array; /* NULL: IORING_SETUP_NO_SQARRAY */
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
	/* address of the CQ flags; NULL if the kernel has none */
	uint32_t *kflags;
	uint32_t *koverflow;
	struct io_uring_cqe *cqes;
	size_t ring_bytes;
	/* address of the mapping, which may contain both queues */
	void *ring;
	uint32_t mask;
	uint32_t nr_entries;
	uint32_t unused[2];
};

struct uaio_liburing {
	struct uaio_liburing_sq sq;
	struct uaio_liburing_cq cq;
	uint32_t flags;
	/* -1: the ring has no descriptor, only a registered index */
	int ring_fd;
	uint32_t features;
	/* what is passed to io_uring_enter(): ring_fd, or the registered index */
	int enter_fd;
	uint8_t int_flags;
	uint8_t unused[3];
	uint32_t unused2;
};

static_assert(sizeof(struct uaio_liburing) == 216, "as liburing's");
static_assert(offsetof(struct uaio_liburing, cq) == 104, "as liburing's");
static_assert(offsetof(struct uaio_liburing, flags) == 192, "as liburing's");
static_assert(offsetof(struct uaio_liburing, int_flags) == 208,
	      "as liburing's");

/*
 * Bits of int_flags. If a bit is also a flag of io_uring_enter(), it has the same
 * value.
 */
enum {
	UAIO_LIBURING_REGISTERS_BY_INDEX = 1,
	UAIO_LIBURING_HAS_CLIENTS_MEMORY = 2,
	UAIO_LIBURING_ENTERS_BY_INDEX = 16, /* IORING_ENTER_REGISTERED_RING */
	UAIO_LIBURING_NO_IOWAIT = 128,      /* IORING_ENTER_NO_IOWAIT */
	UAIO_LIBURING_OF_ENTER =
		UAIO_LIBURING_ENTERS_BY_INDEX | UAIO_LIBURING_NO_IOWAIT,
};

/*
 * Flags of io_uring that some headers lack. Their prefix is U_ instead of IORING_.
 */
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

/*
 * Call io_uring_enter() or io_uring_register() on the ring, by the descriptor or
 * registered index that these functions use for it.
 * Return: the result, or -errno.
 */
int uaio_liburing_enter(const struct uaio_liburing *ring, uint32_t to_submit,
			uint32_t min_complete, uint32_t flags, const void *arg,
			size_t arg_bytes);
int uaio_liburing_register(const struct uaio_liburing *ring, uint32_t opcode,
			   const void *arg, uint32_t nr_args);

#endif /* UAIO_LIBURING_LIBURING_H */
