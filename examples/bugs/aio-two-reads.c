/* SPDX-License-Identifier: MIT */
/*
 * The bug: one io_submit() starts two reads into the same buffer.
 * To mend it: give each request in flight a buffer of its own.
 * On the kernel, io_submit() itself waits for the socket, at most for the socket's
 * timeout, so no request is in flight. On uaio, io_submit() returns at once, and the
 * request is in flight.
 *
 * expect: overlap-in-flight
 */
#include <libaio.h>
#include <sys/socket.h>
#include <sys/time.h>

static const struct timeval limit = { .tv_usec = 250 * 1000 };

static char buffer[4096];

int main(void)
{
	struct iocb first, second, *requests[2] = { &first, &second };
	io_context_t context = NULL;
	struct io_event events[2];
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit,
		       sizeof(limit)) ||
	    io_setup(4, &context))
		return 1;
	io_prep_pread(&first, ends[0], buffer, sizeof(buffer), 0);
	io_prep_pread(&second, ends[0], buffer, sizeof(buffer), 0);
	if (io_submit(context, 2, requests) != 2) /* expect: submitted */
		return 1;
	shutdown(ends[1], SHUT_WR); /* ends both */
	if (io_getevents(context, 2, 2, events, NULL) != 2)
		return 1;
	return io_destroy(context) != 0;
}
