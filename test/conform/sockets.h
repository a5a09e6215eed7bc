/* SPDX-License-Identifier: MIT */
/* Sockets for test cases, connected and not */
#ifndef CONFORM_SOCKETS_H
#define CONFORM_SOCKETS_H

#include <netinet/in.h>
#include <stddef.h>

/* Connect two sockets with each other, of AF_UNIX or by TCP. */
void pair_of(int type, int fds[2]);
void tcp_pair(int fds[2]);

/* Sends len bytes of data in one call, which must send all. */
void send_bytes(int fd, const void *data, size_t len);

/* Return: an address of the loopback device, with port 0. */
struct sockaddr_in loopback(void);
/* Return: a socket bound to a port of the loopback device, with its address. */
int bound_inet(int type, struct sockaddr_in *address);
/* Return: a listening socket, made with socket(2)'s flags, and its address. */
int listening(int flags, struct sockaddr_in *address);
/* Return: a socket that is connected to a listening socket's address. */
int call(const struct sockaddr_in *address);

#endif
