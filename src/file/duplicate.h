/* SPDX-License-Identifier: MIT */
/*
 * The library's own descriptors of the program's files
 *
 * The library owns duplicates of descriptors, on which it makes system calls
 * (duplicate.c). The library also keeps descriptors open so that the program loses no
 * record lock (locks.c).
 */
#ifndef UAIO_FILE_DUPLICATE_H
#define UAIO_FILE_DUPLICATE_H

#include <stdbool.h>

struct uaio_file;
struct uaio_file_ops;

/* duplicate.c: the descriptor on which the library makes system calls for an open file */

/* Called when the library starts: no file has a duplicate. */
void uaio_file_duplicates_init(const struct uaio_file_ops *ops);

/*
 * Add `file`, which now owns a descriptor, to a list. uaio_file_yield() searches this
 * list for the owner of a descriptor that the program wants to use.
 */
void uaio_file_note_private(struct uaio_file *file);

/*
 * The program closes the descriptor, and the library could not make a duplicate. From now
 * on the file's requests fail with -EBADF.
 */
void uaio_file_lose_fd(struct uaio_file *file);

/*
 * The program has closed the descriptor, which may refer to another file by now. So the
 * library does not use the descriptor any more, not even to remove it from an epoll.
 */
void uaio_file_forget_fd(struct uaio_file *file);

/* The file's entry is about to be freed: close the descriptors that the entry owns. */
void uaio_file_close_fds(struct uaio_file *file);

/*
 * locks.c: descriptors that the library keeps open because the program has record locks on
 * their files
 */

enum { UAIO_KEPT_MAX = 64 };

/* Called each time the engine starts: forget all kept descriptors. */
void uaio_kept_init(void);

/*
 * Return: whether any process, this one included, has record locks on the file of fd. On a
 * network file system this call may wait for the server.
 */
bool uaio_fd_is_locked(int fd);

/*
 * The library no longer needs its descriptor fd. Keep fd if closing it could drop a
 * record lock of the program.
 * Return: whether fd is kept; if false, the caller must close it.
 */
bool uaio_kept_keep(int fd);

/*
 * Return: a kept descriptor of the same open file as fd, now owned by the caller; -1 if none is
 * kept.
 */
int uaio_kept_take(int fd);

/*
 * Forget the kept descriptor fd: the program is about to open another file as fd.
 * Return: whether fd was kept.
 */
bool uaio_kept_forget(int fd);

/* Return: whether any descriptor is kept. The check costs one load. */
bool uaio_kept_any(void);

/*
 * Close each kept descriptor on whose file the program has no record lock any more.
 * Context: a call of the program into the library (ownfd.h, I1).
 */
void uaio_kept_close(void);

#endif /* UAIO_FILE_DUPLICATE_H */
