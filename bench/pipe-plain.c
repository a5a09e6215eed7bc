/* SPDX-License-Identifier: MIT */
/* The implementation (side) of pipe.c that uses read() and write(), which block. */
#include <errno.h>
#include <unistd.h>

#include "pipe.h"

static void begin(const struct pipe_side *side, unsigned nr_requests)
{
	(void)side;
	(void)nr_requests;
}

static void submit(const struct pipe_request *requests, unsigned nr)
{
	(void)requests;
	(void)nr;
}

static void make(const struct pipe_request *request)
{
	ssize_t ret = request->is_write
			      ? write(request->fd, request->buf, request->len)
			      : read(request->fd, request->buf, request->len);

	if (ret != (ssize_t)request->len)
		pipe_fail(request->is_write ? "write" : "read",
			  ret < 0 ? -errno : -EPROTO);
}

static void wait(const struct pipe_request *requests, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		make(&requests[i]);
}

static void end(void)
{
}

const struct pipe_side pipe_plain = {
	.variant = "plain",
	.blocks = true,
	.begin = begin,
	.submit = submit,
	.wait = wait,
	.end = end,
};
