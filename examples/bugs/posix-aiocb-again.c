/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() submits an aiocb again while its first read is in flight, so that
 * the results of both reads overwrite each other in the aiocb.
 * To mend it: use one aiocb for each request in flight; or wait until aio_error() is
 * not EINPROGRESS and call aio_return(), before submitting the aiocb again.
 *
 * expect: aiocb-in-flight
 */
#include <aio.h>
#include <errno.h>
#include <unistd.h>

static char first[64], second[64];
static struct aiocb request;

static ssize_t await(struct aiocb *aiocb)
{
	const struct aiocb *list[] = { aiocb };

	while (aio_error(aiocb) == EINPROGRESS)
		aio_suspend(list, 1, NULL);
	return aio_return(aiocb);
}

int main(void)
{
	int ends[2];

	if (pipe(ends))
		return 1;
	request.aio_fildes = ends[0];
	request.aio_buf = first;
	request.aio_nbytes = 1;
	if (aio_read(&request)) /* expect: other */
		return 1;
	request.aio_buf = second;
	aio_read(&request); /* expect: now */
	if (write(ends[1], "ab", 2) != 2)
		return 1;
	return await(&request) < 0;
}
