/* SPDX-License-Identifier: MIT */
/*
 * Faults on purpose: deciding which requests have a fault
 *
 * A user chooses faults by --fault (options/faults.h). When an accepted request is issued for
 * the first time, the library decides for each fault that applies to its operation, file and
 * length whether the request suffers this fault. An error replaces the system call; short
 * reduces the bytes that the call requests; a delay holds back the completion (late.h), and so
 * does reorder, by a random time. A deferred request starts later, so that a cancellation can
 * find it (defer.h). Faults change nothing else, so links, drains and the order of a file's
 * writes hold.
 *
 *   I1  The requests to which a fault applies are numbered from 1, under the lock. Whether
 *       request number n has the fault is a function of the fault, its seed and n alone.
 *       Random decisions use a hash of the seed and n. So the decisions do not depend on time,
 *       threads or other faults. But which request gets which number depends on the order in
 *       which threads submit.
 *   I2  In a child of fork() the numbers begin with 1.
 *   I3  Under `uaio check` (uaio_check_directory) each change is logged as a line of the file
 *       PID.changes there, before the request is executed. Its fields, separated by tabs, are:
 *       "change"; the number of the fault, from 1; the request's number; the kind of fault;
 *       its value (an error's name, "BYTES of BYTES" that are moved, or nanoseconds); the
 *       operation; the descriptor; its path. A field that does not apply is "-", as is the
 *       descriptor of a registered file. If the option only= selects the request's number,
 *       alone or in a short range, check.h also reports where the request was submitted, under
 *       the name "FAULT NUMBER".
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

/* What faults do to a request. */
struct uaio_fault_plan {
	/* -errno: the result, and no system call is made; 0: no error is injected */
	int error;
	/* how long its completion is held back; 0: not at all */
	int64_t delay_ns;
	int64_t defer_ns; /* how long its start is deferred; 0: not at all */
	bool is_short;    /* the request was cut */
	uint32_t record;  /* the number of its record in check.h; 0: none */
};

/* Called each time the engine starts, also in a child of fork(). */
void uaio_fault_init(void);

/*
 * Decide which faults a request has that is about to be issued, and count it. A short fault
 * reduces the length in sqe. record: the number of the request's record in check.h; 0: none.
 */
void uaio_fault_plan(struct uaio_file *file, struct uaio_sqe *sqe,
		     uint32_t record, struct uaio_fault_plan *ret);

/* Store the plan in req, the PREPPED request that was created for it. */
void uaio_fault_keep(struct uaio_req *req, const struct uaio_fault_plan *plan);

#endif /* UAIO_ISSUE_FAULT_H */
