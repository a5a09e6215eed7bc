/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() calls aio_return() twice for one read. The first call returns the
 * result and discards it.
 * To mend it: call aio_return() once, and keep its result in a variable.
 *
 * expect: aio-return-twice
 */
#include <aio.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static char buffer[64];
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

	if (pipe(ends) || write(ends[1], "text", 4) != 4)
		return 1;
	request.aio_fildes = ends[0];
	request.aio_buf = buffer;
	request.aio_nbytes = sizeof(buffer);
	if (aio_read(&request) || await(&request) < 0)
		return 1;
	printf("%zd bytes\n", aio_return(&request)); /* expect: now */
	return 0;
}
