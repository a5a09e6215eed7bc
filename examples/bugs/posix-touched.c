/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() clears a buffer while an aio_read() into it is in flight, and so may
 * clear data that was read.
 * To mend it: clear the buffer before aio_read().
 * AddressSanitizer in the program finds this bug (cc -fsanitize=address).
 *
 * What `uaio check` reports (README.md explains these lines):
 * expect: nothing
 * with address: touched-in-flight
 * with thread: race-in-flight
 */
#include <aio.h>
#include <errno.h>
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

	if (pipe(ends))
		return 1;
	request.aio_fildes = ends[0];
	request.aio_buf = buffer;
	request.aio_nbytes = sizeof(buffer);
	if (aio_read(&request)) /* expect: submitted */
		return 1;
	for (unsigned i = 0; i < sizeof(buffer); i++)
		buffer[i] = 0; /* the bug */
	if (write(ends[1], "late", 4) != 4)
		return 1;
	return await(&request) != 4;
}
