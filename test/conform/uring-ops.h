/* SPDX-License-Identifier: MIT */
/*
 * Each operation of io_uring, as a request that succeeds
 *
 * Rows (test cases) change one field of the request and note its result. The unchanged
 * request completes at once, without help, each time it is filled in and submitted.
 */
#ifndef CONFORM_URING_OPS_H
#define CONFORM_URING_OPS_H

#include "uring.h"

struct uring_op {
	const char *name;
	int opcode;
	/* Opens the descriptor that the operation uses. NULL: the operation uses none. */
	int (*open)(void);
	/* Fills in all other members of a zeroed SQE whose fd is set. */
	void (*fill)(struct io_uring_sqe *sqe);
	bool takes_any_file; /* rows try it on each kind of file */
	bool has_offset;     /* rows try it without an offset, too */
};

/* The last of each array has no name. uring_ops_rest needs newer headers. */
extern const struct uring_op uring_ops[];
extern const struct uring_op uring_ops_rest[];

/* Creates what the operations use. A row calls this first. */
void prepare_uring_ops(void);
/* Registers a buffer at index 0 of the ring, if the ring needs one. */
void register_op_buffer(const struct uring *ring);
/* Return: an SQE of the operation that succeeds. */
struct io_uring_sqe uring_op_sqe(const struct uring_op *op);
/* Closes a descriptor that the operation returned, and sets res to 0. */
void forget_opened(const struct uring_op *op, struct io_uring_cqe *cqe);

#endif
