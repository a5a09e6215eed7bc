/* SPDX-License-Identifier: MIT */
/*
 * Sockets for rows, with and without somebody at the other end
 */
#ifndef CONFORM_SOCKETS_H
#define CONFORM_SOCKETS_H

#include <netinet/in.h>
#include <stddef.h>

/* Two that are connected with each other: of AF_UNIX, or by TCP. */
void pair_of(int type, int fds[2]);
void tcp_pair(int fds[2]);

/* Sends len of the bytes at data, all of them at once. */
void send_bytes(int fd, const void *data, size_t len);

/* An address of the loopback device, of no port. */
struct sockaddr_in loopback(void);
/* A socket bound to a port of the loopback device, which is noted in address. */
int bound_inet(int type, struct sockaddr_in *address);
/* One that listens there; flags: as of socket(2). */
int listening(int flags, struct sockaddr_in *address);
/* One that is connected to such an address. */
int call(const struct sockaddr_in *address);

#endif
