/* SPDX-License-Identifier: MIT */
/*
 * Readiness: requests that wait until their file is ready
 *
 * One thread, started with the first such request, watches all of them with
 * poll(). When a file is ready its requests are tried in order of submission
 * with RWF_NOWAIT; what is still not possible goes on waiting.
 *
 *   I1  Parked requests are on one list, in order of submission, under the
 *       lock; no request overtakes another of the same file and direction.
 *   I2  nr_parked of a file counts its requests that are parked or being
 *       tried, by direction, so that a submitter sees whom it must not
 *       overtake.
 *   I3  The poller tries requests only with calls that do not block. Files
 *       that know no such call are handed to a worker of their own.
 *
 * Thread-safety: any thread.
 */
#ifndef UAIO_ENGINE_READY_H
#define UAIO_ENGINE_READY_H

#include <stdbool.h>

struct uaio_file;
struct uaio_req;

/* From nothing. */
void uaio_ready_init(void);

/* Park a PREPPED request. Return: 0, or -EAGAIN if there can be no poller. */
int uaio_ready_park(struct uaio_req *req);

/* Return: true if req was parked; it is RUNNING and the caller's now. */
bool uaio_ready_cancel(struct uaio_req *req);

/* A file's descriptor was replaced: watch the new one. */
void uaio_ready_kick(void);

/* Return: the poller's own descriptor, not the client's to close; or -1. */
int uaio_ready_own_fd(void);

#endif /* UAIO_ENGINE_READY_H */
