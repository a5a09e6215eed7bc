/* SPDX-License-Identifier: MIT */
/* Shared by library.c and the files beside it. */
#ifndef TEST_URING_LIBRARY_H
#define TEST_URING_LIBRARY_H

#include <liburing.h>

enum { BYTES = 4096 };

/* Print a result, or the name of the error. */
void say(const char *what, long result);

/* Prepare nr no-ops with user_data 0, 1, ... */
void prepare_nops(struct io_uring *ring, unsigned nr);

/* Set up a ring; end the program on failure. */
void set_up(struct io_uring *ring, unsigned nr, unsigned flags);

/* Read 8 bytes into the first registered buffer, and print the result. */
void read_at(struct io_uring *ring, int fd, int flags, void *buf);

/*
 * Return: the function of that name, in whichever library; ends the program if there is
 * none.
 */
void *find(const char *name);

void use_newer(void);

/* library-sent.c; the second in the program that the first executes */
void send_rings(const char *program);
void use_ring_of_stranger(void);

/* library-limited.c */
void use_limited(void);

#endif /* TEST_URING_LIBRARY_H */
