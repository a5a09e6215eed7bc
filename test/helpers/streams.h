/* SPDX-License-Identifier: MIT */
/* Pipes, sockets and other streams: full, and empty */
#ifndef TEST_HELPERS_STREAMS_H
#define TEST_HELPERS_STREAMS_H

#include <stddef.h>

/* Write zeroes, so many bytes a call, until a call would wait. */
void fill_stream(int fd, size_t bytes);
/* Read until a call would wait. */
void drain_stream(int fd);

#endif /* TEST_HELPERS_STREAMS_H */
