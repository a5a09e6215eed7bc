/* SPDX-License-Identifier: MIT */
/*
 * Deciding what a request has to wait for if its first try has not completed it
 *
 * A submission or a chain has tried the request. The result of the try alone does not
 * decide what happens next. The request may have to wait for older requests on its inode
 * first, and its descriptor may by now refer to another kind of file.
 *
 * Context: any thread that has entered the library (entry.h) and owns the request.
 *
 * Tested by src/wait/test-order.c and all other tests with requests that wait.
 */
#ifndef UAIO_ISSUE_PLACE_H
#define UAIO_ISSUE_PLACE_H

#include <stdint.h>

#include "op/op.h"
#include "req/call.h"

struct uaio_req;

/*
 * Decide what req has to wait for. req is PREPPED (not waiting yet), and its first try did
 * not complete it. next, outcome: what the try returned. If next says that req parks
 * (uaio_next_parks()), the caller has called uaio_ready_expect() (ready.h). If req does not
 * park after all, this function calls uaio_ready_unexpect(). Also stores in req how many
 * bytes the try transferred, and starts a linked timer.
 * Return: 0, with the decision in *ret_next and req->next. If the decision is
 * WAIT_ORDER, req already waits, and no longer belongs to the caller. -EBADF: one of
 * the two files of a splice is not open; -EMFILE: no descriptor is left for them;
 * -EAGAIN: memory is refused.
 * After an error, the caller completes req with this error.
 */
int uaio_place(struct uaio_req *req, enum uaio_next next,
	       const struct uaio_outcome *outcome, enum uaio_next *ret_next);

#endif /* UAIO_ISSUE_PLACE_H */
