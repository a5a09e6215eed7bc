/* SPDX-License-Identifier: MIT */
/*
 * Late completions: requests that were executed, and whose completion is held back
 *
 * A fault on purpose (issue/fault.h) may have a completion come later than the
 * request is executed; and where memory is checked (check/check.h), it does not come before
 * the call that submitted it is over. No thread waits for that: when the request would end, it lets
 * go of all that its execution needed (its file, its copy of arguments, its place in
 * the order of its inode), and becomes a timer (timer.h), with its result in
 * done_bytes. When that is due the request ends like any other.
 *
 *   I1  A late request has no file and no order. The group counts it as pending: a
 *       drain, the requests linked to it and the closing of its queue wait for it.
 *   I2  It cannot be cancelled, as its call is over, unless its queue is closed: then
 *       it ends at once. Whoever ends it, its result is that of the call.
 *   I3  A thread that leaves the process does not wait for late completions, and
 *       holds none back.
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
 * req, RUNNING and with a fault, would end with *res. If it is late already, or cannot
 * be held back, the caller ends it; *res is its result then.
 * Return: whether it is held back.
 */
bool uaio_late_hold(struct uaio_req *req, int64_t *res,
		    struct uaio_worker *worker, struct list *ret_startable);

#endif /* UAIO_FLOW_LATE_H */
