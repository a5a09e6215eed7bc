/* SPDX-License-Identifier: MIT */
/*
 * Executes a request whole: by one system call or, if the kernel refuses it, through a
 * copy (bounce.h)
 *
 * Other files execute the other requests: large direct requests are cut into segments
 * (split.h), and requests on streams are tried without blocking where possible
 * (uaio_req_try()).
 *
 * Tested by test-policy.c, test-bounce.c and all other tests whose requests wait.
 */
#ifndef UAIO_SPLIT_WHOLE_H
#define UAIO_SPLIT_WHOLE_H

#include <stdint.h>

struct uaio_req;
struct uaio_worker;

/*
 * Execute a RUNNING request in the calling thread. Blocks as long as the system call
 * takes.
 * Return: the request's result.
 */
int64_t uaio_req_execute(struct uaio_req *req);

/*
 * Like uaio_req_execute(), on a worker. Marks the request as executed by one call, so
 * that a thread which closes the file need not wait for the end of the call
 * (closing.h).
 */
int64_t uaio_req_execute_by(struct uaio_req *req, struct uaio_worker *worker);

#endif /* UAIO_SPLIT_WHOLE_H */
