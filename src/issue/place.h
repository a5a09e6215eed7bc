/* SPDX-License-Identifier: MIT */
/*
 * Deciding where a request goes if its first try has not completed it
 *
 * A submission or a chain has tried the request. The result of the try alone does not decide
 * where the request goes: it may have to wait for older requests on its inode first, and its
 * descriptor may by now refer to another kind of file.
 *
 * Context: any thread that has entered (entry.h), the owner of the request.
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
 * Decide where req goes, which is PREPPED and was tried without completing. next, outcome:
 * what the try returned. If req parks, it counts as expected (ready.h). Also stores in req how
 * many bytes the try transferred, and starts a linked timer.
 * Return: 0, with the decision in *ret_next and req->next. If the decision is WAIT_ORDER, req
 * already waits, and no longer belongs to the caller. -errno: req has to complete with this
 * error, as one of its two files (splice) is gone.
 */
int uaio_place(struct uaio_req *req, enum uaio_next next,
	       const struct uaio_outcome *outcome, enum uaio_next *ret_next);

#endif /* UAIO_ISSUE_PLACE_H */
