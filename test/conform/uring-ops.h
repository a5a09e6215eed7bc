/* SPDX-License-Identifier: MIT */
/*
 * For each operation of io_uring, a request that is valid
 *
 * Test cases change one field of the valid request and print the result. The unchanged
 * request completes at once, however often a test case submits it. Some requests fail
 * because the file or object that they name does not exist (for example ENOENT).
 */
#ifndef CONFORM_URING_OPS_H
#define CONFORM_URING_OPS_H

#include "uring.h"

struct uring_op {
	const char *name;
	int opcode;
	/* Opens the descriptor on which the operation acts. NULL: there is none. */
	int (*open)(void);
	/* Fills in an SQE whose other members are 0 and whose fd is set. */
	void (*fill)(struct io_uring_sqe *sqe);
	bool takes_any_file; /* test cases try the request on each kind of file */
	bool has_offset; /* test cases also try the request without an offset */
};

/*
 * uring_ops_rest has the operations without a file, and newer operations. The last
 * element of each array has no name.
 */
extern const struct uring_op uring_ops[];
extern const struct uring_op uring_ops_rest[];

/*
 * Creates the files and buffers that the operations use. A test case calls this first.
 */
void prepare_uring_ops(void);
/*
 * Registers a buffer at index 0 of the ring's table, for operations on a fixed buffer.
 */
void register_op_buffer(const struct uring *ring);
/* Return: an SQE that contains the valid request of this operation. */
struct io_uring_sqe uring_op_sqe(const struct uring_op *op);
/*
 * If the operation returned a descriptor, closes it and sets res to 0, because the
 * descriptor's number may differ from run to run.
 */
void forget_opened(const struct uring_op *op, struct io_uring_cqe *cqe);

#endif
