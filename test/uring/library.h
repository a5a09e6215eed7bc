/* SPDX-License-Identifier: MIT */
/* Functions that library.c and the files library-*.c share */
#ifndef TEST_URING_LIBRARY_H
#define TEST_URING_LIBRARY_H

#include <liburing.h>

enum { BYTES = 4096 };

/* Print `what`, and the result or the name of the error. */
void say(const char *what, long result);

/* Prepare nr NOPs, with user_data 0, 1, ... */
void prepare_nops(struct io_uring *ring, unsigned nr);

/* Set up a ring. On failure end the program. */
void set_up(struct io_uring *ring, unsigned nr, unsigned flags);

/* Read 8 bytes to `buf` in the first registered buffer, and print the result. */
void read_at(struct io_uring *ring, int fd, int flags, void *buf);

/*
 * If no library has the function, end the program.
 * Return: the function with that name.
 */
void *find(const char *name);

void use_newer(void);

/*
 * library-sent.c: sends the descriptors of rings to processes. send_rings() executes a
 * program that calls use_ring_of_stranger().
 */
void send_rings(const char *program);
void use_ring_of_stranger(void);

/* library-limited.c: uses rings of the kernel and of the library in one process */
void use_limited(void);

#endif /* TEST_URING_LIBRARY_H */
