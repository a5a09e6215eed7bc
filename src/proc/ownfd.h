/* SPDX-License-Identifier: MIT */
/*
 * The library's own descriptors
 *
 * Programs close descriptors that they never opened: all from 3 up, at start or before
 * they execute another program. The library notes its own descriptors here, so that the
 * interposed calls leave them open. If a file of the program got the number of one, the
 * library would write to that file.
 *
 *   I1  The kernel gives a new descriptor the lowest free number, and programs rely on
 *       that. So the library opens descriptors only during a call of the program. It
 *       moves each to a high number at once, by duplicating it, or closes it within the
 *       same call.
 *   I2  While a new descriptor has its low number, the interposed calls that close
 *       descriptors wait (uaio_ownfds_settle()). A thread may still close it, if it
 *       checked just before or makes its system calls inline, and then open another file
 *       there. So if the number now has a file of another type, the library treats that
 *       file as the program's: it neither keeps nor closes it.
 *   I3  The lock is held while a descriptor is opened, moved or closed, and never across
 *       a call that may block.
 *
 * Context: any thread; uaio_ownfd_has() and uaio_ownfd_find() are wait-free.
 */
#ifndef UAIO_PROC_OWNFD_H
#define UAIO_PROC_OWNFD_H

#include <stdbool.h>

/*
 * Called when the library starts and has no descriptors yet.
 * Return: 0 or -ENOMEM.
 */
int uaio_ownfd_init(void);

/*
 * Open an eventfd, with a high number if possible.
 * Return: the descriptor, or -errno.
 */
int uaio_ownfd_event(int flags);

/* Like uaio_ownfd_event(), for an epoll. */
int uaio_ownfd_epoll(void);

struct io_uring_params;

/* Like uaio_ownfd_event(), for a ring of the kernel's io_uring with nr entries. */
int uaio_ownfd_uring(unsigned nr, struct io_uring_params *params);

/* Like uaio_ownfd_event(), for a character device; flags of open(2). */
int uaio_ownfd_open(const char *path, int flags);
/* Like uaio_ownfd_event(), for a regular file. */
int uaio_ownfd_open_file(const char *path, int flags);
/*
 * Open a regular file that is closed within the same call of the program. It keeps its
 * low number, since a high one would make the kernel enlarge the descriptor table. With
 * O_CREAT only the user may open the file.
 */
int uaio_ownfd_open_briefly(const char *path, int flags);

/* Like uaio_ownfd_event(), for a duplicate of fd. */
int uaio_ownfd_dup(int fd);

/* Close a descriptor of the library. */
void uaio_ownfd_close(int fd);

/*
 * Close a duplicate of a descriptor of the program. No lock is held while the file is
 * closed, which may take long if the program has closed its descriptor, too.
 */
void uaio_ownfd_close_file(int fd);

/*
 * Like uaio_ownfd_close_file(), but do not wait for the file to be closed, unless no
 * thread can be created.
 * Context: like uaio_thread_start().
 */
void uaio_ownfd_close_slow(int fd);

/* From now on fd belongs to the program, which has replaced the file there. */
void uaio_ownfd_give_up(int fd);

/*
 * Wait until no new descriptor of the library has a low number without being noted.
 * Called by a thread that is about to close or replace a descriptor: afterwards, every
 * descriptor that is not noted belongs to the program.
 * Context: no lock is held.
 */
void uaio_ownfds_settle(void);

/*
 * Return: whether the library may open nr more descriptors for a purpose that it can do
 * without. All its descriptors may be an eighth of RLIMIT_NOFILE, or eight if that is
 * more.
 */
bool uaio_ownfds_have_room(unsigned nr);

/*
 * Return: whether the library has less than half of its share of descriptors, so that
 * even a mere optimisation may open one.
 */
bool uaio_ownfds_are_few(void);

/* Return: whether fd is a descriptor of the library. */
bool uaio_ownfd_has(int fd);

/*
 * Return: whether a descriptor in [first, last] is the library's; *ret_fd: the lowest
 * one.
 */
bool uaio_ownfd_find(unsigned first, unsigned last, unsigned *ret_fd);

/* Between these two calls no descriptor of the library is opened or closed. */
void uaio_ownfds_quiesce(void);
void uaio_ownfds_resume(void);

/*
 * Close the library's descriptors in this thread's table, a new copy of the library's
 * table.
 * Context: between quiesce and resume.
 */
void uaio_ownfds_close_copies(void);

/*
 * Called in a child of fork(): close the descriptors of the parent's library. If not
 * is_ours, the child has a copy of another table, in which these numbers are other files:
 * only forget them.
 */
void uaio_ownfd_drop(bool is_ours);

#endif /* UAIO_PROC_OWNFD_H */
