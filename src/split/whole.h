/* SPDX-License-Identifier: MIT */
/*
 * Executing a request whole: by one system call, or through a copy where the
 * kernel refuses that call (bounce.h)
 *
 * Large O_DIRECT requests are executed in segments instead (split.h), and
 * requests on streams are tried, as far as is possible without blocking
 * (uaio_req_try()).
 *
 * Tested by test-policy.c, test-bounce.c and all other tests with requests that
 * wait.
 */
#ifndef UAIO_SPLIT_WHOLE_H
#define UAIO_SPLIT_WHOLE_H

#include <stdint.h>

struct uaio_req;
struct uaio_worker;

/*
 * Execute a RUNNING request in the calling thread. Blocks as long as it takes.
 * Return: its result.
 */
int64_t uaio_req_execute(struct uaio_req *req);

/*
 * The same by a worker, which notes the call, so that a thread that closes the
 * file need not wait for its end (closing.h).
 */
int64_t uaio_req_execute_by(struct uaio_req *req, struct uaio_worker *worker);

#endif /* UAIO_SPLIT_WHOLE_H */
