/* SPDX-License-Identifier: MIT */
/*
 * Fill and empty pipes, sockets and other streams
 */
#ifndef TEST_HELPERS_STREAMS_H
#define TEST_HELPERS_STREAMS_H

#include <stddef.h>

/* Write zeros, `bytes` per call, until a call would block. */
void fill_stream(int fd, size_t bytes);
/* Read until a call would block. */
void drain_stream(int fd);

#endif /* TEST_HELPERS_STREAMS_H */
