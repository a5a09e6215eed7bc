/* SPDX-License-Identifier: MIT */
/*
 * Execute a request whole: by one system call or, if the kernel refuses it, through a
 * copy (bounce.h)
 *
 * Large direct requests are executed in segments instead (split.h). Requests on streams are
 * instead tried without blocking where possible (uaio_req_try()).
 *
 * Tested by test-policy.c, test-bounce.c and all other tests whose requests wait.
 */
#ifndef UAIO_SPLIT_WHOLE_H
#define UAIO_SPLIT_WHOLE_H

#include <stdint.h>

struct uaio_req;
struct uaio_worker;

/*
 * Execute a RUNNING request in the calling thread. Blocks as long as the call takes.
 * Return: its result.
 */
int64_t uaio_req_execute(struct uaio_req *req);

/*
 * Like uaio_req_execute(), on a worker. The request is marked as executed by one call, so that
 * a thread which closes the file need not wait for the end of the call (closing.h).
 */
int64_t uaio_req_execute_by(struct uaio_req *req, struct uaio_worker *worker);

#endif /* UAIO_SPLIT_WHOLE_H */
