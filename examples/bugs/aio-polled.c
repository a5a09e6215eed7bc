/* SPDX-License-Identifier: MIT */
/*
 * The bug: start_read() submits a read into a local array, and returns while the read
 * is in flight. main() looks for the event without waiting for it.
 * To mend it: keep the buffer in memory that is valid until io_getevents() has
 * returned the event.
 * On the kernel, io_submit() itself waits for the socket, at most for the socket's
 * timeout, so no request is in flight. On uaio, io_submit() returns at once, and the
 * request is in flight.
 *
 * expect: stack-in-flight
 */
#include <libaio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static const struct timeval limit = { .tv_usec = 500 * 1000 };

static int start_read(io_context_t context, struct iocb *request, int fd)
{
	char area[64 << 10];

	/*
	 * The read fills only the start of the array, at the lowest addresses of the
	 * stack frame. No later call uses the stack so deeply, so this example does not
	 * crash.
	 */
	io_prep_pread(request, fd, area, 64, 0);
	return io_submit(context, 1, &request); /* expect: submitted */
}

int main(void)
{
	static struct timespec at_once;
	struct iocb to_read;
	io_context_t context = NULL;
	struct io_event event;
	int ends[2], nr;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit,
		       sizeof(limit)) ||
	    io_setup(4, &context) ||
	    start_read(context, &to_read, ends[0]) != 1)
		return 1;
	nr = io_getevents(context, 0, 1, &event, &at_once); /* expect: now */
	if (nr < 0 || write(ends[1], "late", 4) != 4)
		return 1;
	while (nr == 0)
		nr = io_getevents(context, 1, 1, &event, &at_once);
	return nr != 1 || io_destroy(context) != 0;
}
