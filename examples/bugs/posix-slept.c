/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() sleeps instead of waiting for a read, and then uses the buffer. Only
 * aio_error() says whether the read is complete.
 * To mend it: call aio_suspend() until aio_error() is not EINPROGRESS.
 * ThreadSanitizer in the program finds this bug (cc -fsanitize=thread).
 *
 * What `uaio check` reports (README.md explains these lines):
 * expect: nothing
 * with thread: race-in-flight
 */
#include <aio.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { BUFFER_BYTES = 4096, A_WHILE_US = 200000 };

int main(void)
{
	char *buffer = calloc(1, BUFFER_BYTES);
	struct aiocb control = { .aio_buf = buffer,
				 .aio_nbytes = BUFFER_BYTES };
	const struct aiocb *list[1] = { &control };
	int ends[2], first;

	if (!buffer || pipe(ends) || write(ends[1], "text", 4) != 4)
		return 1;
	control.aio_fildes = ends[0];
	if (aio_read(&control)) /* expect: submitted */
		return 1;
	usleep(A_WHILE_US);
	first = buffer[0]; /* the bug */
	while (aio_error(&control) == EINPROGRESS)
		aio_suspend(list, 1, NULL);
	return aio_return(&control) != 4 || (first && first != 't');
}
