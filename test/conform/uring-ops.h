/* SPDX-License-Identifier: MIT */
/*
 * Each operation of io_uring, as a request that succeeds
 *
 * Rows spoil it in one place and look what becomes of it. It completes without
 * anything else happening, and again each time that it is filled in anew.
 */
#ifndef CONFORM_URING_OPS_H
#define CONFORM_URING_OPS_H

#include "uring.h"

struct uring_op {
	const char *name;
	int opcode;
	/* A descriptor that it works with; NULL: it has none. */
	int (*open)(void);
	/* The rest of a zeroed SQE, whose fd is set. */
	void (*fill)(struct io_uring_sqe *sqe);
	bool takes_any_file; /* to be tried on every kind of file */
	bool has_offset;     /* to be tried without one, too */
};

/* The last of each has no name. Those of the rest are of newer headers, and the like. */
extern const struct uring_op uring_ops[];
extern const struct uring_op uring_ops_rest[];

/* What the operations use: to be called first in the row. */
void prepare_uring_ops(void);
/* The buffer registered under number 0, if a ring needs one. */
void register_op_buffer(const struct uring *ring);
/* The SQE of one that succeeds. */
struct io_uring_sqe uring_op_sqe(const struct uring_op *op);
/* A descriptor that an operation has returned is closed, and is 0 then. */
void forget_opened(const struct uring_op *op, struct io_uring_cqe *cqe);

#endif
