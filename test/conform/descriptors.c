/* SPDX-License-Identifier: MIT */
#include "descriptors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conform.h"
#include "sockets.h"
#include "streams.h"

int open_directory(void)
{
	return open(".", O_RDONLY | O_DIRECTORY);
}

int open_null(void)
{
	return open("/dev/null", O_RDWR);
}

int open_zero(void)
{
	return open("/dev/zero", O_RDWR);
}

int open_memfd_of(size_t bytes)
{
	int fd = memfd_create("conform", 0);

	REQUIRE(ftruncate(fd, (off_t)bytes) == 0);
	return fd;
}

int open_pipe_writer(void)
{
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	return fds[1];
}

int open_pipe_reader_of(const void *buf, size_t bytes)
{
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	REQUIRE(write(fds[1], buf, bytes) == (ssize_t)bytes);
	return fds[0];
}

int open_pipe_empty(void)
{
	int fds[2];

	REQUIRE(pipe2(fds, O_NONBLOCK) == 0);
	return fds[0];
}

int open_pipe_full(void)
{
	int fds[2];

	REQUIRE(pipe2(fds, O_NONBLOCK) == 0);
	fill_stream(fds[1], 65536);
	return fds[1];
}

int open_socket_with(int type, const void *buf, size_t bytes)
{
	int fds[2];

	pair_of(type, fds);
	REQUIRE(write(fds[1], buf, bytes) == (ssize_t)bytes);
	return fds[0];
}
