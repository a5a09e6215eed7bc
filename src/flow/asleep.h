/* SPDX-License-Identifier: MIT */
/*
 * Requests whose call sleeps on a worker until it is told to end (op/sleeper.h)
 *
 *   I1  While a worker makes the call, the request is ASLEEP and TRIED, and the worker
 *       is its owner: a canceller leaves a mark and tells the call to end, and the
 *       worker tells the canceller what became of it (waits.h, I3).
 *   I2  A canceller that finds the request on a worker, but not asleep yet, marks it
 *       unwanted, and it never sleeps.
 *       A linked timeout that finds it so looks again (link.c).
 *   I3  None begins to sleep once its queue is being closed.
 *
 * Tested by uring/test-uring-futex.c.
 */
#ifndef UAIO_FLOW_ASLEEP_H
#define UAIO_FLOW_ASLEEP_H

#include <stdbool.h>

struct uaio_req;
struct uaio_sleeper;
struct uaio_worker;

/* Make the call of a RUNNING request, and complete it. Context: a worker. */
void uaio_asleep_run(struct uaio_req *req, struct uaio_worker *worker);

/*
 * The submission of a request with a sleeper is over: wait until its call waits, or
 * is over, so that a wake-up of the client's from now on is one of this call. Not if it
 * is not to be called yet; nor for a worker, where there can be no more of them.
 */
void uaio_asleep_settle(struct uaio_sleeper *sleeper);

void uaio_asleep_init(void);

#endif /* UAIO_FLOW_ASLEEP_H */
