/* SPDX-License-Identifier: MIT */
#include "sockets.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conform.h"

void pair_of(int type, int fds[2])
{
	REQUIRE(socketpair(AF_UNIX, type, 0, fds) == 0);
}

void send_bytes(int fd, const void *data, size_t len)
{
	REQUIRE(send(fd, data, len, 0) == (ssize_t)len);
}

struct sockaddr_in loopback(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

int bound_inet(int type, struct sockaddr_in *address)
{
	socklen_t len = sizeof(*address);
	int fd = socket(AF_INET, type, 0);

	*address = loopback();
	REQUIRE(fd >= 0);
	REQUIRE(bind(fd, (void *)address, sizeof(*address)) == 0);
	REQUIRE(getsockname(fd, (void *)address, &len) == 0);
	return fd;
}

int listening(int flags, struct sockaddr_in *address)
{
	int fd = bound_inet(SOCK_STREAM | flags, address);

	REQUIRE(listen(fd, 16) == 0);
	return fd;
}

int call(const struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	REQUIRE(fd >= 0);
	REQUIRE(connect(fd, (const void *)address, sizeof(*address)) == 0);
	return fd;
}

void tcp_pair(int fds[2])
{
	struct sockaddr_in address;
	int fd = listening(0, &address);

	fds[0] = call(&address);
	fds[1] = accept(fd, NULL, NULL);
	REQUIRE(fds[1] >= 0);
	close(fd);
}
