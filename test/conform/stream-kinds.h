/* SPDX-License-Identifier: MIT */
/* Functions that create the kinds of files on which a call can block. */
#ifndef STREAM_KINDS_H
#define STREAM_KINDS_H

#include "stream.h"

void take_ends(int reader, int writer, bool is_writer, struct ends *ret_ends);
/* Makes fd both ends of `ret_ends`: what is written to fd can be read from fd. */
void open_alone(int fd, struct ends *ret_ends);
/*
 * Opens a pseudoterminal. Test cases make requests on its master, or on its slave.
 */
void open_pty(bool is_master, struct ends *ret_ends);
/* Makes a socket's buffers small, and of equal size in each run. */
void limit_buffers(int fd);

#endif
