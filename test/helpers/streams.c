/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "streams.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

static char memory[65536];

static bool is_socket(int fd)
{
	int type;

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type,
			   &(socklen_t){ sizeof(type) });
}

/*
 * Set O_NONBLOCK. The flag belongs to the open file description, so it affects other
 * descriptors as well.
 * Return: the old flags.
 */
static int make_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	assert(flags >= 0);
	if (!(flags & O_NONBLOCK))
		assert(fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
	return flags;
}

static void restore(int fd, int flags)
{
	if (!(flags & O_NONBLOCK))
		assert(fcntl(fd, F_SETFL, flags) == 0);
}

void fill_stream(int fd, size_t bytes)
{
	int flags;

	assert(bytes <= sizeof(memory));
	if (is_socket(fd)) {
		while (send(fd, memory, bytes, MSG_DONTWAIT) > 0)
			;
		return;
	}
	flags = make_nonblocking(fd);
	while (write(fd, memory, bytes) > 0)
		;
	restore(fd, flags);
}

void drain_stream(int fd)
{
	static char bytes[sizeof(memory)];
	int flags;

	if (is_socket(fd)) {
		while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			;
		return;
	}
	flags = make_nonblocking(fd);
	while (read(fd, bytes, sizeof(bytes)) > 0)
		;
	restore(fd, flags);
}
