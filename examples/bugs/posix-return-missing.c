/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() waits until aio_error() is not EINPROGRESS, but never calls
 * aio_return(). So it does not notice that a write was short or has failed.
 * To mend it: call aio_return() once for each completed request, and check its result.
 *
 * expect: aio-return-missing
 */
#include <aio.h>
#include <errno.h>
#include <unistd.h>

static struct aiocb request;

int main(void)
{
	const struct aiocb *requests[] = { &request };
	int ends[2];

	if (pipe(ends))
		return 1;
	request.aio_fildes = ends[1];
	request.aio_buf = "text";
	request.aio_nbytes = 4;
	for (int i = 0; i < 3; i++) {
		if (aio_write(&request)) /* expect: now */
			return 1;
		while (aio_error(&request) == EINPROGRESS)
			aio_suspend(requests, 1, NULL);
	}
	return aio_return(&request) != 4;
}
