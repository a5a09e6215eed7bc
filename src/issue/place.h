/* SPDX-License-Identifier: MIT */
/*
 * Where a request goes that was tried and is not complete
 *
 * A submission or a chain has tried the request. The result of the try alone does not decide:
 * the request may have to wait for older ones of its inode first, and its descriptor may by
 * now refer to another kind of file.
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
 * Decide where req goes, which is PREPPED and has been tried. next: what the try returned,
 * not DONE; outcome: what it found out. If req parks, it is expected (ready.h). Also notes
 * the bytes done, and starts a linked timer.
 * Return: 0, with the decision in *ret_next and req->next. After WAIT_ORDER, req already
 * waits, and no longer belongs to the caller. -errno: req has to complete with that, as one
 * of its two files is gone.
 */
int uaio_place(struct uaio_req *req, enum uaio_next next,
	       const struct uaio_outcome *outcome, enum uaio_next *ret_next);

#endif /* UAIO_ISSUE_PLACE_H */
