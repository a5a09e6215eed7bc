/* SPDX-License-Identifier: MIT */
/*
 * Text that the library appends to a file
 *
 * Thread-safety: any thread that has entered (entry.h), without locks from rank OWNFD up.
 */
#ifndef UAIO_PROC_APPEND_H
#define UAIO_PROC_APPEND_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Append text to the file by one write, so that texts of several threads and processes
 * never mix. The file is created if it is not there, for this user alone.
 * Return: 0 or -errno.
 */
int uaio_append(const char *path, const char *text, size_t len);

/*
 * Return: whether the regular file fd would exceed RLIMIT_FSIZE with len bytes more, so
 * that the write would raise SIGXFSZ.
 */
bool uaio_append_exceeds(int fd, size_t len);

#endif /* UAIO_PROC_APPEND_H */
