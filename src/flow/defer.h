/* SPDX-License-Identifier: MIT */
/*
 * Deferred requests: their execution is delayed, so that a canceller can find them
 *
 * An injected fault (issue/fault.h) may defer an io_uring request. The request then waits
 * in the state TIMED. The request keeps its file open by a duplicate of the descriptor,
 * so the program may close its own descriptor. When the time is over, the request starts
 * like a held request of a chain (link.h).
 *
 *   I1  A deferred request has late.held == DEFERRED; late.held changes under the queue's
 *       lock. A canceller cancels a deferred request like any other TIMED request: the request
 *       ends without a system call.
 *   I2  Before a request on a stream is submitted, all deferred requests of the queue are
 *       started. So the requests on a stream keep their order.
 *
 * Thread-safety: any thread; the caller owns the request.
 *
 * Tested by test-uring-defer.c.
 */
#ifndef UAIO_FLOW_DEFER_H
#define UAIO_FLOW_DEFER_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_queue;
struct uaio_req;

/* Called each time the engine starts. */
void uaio_defer_init(void);

/*
 * req is PREPPED (about to be started): prepare it to wait for ns nanoseconds first. The
 * caller has called uaio_ready_pin(), so that the queue is not freed, and parks req next.
 * Return: false if req cannot be deferred.
 */
bool uaio_defer(struct uaio_req *req, int64_t ns);

/* req is no longer deferred, because it starts or was cancelled. */
void uaio_defer_is_over(struct uaio_req *req);

/* Start a deferred request, now RUNNING, that has waited long enough. */
void uaio_defer_start(struct uaio_req *req);

/* Start all deferred requests of a queue, oldest first. */
void uaio_defer_start_all(struct uaio_queue *queue);

#endif /* UAIO_FLOW_DEFER_H */
