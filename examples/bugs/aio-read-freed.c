/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() frees the buffer between io_submit() and io_getevents().
 * To mend it: free the buffer after io_getevents() has returned the request's event.
 * On the kernel, io_submit() itself waits for the socket, at most for the socket's
 * timeout, so no request is in flight. On uaio, io_submit() returns at once, and the
 * request is in flight.
 *
 * expect: freed-in-flight
 */
#include <libaio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { BUFFER_BYTES = 4096 };

static const struct timeval limit = { .tv_usec = 500 * 1000 };

int main(void)
{
	char *buffer = malloc(BUFFER_BYTES);
	struct iocb request, *requests = &request;
	io_context_t context = NULL;
	struct io_event event;
	int ends[2];

	if (!buffer || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit,
		       sizeof(limit)) ||
	    io_setup(4, &context))
		return 1;
	io_prep_pread(&request, ends[0], buffer + 64, BUFFER_BYTES - 64, 0);
	if (io_submit(context, 1, &requests) != 1) /* expect: submitted */
		return 1;
	free(buffer); /* expect: now */
	if (send(ends[1], "late", 4, 0) != 4 ||
	    io_getevents(context, 1, 1, &event, NULL) != 1)
		return 1;
	return io_destroy(context) != 0;
}
