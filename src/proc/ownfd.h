/* SPDX-License-Identifier: MIT */
/*
 * The library's own descriptors
 *
 * Programs close descriptors that they never opened: all from 3 up, at start or before
 * they execute another program. The library records its own descriptors here, so that
 * the interposed calls leave these open. Otherwise the program could close one of them
 * and open a file at the same number, and the library would write to that file.
 *
 *   I1  The kernel gives a new descriptor the lowest free number, and programs rely on
 *       getting it. So the library opens descriptors only during a call of the program.
 *       The library moves each new descriptor to a high number at once, by duplicating
 *       it, or closes it within the same call.
 *   I2  While a new descriptor has its low number, the interposed calls that close
 *       descriptors wait (uaio_ownfds_settle()). Still, a thread of the program may
 *       close the new descriptor, and then open another file at the same number: the
 *       thread may have checked just before the library opened the descriptor, or may
 *       use its own syscall instructions. So if the number now has a file of another
 *       type, the library treats this file as the program's: the library neither keeps
 *       nor closes it.
 *   I3  The lock is held while a descriptor is opened, moved or closed, and never
 *       across a call that may block.
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
 * Return: the descriptor; or a negative error number, such as -EMFILE if no descriptor
 * is free, or if this thread's descriptor table is not the library's.
 */
int uaio_ownfd_event(int flags);

/* Like uaio_ownfd_event(), for an epoll. */
int uaio_ownfd_epoll(void);

struct io_uring_params;

/* Like uaio_ownfd_event(), for a ring of the kernel's io_uring with nr entries. */
int uaio_ownfd_uring(unsigned nr, struct io_uring_params *params);

/* Like uaio_ownfd_event(), for a character device. flags: those of open(2). */
int uaio_ownfd_open(const char *path, int flags);
/* Like uaio_ownfd_event(), for a regular file. */
int uaio_ownfd_open_file(const char *path, int flags);
/*
 * Open a regular file that is closed within the same call of the program. The
 * descriptor keeps its low number, since a high number would make the kernel enlarge
 * the descriptor table. If O_CREAT creates the file, only the user may open it.
 */
int uaio_ownfd_open_briefly(const char *path, int flags);

/* Like uaio_ownfd_event(), for a duplicate of fd. */
int uaio_ownfd_dup(int fd);

/* Close a descriptor of the library. */
void uaio_ownfd_close(int fd);

/*
 * Close a duplicate of a descriptor of the program. If the program has closed its own
 * descriptor, too, this closes the file and may take long; no lock is held meanwhile.
 */
void uaio_ownfd_close_file(int fd);

/*
 * Like uaio_ownfd_close_file(), but let another thread close the file, so that the
 * caller does not wait. If no thread can be created, the caller closes the file.
 * Context: like uaio_thread_start().
 */
void uaio_ownfd_close_slow(int fd);

/*
 * Forget fd: it belongs to the program now, which has replaced the file at this number.
 */
void uaio_ownfd_give_up(int fd);

/*
 * Wait while the library has a new descriptor at a low number that it has not recorded
 * yet. Called by a thread that is about to close or replace a descriptor: afterwards,
 * every descriptor that is not recorded belongs to the program. Context: no lock is
 * held.
 */
void uaio_ownfds_settle(void);

/*
 * Return: whether the library may open nr more descriptors for an optional purpose. The
 * library's share is an eighth of RLIMIT_NOFILE, or eight descriptors if that is more.
 */
bool uaio_ownfds_have_room(unsigned nr);

/*
 * Return: whether the library has less than half of its share of descriptors open, so
 * that it may open one even for a mere optimisation.
 */
bool uaio_ownfds_are_few(void);

/* Return: whether fd is a descriptor of the library. */
bool uaio_ownfd_has(int fd);

/*
 * Return: whether a descriptor in [first, last] is the library's; *ret_fd: the lowest
 * such descriptor.
 */
bool uaio_ownfd_find(unsigned first, unsigned last, unsigned *ret_fd);

/*
 * Between uaio_ownfds_quiesce() and uaio_ownfds_resume() no descriptor of the library
 * is opened or closed.
 */
void uaio_ownfds_quiesce(void);
void uaio_ownfds_resume(void);

/*
 * Close the library's descriptors in this thread's descriptor table, which is a new
 * copy of the library's table.
 * Context: between quiesce and resume.
 */
void uaio_ownfds_close_copies(void);

/*
 * Called in a child of fork(): close the descriptors of the parent's library. is_ours:
 * the child has a copy of the library's descriptor table. If not, other files have
 * these numbers in the child, so only forget the numbers.
 */
void uaio_ownfd_drop(bool is_ours);

#endif /* UAIO_PROC_OWNFD_H */
