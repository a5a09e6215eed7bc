/* SPDX-License-Identifier: MIT */
/*
 * The library's own descriptors of the program's files: duplicates on which calls are
 * made, and those that are not closed because of record locks
 */
#ifndef UAIO_FILE_DUPLICATE_H
#define UAIO_FILE_DUPLICATE_H

#include <stdbool.h>

struct uaio_file;
struct uaio_file_ops;

/* duplicate.c: the descriptor on which calls on an open file are made */

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

/* locks.c: descriptors that are kept, as the program has record locks on their files */

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

#endif /* UAIO_FILE_DUPLICATE_H */
