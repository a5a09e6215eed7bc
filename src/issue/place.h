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

struct uaio_req;

/*
 * Decide where req, which is PREPPED, goes on. next: what its try has said, and is not
 * DONE; if it parks, the request is expected (ready.h). end: as of uaio_order_of().
 * Return: the decision, which req keeps for its starter. WAIT_ORDER: it waits already,
 * and is not the caller's any more.
 */
enum uaio_next uaio_place(struct uaio_req *req, enum uaio_next next,
			  uint64_t end);

#endif /* UAIO_ISSUE_PLACE_H */
