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
 *   I3  One thread at a time tries requests, the poller or a caller that passes
 *	 by; so they are tried in order.
 *   I4  Requests are tried only with calls that do not block. Files that
 *       know no such call are handed to a worker of their own.
 *
 * Thread-safety: any thread.
 */
#ifndef UAIO_ENGINE_READY_H
#define UAIO_ENGINE_READY_H

#include <stdbool.h>

struct uaio_file;
struct uaio_group;
struct uaio_req;

/* From nothing. */
void uaio_ready_init(void);

/*
 * A request is about to be parked: see to it that there is a poller, until it
 * is parked or comes to nothing.
 * Return: 0, or -EAGAIN if there can be none.
 */
int uaio_ready_expect(void);
void uaio_ready_unexpect(void);

/*
 * Park a PREPPED request that was expected.
 * Return: false if its context goes away: the request is the caller's still.
 */
bool uaio_ready_park(struct uaio_req *req);

/* The context of the group goes away: nothing of it is parked from now on. */
void uaio_ready_close_group(struct uaio_group *group);

/* Return: true if req was parked; it is RUNNING and the caller's now. */
bool uaio_ready_cancel(struct uaio_req *req);

/*
 * Between the two nothing is tried: what waits until its file is ready is
 * parked, or is not yet. Who tries already is waited for.
 */
void uaio_ready_hold(void);
void uaio_ready_release(void);

/*
 * The caller is about to wait for events of this context, or asks for those
 * that are there: see whether some of what is parked is ready already. Bounded,
 * and nothing if somebody is at it.
 */
void uaio_ready_try_group(struct uaio_group *group);

/* A file's descriptor was replaced: watch the new one. */
void uaio_ready_kick(void);

/*
 * The client wants the number of the descriptor that kicks are written to: move
 * to another. Return: false if it is another's, or the table is full.
 */
bool uaio_ready_yield(int fd);

#endif /* UAIO_ENGINE_READY_H */
