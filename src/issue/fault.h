/* SPDX-License-Identifier: MIT */
/*
 * Injected faults: deciding which requests get a fault
 *
 * A user chooses faults by --fault (options/faults.h). When an accepted request is first
 * issued, the library decides which faults it gets. It considers only faults that apply
 * to the request's operation, file and length. An error replaces the system call. "short"
 * reduces the bytes that the call requests. A delay posts the completion later (late.h);
 * "reorder" is a delay by a random time. A deferred request starts later, so that the
 * program has time to cancel it (defer.h). Faults change nothing else, so links, drains
 * and the order of a file's writes work as usual.
 *
 *   I1  The requests to which a fault applies are numbered from 1, under the lock.
 *       Whether request number n gets the fault depends only on the fault, its seed and
 *       n. Random decisions use a hash of the seed and n. So the decisions do not
 *       depend on time, threads or other faults. But which request gets which number
 *       depends on the order in which threads submit.
 *   I2  In a child of fork() the numbers begin with 1.
 *   I3  Under `uaio check` each change is logged before the request is executed, as a
 *       line of the file PID.changes in the directory uaio_check_directory. The fields
 *       of the line, separated by tabs, are: "change"; the number of the fault, from 1;
 *       the request's number; the kind of fault; its value (an error's name, "BYTES of
 *       BYTES" for a short transfer, or nanoseconds); the operation; the descriptor; its
 *       path. A field that does not apply is "-", as is the descriptor of a registered
 *       file. If the option only= contains the request's number, as a single number or
 *       in a short range, check.h also reports where the request was submitted. That
 *       report has the name "FAULT NUMBER": the fault's number and the request's.
 *
 * Context: any thread that has entered the library (entry.h), without locks. Called
 * only if uaio_config.is_examined is set.
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

/* What the injected faults do to one request. */
struct uaio_fault_plan {
	/*
	 * -errno: the request gets this result without a system call; 0: no error is
	 * injected
	 */
	int error;
	/* by how many ns the request's completion is delayed; 0: not at all */
	int64_t delay_ns;
	/* by how many ns the request's start is deferred; 0: not at all */
	int64_t defer_ns;
	/* the fault "short" has reduced the request's length */
	bool is_short;
	/*
	 * number of the request's record, which `uaio check` keeps (check.h); 0: none
	 */
	uint32_t record;
};

/* Called each time the engine starts, also in a child of fork(). */
void uaio_fault_init(void);

/*
 * Count a request that is about to be issued, and decide which faults it gets. The
 * fault "short" reduces the length in sqe. record: the number of the request's record,
 * which `uaio check` keeps (check.h); 0: none.
 */
void uaio_fault_plan(struct uaio_file *file, struct uaio_sqe *sqe,
		     uint32_t record, struct uaio_fault_plan *ret);

/*
 * Store in req, which is PREPPED (not started), the faults that were planned for its
 * sqe.
 */
void uaio_fault_keep(struct uaio_req *req, const struct uaio_fault_plan *plan);

#endif /* UAIO_ISSUE_FAULT_H */
