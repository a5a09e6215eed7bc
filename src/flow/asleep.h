/* SPDX-License-Identifier: MIT */
/*
 * Requests that sleep in a worker's system call, for example a futex wait (op/sleeper.h)
 *
 * The call returns when the awaited event comes, or when a canceller ends the call.
 *
 *   I1  While a worker makes the call, the request is ASLEEP and TRIED, and the worker owns
 *       it. A canceller marks the request and ends the call. The worker then reports to the
 *       canceller whether the request was cancelled (waits.h, I3).
 *   I2  A worker may have dequeued the request, but not yet begun its call. A canceller
 *       then marks the request unwanted, and the worker does not make the call. If the
 *       request's linked timer expires at that moment, the timer expires again a moment
 *       later (link.c). By then the call sleeps, and the timer can end it.
 *   I3  No request begins to sleep once its queue is being closed.
 *
 * Tested by uring/test-uring-futex.c.
 */
#ifndef UAIO_FLOW_ASLEEP_H
#define UAIO_FLOW_ASLEEP_H

#include <stdbool.h>

struct uaio_req;
struct uaio_sleeper;
struct uaio_worker;

/* Make the call of a RUNNING request, and complete the request. Context: a worker. */
void uaio_asleep_run(struct uaio_req *req, struct uaio_worker *worker);

/*
 * Wait until the system call of the sleeper's request sleeps or has returned. The
 * submitting thread calls this at the end of the submission. So if the client then wakes
 * the futex, for example, the wake-up reaches the call. Returns at once if the request is
 * HELD, as a worker makes the call later. Does not wait for a worker if no more workers
 * can be created.
 */
void uaio_asleep_settle(struct uaio_sleeper *sleeper);

void uaio_asleep_init(void);

#endif /* UAIO_FLOW_ASLEEP_H */
