/* SPDX-License-Identifier: MIT */
/*
 * Late completions: a request is executed, but its completion is posted later
 *
 * Two features hold completions back: a fault on purpose (issue/fault.h) may delay one, and
 * where memory is checked (check/check.h), a completion waits for the end of the call that
 * submitted its request. No thread waits meanwhile. The request releases all that its
 * execution needed (its file, its copy of arguments, its place in the order of its inode),
 * and becomes a timer (timer.h), with its result in done_bytes. When the timer expires, the
 * request completes like any other.
 *
 *   I1  A late request has no file and no order. The group counts it as pending: a drain, the
 *       requests linked to it and the closing of its queue wait for it.
 *   I2  A late request cannot be cancelled, as its call is over. If its queue is closed, it
 *       ends at once. Its result is that of its call in any case.
 *   I3  A thread that leaves the process does not wait for late completions, and holds none
 *       back.
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
 * Return: true: its completion is held back. false: req is late already, or cannot be held
 * back, and the caller completes it with *res, which may have changed.
 */
bool uaio_late_hold(struct uaio_req *req, int64_t *res,
		    struct uaio_worker *worker, struct list *ret_startable);

#endif /* UAIO_FLOW_LATE_H */
