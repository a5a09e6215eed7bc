/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() frees the buffer of an aio_read() for which aio_error() still
 * returns EINPROGRESS.
 * To mend it: free the buffer after aio_error() has returned something else.
 *
 * What `uaio check` reports (README.md explains these lines):
 * expect: freed-in-flight
 * alone: valgrind
 */
#include <aio.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { BUFFER_BYTES = 4096 };

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
	char *buffer = malloc(BUFFER_BYTES);
	int ends[2];

	if (!buffer || pipe(ends))
		return 1;
	request.aio_fildes = ends[0];
	request.aio_buf = buffer + 64;
	request.aio_nbytes = BUFFER_BYTES - 64;
	if (aio_read(&request)) /* expect: submitted */
		return 1;
	free(buffer); /* expect: now */
	if (write(ends[1], "late", 4) != 4)
		return 1;
	return await(&request) < 0;
}
