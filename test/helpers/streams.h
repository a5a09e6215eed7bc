/* SPDX-License-Identifier: MIT */
/*
 * Fill and empty pipes, sockets and other streams
 */
#ifndef TEST_HELPERS_STREAMS_H
#define TEST_HELPERS_STREAMS_H

#include <stddef.h>

/* Write zeros, `bytes` in each write(), until a write would block. */
void fill_stream(int fd, size_t bytes);
/* Read until a read would block. */
void drain_stream(int fd);

#endif /* TEST_HELPERS_STREAMS_H */
