/* SPDX-License-Identifier: MIT */
/*
 * The descriptor on which calls on an open file are made: what file.c needs of
 * duplicate.c besides file.h. At first it is the client's. If the client closes
 * it while requests wait, a duplicate of the library's takes its place, or none
 * does. A terminal has a second one, for calls that must not block
 * (terminal.h).
 *
 * Tested by src/ready/test-ready-file.c.
 */
#ifndef UAIO_FILE_DUPLICATE_H
#define UAIO_FILE_DUPLICATE_H

struct uaio_file;
struct uaio_file_ops;

/* Called when the library comes up: there are no duplicates. */
void uaio_file_duplicates_init(const struct uaio_file_ops *ops);

/* Note that the file owns a descriptor now. */
void uaio_file_note_private(struct uaio_file *file);

/*
 * The descriptor is closed, and no other takes its place: requests get -EBADF.
 */
void uaio_file_lose_fd(struct uaio_file *file);

/*
 * The descriptor was closed, and may be another file now. So nothing may be
 * done on it any more; it is not even taken out of an epoll.
 */
void uaio_file_forget_fd(struct uaio_file *file);

/* The entry is freed: close the descriptors that it owns. */
void uaio_file_close_fds(struct uaio_file *file);

#endif /* UAIO_FILE_DUPLICATE_H */
