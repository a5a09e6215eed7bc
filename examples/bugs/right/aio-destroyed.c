/* SPDX-License-Identifier: MIT */
/*
 * No bug: main() frees the buffers after io_destroy(), which waits for the requests in
 * flight.
 *
 * expect: nothing
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
	int ends[2];

	if (!buffer || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit,
		       sizeof(limit)) ||
	    io_setup(4, &context))
		return 1;
	io_prep_pread(&request, ends[0], buffer, BUFFER_BYTES, 0);
	if (io_submit(context, 1, &requests) != 1)
		return 1;
	shutdown(ends[1], SHUT_WR);
	if (io_destroy(context))
		return 1;
	free(buffer);
	return 0;
}
