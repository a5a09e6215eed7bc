/* SPDX-License-Identifier: MIT */
/* Creating the kinds of files that can be not ready. */
#ifndef STREAM_KINDS_H
#define STREAM_KINDS_H

#include "stream.h"

void take_ends(int reader, int writer, bool is_writer, struct ends *ret_ends);
/* One that is its own other end. */
void open_alone(int fd, struct ends *ret_ends);
/* Own is the master, or the other side. */
void open_pty(bool is_master, struct ends *ret_ends);
/* The buffers of a socket are small, and of one size. */
void limit_buffers(int fd);

#endif
