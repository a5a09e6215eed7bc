/* SPDX-License-Identifier: MIT */
/*
 * Record locks of the program (fcntl), and the library's descriptors
 *
 * When a process closes any descriptor of a file, the kernel drops all record locks that
 * the process has on that file. So the library neither opens a file once more that the
 * process has locked, nor closes a descriptor of its own for such a file: the descriptor
 * is kept until the locks are gone. They are gone when the program has unlocked the file,
 * or has closed a descriptor of the file, which every process with a lock has.
 *
 *   I1  A kept descriptor is in no entry. It is used again for the next duplicate of the
 *       same open file, so that a program which locks a file and registers it again and
 *       again has one descriptor kept.
 *   I2  UAIO_KEPT_MAX descriptors are kept. Another is closed, and the locks are lost.
 *
 * Window: a lock that another thread takes while the library is closing the descriptor is
 * lost.
 *
 * Thread-safety: any thread. Tested by test-locks.c.
 */
#ifndef UAIO_FILE_LOCKS_H
#define UAIO_FILE_LOCKS_H

#include <stdbool.h>

enum { UAIO_KEPT_MAX = 64 };

/* Called each time the engine starts: no descriptor is kept. */
void uaio_kept_init(void);

/*
 * Return: whether this process has record locks on the file of fd. If that cannot be found
 * out and another process has some: true. Of a file of a server, the server may be asked.
 */
bool uaio_fd_is_locked(int fd);

/*
 * fd, which is the library's own, is not needed any more.
 * Return: whether it is kept; false: the caller closes it.
 */
bool uaio_kept_keep(int fd);

/*
 * Return: a kept descriptor of the same open file as fd, which is the caller's from now on;
 * -1 if there is none.
 */
int uaio_kept_take(int fd);

/* The program gets fd. Return: whether that was kept, and is not any more. */
bool uaio_kept_forget(int fd);

/* Return: whether any descriptor is kept. It costs one load. */
bool uaio_kept_any(void);

/* Close what is kept and need not be. Context: a call of the host's (ownfd.h, I1). */
void uaio_kept_close(void);

#endif /* UAIO_FILE_LOCKS_H */
