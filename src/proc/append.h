/* SPDX-License-Identifier: MIT */
/*
 * Appending the library's text to a file
 *
 * Context: any thread that has entered the library (entry.h); no lock of rank OWNFD or
 * higher is held.
 */
#ifndef UAIO_PROC_APPEND_H
#define UAIO_PROC_APPEND_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Append text by one write(2), so that the texts of several threads and processes never
 * mix. If the file is missing, it is created with access for this user only.
 * Return: 0; -EFBIG if the file would exceed RLIMIT_FSIZE; or the error of open(2) or
 * write(2).
 */
int uaio_append(const char *path, const char *text, size_t len);

/*
 * Return: whether len more bytes would make regular file fd exceed RLIMIT_FSIZE, so
 * that the write would raise SIGXFSZ.
 */
bool uaio_append_exceeds(int fd, size_t len);

#endif /* UAIO_PROC_APPEND_H */
