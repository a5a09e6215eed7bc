/* SPDX-License-Identifier: MIT */
/* Functions that create sockets for test cases */
#ifndef CONFORM_SOCKETS_H
#define CONFORM_SOCKETS_H

#include <netinet/in.h>
#include <stddef.h>

/*
 * Create two sockets that are connected with each other: pair_of() by AF_UNIX,
 * tcp_pair() by TCP.
 */
void pair_of(int type, int fds[2]);
void tcp_pair(int fds[2]);

/* Sends len bytes of data in one call, which must send all. */
void send_bytes(int fd, const void *data, size_t len);

/* Return: an address of the loopback device, with port 0. */
struct sockaddr_in loopback(void);
/*
 * Return: a socket that is bound to a free port of the loopback device. Stores its
 * address in *address.
 */
int bound_inet(int type, struct sockaddr_in *address);
/*
 * Return: a listening TCP socket. `flags` are those of socket(2). Stores its address in
 * *address.
 */
int listening(int flags, struct sockaddr_in *address);
/* Return: a socket that is connected to the listening socket at this address. */
int call(const struct sockaddr_in *address);

#endif
