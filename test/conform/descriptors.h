/* SPDX-License-Identifier: MIT */
/* Functions that open the kinds of files on which test cases make requests */
#ifndef CONFORM_DESCRIPTORS_H
#define CONFORM_DESCRIPTORS_H

#include <stddef.h>

int open_directory(void);
int open_null(void);
int open_zero(void);
/* Opens a memfd with `bytes` zero bytes. */
int open_memfd_of(size_t bytes);

/* Opens the write end of a pipe. The read end stays open and unused. */
int open_pipe_writer(void);
/* Opens the read end of a pipe that holds these bytes. */
int open_pipe_reader_of(const void *buf, size_t bytes);
/* Open one end of a pipe with O_NONBLOCK. The other end stays open and unused. */
int open_pipe_empty(void);
int open_pipe_full(void);

/* Opens a connected AF_UNIX socket from which these bytes can be received. */
int open_socket_with(int type, const void *buf, size_t bytes);

#endif /* CONFORM_DESCRIPTORS_H */
