/* SPDX-License-Identifier: MIT */
/*
 * Descriptors of each kind that rows make requests on
 */
#ifndef CONFORM_DESCRIPTORS_H
#define CONFORM_DESCRIPTORS_H

#include <stddef.h>

int open_directory(void);
int open_null(void);
int open_zero(void);
/* A memfd of so many zeroes. */
int open_memfd_of(size_t bytes);

/* One end of a pipe. Its other end stays open, and nobody uses it. */
int open_pipe_writer(void);
int open_pipe_reader_of(const void *buf, size_t bytes); /* which are in it */
/* The same, with O_NONBLOCK. */
int open_pipe_empty(void);
int open_pipe_full(void);

/* A socket of AF_UNIX that is connected, and has these bytes to receive. */
int open_socket_with(int type, const void *buf, size_t bytes);

#endif /* CONFORM_DESCRIPTORS_H */
