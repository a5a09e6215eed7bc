/* SPDX-License-Identifier: MIT */
/*
 * Deferred requests: they are not executed yet, for a canceller to find
 *
 * A fault on purpose (issue/fault.h) may defer a request of io_uring. It is TIMED then, and
 * has its file, on a descriptor of its own, so that the program may close the file. When
 * its time is over, it starts as a request of a chain does (link.h), and is executed.
 *
 *   I1  A deferred request has late.held DEFERRED, under its group's lock. A canceller
 *       takes it, as any other that is TIMED, and it ends without a call.
 *   I2  No request of a stream is submitted to the same queue while one is deferred: all
 *       of the queue start before. So the order of a stream's requests holds.
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
 * Have req, PREPPED, wait for so long. The caller has pinned its group, and parks it next.
 * Return: false if it cannot be deferred.
 */
bool uaio_defer(struct uaio_req *req, int64_t ns);

/* req is deferred no longer: it starts, or was cancelled. */
void uaio_defer_is_over(struct uaio_req *req);

/* A deferred request, RUNNING, has waited long enough: start it. */
void uaio_defer_start(struct uaio_req *req);

/* Start all deferred requests of a queue, oldest first. */
void uaio_defer_start_all(struct uaio_queue *queue);

#endif /* UAIO_FLOW_DEFER_H */
