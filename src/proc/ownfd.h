/* SPDX-License-Identifier: MIT */
/*
 * The library's own descriptors
 *
 * Hosts close descriptors that they never opened: all from 3 up, when they
 * start or before they execute a program. The library's own are noted here, so
 * that the interposed calls can leave them open. For if the host got the number
 * of one of them for a file of its own, the library would write to that file.
 *
 *   I1  The kernel gives a new descriptor the lowest free number, and hosts
 *       count on that. So the library opens descriptors only within a call of
 *       the host's, and at once moves each to a high number, by duplicating it
 *       there, or closes it within the same call.
 *   I2  While a new descriptor still has its low number, the interposed calls
 *       that close wait (uaio_ownfds_settle()). A thread that has asked just
 *       before, or that makes its system calls inline, may close it all the
 *       same, and open another file there. So if the number is now a file of
 *       another type than was opened, that file is the host's, and is neither
 *       kept nor closed.
 *   I3  The lock is held while a descriptor is opened, moved or closed, and
 *       never across a call that may block.
 *
 * Thread-safety: any thread; the functions that only ask are wait-free.
 */
#ifndef UAIO_PROC_OWNFD_H
#define UAIO_PROC_OWNFD_H

#include <stdbool.h>

/*
 * Called when the library comes up: it has no descriptors yet.
 * Return: 0 or -ENOMEM.
 */
int uaio_ownfd_init(void);

/*
 * Open an eventfd, away from the low numbers if there is room.
 * Return: its descriptor, or -errno.
 */
int uaio_ownfd_event(int flags);

/* The same for an epoll. */
int uaio_ownfd_epoll(void);

struct io_uring_params;

/* The same for a ring of the kernel's io_uring, of nr requests. */
int uaio_ownfd_uring(unsigned nr, struct io_uring_params *params);

/* The same for path, which is a character device; flags as of open(). */
int uaio_ownfd_open(const char *path, int flags);
/* The same for a regular file. */
int uaio_ownfd_open_file(const char *path, int flags);
/*
 * Open a regular file that is closed again within the same call of the host's, so it
 * keeps its number: a high one would have the kernel enlarge the process's table. With
 * O_CREAT the file is one that only the user may open.
 */
int uaio_ownfd_open_briefly(const char *path, int flags);

/* The same for a duplicate of fd. */
int uaio_ownfd_dup(int fd);

/* Close one of the library's own descriptors. */
void uaio_ownfd_close(int fd);

/*
 * The same for a duplicate of one of the host's. No lock is held while its file is
 * closed, which may take a while if the host has closed it, too.
 */
void uaio_ownfd_close_file(int fd);

/*
 * The same if closing it may take long.
 * The caller does not wait for that unless no thread can be had.
 * Context: as of uaio_thread_start().
 */
void uaio_ownfd_close_slow(int fd);

/* From now on fd is the host's, which has put a file of its own there. */
void uaio_ownfd_give_up(int fd);

/*
 * For a moment a new descriptor has a low number and is not noted yet. A thread
 * that is about to close or replace a descriptor, and holds no lock of ours,
 * calls this to wait until there is none such: then what is there is the
 * host's.
 */
void uaio_ownfds_settle(void);

/*
 * For what the library could do without, it must not use up the host's
 * descriptors: all of its own may be an eighth of the limit, or a few if the
 * limit is small.
 * Return: whether nr more would be within that.
 */
bool uaio_ownfds_have_room(unsigned nr);

/*
 * Return: whether half of those are left, so that what only makes the library faster may
 * have one.
 */
bool uaio_ownfds_are_few(void);

/* Return: whether fd is the library's own. */
bool uaio_ownfd_has(int fd);

/*
 * Return: whether a descriptor in [first, last] is the library's own; *ret_fd:
 * the lowest of these.
 */
bool uaio_ownfd_find(unsigned first, unsigned last, unsigned *ret_fd);

/* Between these two calls none is opened or closed. */
void uaio_ownfds_quiesce(void);
void uaio_ownfds_resume(void);

/*
 * Close the library's descriptors in the table of this thread, which has just
 * got a copy of the library's. Context: between the two calls above.
 */
void uaio_ownfds_close_copies(void);

/*
 * Called in a child of fork(): close the descriptors of the parent's library.
 * If not is_ours, the child's table is a copy of another one, in which these
 * numbers are other files: then only forget them.
 */
void uaio_ownfd_drop(bool is_ours);

#endif /* UAIO_PROC_OWNFD_H */
