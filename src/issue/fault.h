/* SPDX-License-Identifier: MIT */
/*
 * Faults on purpose: which requests have one
 *
 * A user asks for faults by --fault (options/faults.h). When a request is issued for
 * the first time, and was not refused, each of them that is for its operation, file
 * and length is asked in turn. An error takes the place of the system call; short
 * changes what the call is asked for; a delay holds back the completion (late.h), and
 * so does reorder, by a time that chance decides. A request that is deferred begins
 * later, so that a cancellation finds it (defer.h). Nothing else of a request's way
 * changes, so links, drains and the order of a file's writes hold.
 *
 *   I1  Each fault numbers the requests that it is for, from 1, under the lock.
 *       Whether number n has it is a function of the fault, its seed and n alone.
 *       What chance there is comes from a hash of the seed and n. So it does not
 *       depend on time, threads or other faults, but which request gets which
 *       number is for the threads that submit.
 *   I2  A child of fork() begins with 1.
 *   I3  Under `uaio check` (uaio_check_directory) each change is told in a line of
 *       the file PID.changes there, before the request is executed. Its fields, with
 *       tabs between them, are: change; which fault, from 1; the request's number;
 *       the kind of fault; what it is (an error's name, "BYTES of BYTES" that are
 *       moved, or nanoseconds); the operation; the descriptor; its path. A field
 *       that does not apply is "-", as is the descriptor of a registered file. Where
 *       the request was submitted is reported as well (check.h), by "FAULT NUMBER", if
 *       only= has named it, alone or among a few.
 *
 * Context: any thread that has entered (entry.h), without locks; only where
 * uaio_config.is_examined.
 *
 * Tested by test-fault.c.
 */
#ifndef UAIO_ISSUE_FAULT_H
#define UAIO_ISSUE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_file;
struct uaio_req;
struct uaio_sqe;

/* What is to become of a request. */
struct uaio_fault_plan {
	int error;        /* -errno: its result, without a call; 0: none */
	int64_t delay_ns; /* its completion is held back; 0: not */
	int64_t defer_ns; /* it begins only then; 0: at once */
	bool is_short;    /* it was cut */
	uint32_t record;  /* of its memory, for check.h; 0: none */
};

/* Called each time the engine starts, also in a child of fork(). */
void uaio_fault_init(void);

/*
 * Decide on a request that is about to be issued, and count it; sqe may be cut. record: of
 * its memory, for check.h; 0: none.
 */
void uaio_fault_plan(struct uaio_file *file, struct uaio_sqe *sqe,
		     uint32_t record, struct uaio_fault_plan *ret);

/* req, which is PREPPED, is what has become of the request. */
void uaio_fault_keep(struct uaio_req *req, const struct uaio_fault_plan *plan);

#endif /* UAIO_ISSUE_FAULT_H */
