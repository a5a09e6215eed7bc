/* SPDX-License-Identifier: MIT */
/*
 * Late completions: a request is executed, but its completion is posted later
 *
 * Two features hold completions back: a fault on purpose (issue/fault.h) may delay one, and
 * where memory is checked (check/check.h), a completion waits for the end of the call that
 * submitted its request. No thread sleeps for this. The request releases what its execution
 * needed (its file, its copy of arguments, its position in the order of its inode's requests),
 * and becomes a timer (timer.h) that keeps the result in done_bytes. When the timer expires,
 * the request completes like any other.
 *
 *   I1  A late request has no file, and no request of its inode waits for it. The group counts
 *       it as pending: a drain, the requests linked to it and the closing of its queue wait
 *       for it.
 *   I2  A late request cannot be cancelled, as its system call has returned. If its queue is
 *       closed, the late request completes at once, with the result of that call.
 *   I3  A thread in exit or exec does not wait for late completions, and posts its own
 *       completions without delay.
 *
 * Thread-safety: any thread; the caller owns the request.
 *
 * Tested by test-fault.c.
 */
#ifndef UAIO_FLOW_LATE_H
#define UAIO_FLOW_LATE_H

#include <stdbool.h>
#include <stdint.h>

struct list;
struct uaio_req;
struct uaio_worker;

/*
 * req, which is RUNNING and has a fault, is about to complete with *res.
 * Return: true if the completion is held back; false if it was held back already, or cannot
 * be: the caller then completes req with *res, which may have changed.
 */
bool uaio_late_hold(struct uaio_req *req, int64_t *res,
		    struct uaio_worker *worker, struct list *ret_startable);

#endif /* UAIO_FLOW_LATE_H */
