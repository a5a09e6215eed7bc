/* SPDX-License-Identifier: MIT */
/*
 * The place of a request that goes on: in the order of its inode, and where it waits
 *
 * A submission and a chain have tried a request, and it is not complete. What the try
 * says does not decide alone: the request may have to wait behind others of its inode
 * first, and its descriptor may have become another kind of file meanwhile.
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
 * req is PREPPED, and has been tried: next is what that said, and is not DONE, outcome what
 * it found out. If it parks, it is expected (ready.h). Note what is done, let its linked
 * timer begin, and decide where it goes on; req keeps the decision for its starter.
 * Return: 0, with that decision; WAIT_ORDER: it waits already, and is not the caller's any
 * more. Or -errno, with which req is to end: one of its two files is gone.
 */
int uaio_place(struct uaio_req *req, enum uaio_next next,
	       const struct uaio_outcome *outcome, enum uaio_next *ret_next);

#endif /* UAIO_ISSUE_PLACE_H */
