/* SPDX-License-Identifier: MIT */
/* What library.c and those beside it share. */
#ifndef TEST_URING_LIBRARY_H
#define TEST_URING_LIBRARY_H

#include <liburing.h>

enum { BYTES = 4096 };

/* Print a result, or the name of an error. */
void say(const char *what, long result);

/* Prepare nr no-ops with user_data 0, 1, ... */
void prepare_nops(struct io_uring *ring, unsigned nr);

/* Ends the program if the ring cannot be had. */
void set_up(struct io_uring *ring, unsigned nr, unsigned flags);

/* Read 8 bytes into the first registered buffer, and print what came of it. */
void read_at(struct io_uring *ring, int fd, int flags, void *buf);

/* Return: the function of that name, whoever has it; ends the program if none. */
void *find(const char *name);

void use_newer(void);

/* library-sent.c; the second in the program that the first executes */
void send_rings(const char *program);
void use_ring_of_stranger(void);

/* library-limited.c */
void use_limited(void);

#endif /* TEST_URING_LIBRARY_H */
