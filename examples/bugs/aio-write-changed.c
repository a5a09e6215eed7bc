/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() writes new text into the buffer of a write before the write's event.
 * To mend it: change the buffer after io_getevents() has returned the write's event.
 * On the kernel, io_submit() itself waits for the socket, at most for the socket's
 * timeout, so no request is in flight. On uaio, io_submit() returns at once, and the
 * request is in flight.
 *
 * expect: changed-in-flight
 */
#include <libaio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

static const struct timeval limit = { .tv_usec = 500 * 1000 };

static char line[64] = "the first line\n", filler[4096];

int main(void)
{
	struct iocb request, *requests = &request;
	io_context_t context = NULL;
	struct io_event event;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &limit,
		       sizeof(limit)) ||
	    io_setup(4, &context))
		return 1;
	while (send(ends[0], filler, sizeof(filler), MSG_DONTWAIT) > 0)
		;
	io_prep_pwrite(&request, ends[0], line, strlen(line), 0);
	if (io_submit(context, 1, &requests) != 1) /* expect: submitted */
		return 1;
	strcpy(line, "the second line\n"); /* the bug */
	while (recv(ends[1], filler, sizeof(filler), MSG_DONTWAIT) > 0)
		;
	if (io_getevents(context, 1, 1, &event, NULL) != 1)
		return 1;
	return io_destroy(context) != 0;
}
