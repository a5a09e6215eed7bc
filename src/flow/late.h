/* SPDX-License-Identifier: MIT */
/*
 * Late completions: a request is executed, but its completion is posted later
 *
 * Two features hold completions back. An injected fault (issue/fault.h) may delay a
 * completion. And `uaio check` (check/check.h) holds a completion back until the
 * submitting call ends. So `uaio check` finds misused memory even if the transfer takes
 * little time. No thread sleeps for this. The request releases what its execution needed:
 * its file, its copy of arguments, its position in the order of its inode's requests. The
 * request becomes a timer (timer.h) that keeps the result in done_bytes. When the timer
 * expires, the request completes like any other.
 *
 *   I1  A late request has no file, and no request of its inode waits for it. The late
 *       request still counts as pending in its queue. So three things wait for it: a
 *       drain, the requests linked to it, and the closing of its queue.
 *   I2  A late request cannot be cancelled, as its system call has returned. If its
 *       queue is closed, the late request completes at once, with the result of that
 *       call.
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
 * req, which is RUNNING and has req->fault set, is about to complete with *res. Hold
 * the completion back, at most once, in two cases: an injected fault delays it, or
 * `uaio check` is on and the submitting call has not ended.
 * Return: true if the completion is now held back. If false, the caller completes req
 * with *res, which may have changed.
 */
bool uaio_late_hold(struct uaio_req *req, int64_t *res,
		    struct uaio_worker *worker, struct list *ret_startable);

#endif /* UAIO_FLOW_LATE_H */
