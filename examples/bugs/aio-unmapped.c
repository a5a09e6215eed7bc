/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() unmaps the buffer of a request between io_submit() and
 * io_getevents().
 * To mend it: call munmap() after io_getevents() has returned the request's event.
 * On the kernel, io_submit() itself waits for the socket, at most for the socket's
 * timeout, so no request is in flight. On uaio, io_submit() returns at once, and the
 * request is in flight.
 *
 * expect: unmapped-in-flight
 */
#include <libaio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { MAPPING_BYTES = 64 << 10 };

static const struct timeval limit = { .tv_usec = 500 * 1000 };

int main(void)
{
	char *mapping = mmap(NULL, MAPPING_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iocb request, *requests = &request;
	io_context_t context = NULL;
	struct io_event event;
	int ends[2];

	if (mapping == MAP_FAILED ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit,
		       sizeof(limit)) ||
	    io_setup(4, &context))
		return 1;
	io_prep_pread(&request, ends[0], mapping, MAPPING_BYTES, 0);
	if (io_submit(context, 1, &requests) != 1) /* expect: submitted */
		return 1;
	munmap(mapping, MAPPING_BYTES); /* expect: now */
	if (send(ends[1], "late", 4, 0) != 4 ||
	    io_getevents(context, 1, 1, &event, NULL) != 1)
		return 1;
	return io_destroy(context) != 0;
}
