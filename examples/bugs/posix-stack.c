/* SPDX-License-Identifier: MIT */
/*
 * The bug: start_read() submits a read by a local aiocb, and returns while the read is
 * in flight.
 * To mend it: keep the aiocb and the buffer in memory that is valid until
 * aio_return().
 *
 * What `uaio check` reports (README.md explains these lines):
 * expect: stack-in-flight
 * alone: valgrind
 */
#include <aio.h>
#include <string.h>
#include <unistd.h>

static char buffer[4096];
static struct aiocb next;

static int start_read(int fd)
{
	struct {
		struct aiocb request;
		char room[64 << 10];
	} frame;

	/*
	 * The aiocb is at the lowest addresses of the stack frame. No later call uses
	 * the stack so deeply, so this example does not crash.
	 */
	memset(&frame.request, 0, sizeof(frame.request));
	frame.request.aio_fildes = fd;
	frame.request.aio_buf = buffer;
	frame.request.aio_nbytes = sizeof(buffer);
	return aio_read(&frame.request); /* expect: submitted */
}

int main(void)
{
	int ends[2];

	if (pipe(ends) || start_read(ends[0]))
		return 1;
	next.aio_fildes = ends[1];
	next.aio_buf = "late";
	next.aio_nbytes = 4;
	if (aio_write(&next)) /* expect: now */
		return 1;
	while (aio_error(&next))
		;
	return aio_return(&next) != 4;
}
