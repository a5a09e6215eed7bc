/* SPDX-License-Identifier: MIT */
/*
 * The library's own descriptors
 *
 * Hosts close descriptors they never opened: all from 3 up, at start or before
 * they run something. Ours are noted here, so that the calls that close can
 * step over them: a number of ours that became somebody else's file would be
 * written to.
 *
 *   I1  The kernel gives a new descriptor the lowest number, which the host may
 *       count on. So none is opened but within a call of the host's, and it is
 *       at once moved up, where only duplicates are made.
 *   I2  Until then the calls that close wait (uaio_ownfds_settle()). One that had
 *       asked just before, or is made inline, may close it all the same, and
 *       another file may come there: what is not of the kind that was opened is
 *       the host's, and is neither kept nor closed.
 *   I3  The lock is held for as long as it takes to open, move and close; never
 *       across a call that may block.
 *
 * Thread-safety: any thread; asking is wait-free.
 */
#ifndef UAIO_PROC_OWNFD_H
#define UAIO_PROC_OWNFD_H

#include <stdbool.h>

/* From nothing. Return: 0 or -ENOMEM. */
int uaio_ownfd_init(void);

/*
 * A new eventfd, out of the way of the low numbers that hosts count on if there
 * is room. Return: it, or -errno.
 */
int uaio_ownfd_event(int flags);

/* A new epoll, kept likewise. Return: it, or -errno. */
int uaio_ownfd_epoll(void);

/* The same for the character device that path is; flags as of open(). */
int uaio_ownfd_open(const char *path, int flags);
/* The same for a regular file. */
int uaio_ownfd_open_file(const char *path, int flags);

/* A duplicate of fd, kept likewise. Return: it, or -errno. */
int uaio_ownfd_dup(int fd);

/* Close one of ours. */
void uaio_ownfd_close(int fd);

/*
 * The same for a duplicate of a file of the host's, which may take long: nobody
 * waits for it. Context: as of uaio_thread_start().
 */
void uaio_ownfd_close_slow(int fd);

/* fd is not ours any more, though open still: the host takes its number. */
void uaio_ownfd_give_up(int fd);

/*
 * A new descriptor is low for a moment, before it is moved up and noted. Who is
 * about to close or replace a number, and holds no lock of ours, waits until
 * none is: then what is there is the host's.
 */
void uaio_ownfds_settle(void);

/*
 * What could be done without is not to take the host's numbers: an eighth of what
 * the limit allows is for that, but for a few under a small limit.
 * Return: whether nr more would be within that, of all that are ours.
 */
bool uaio_ownfds_have_room(unsigned nr);

/* Return: whether fd is ours. */
bool uaio_ownfd_has(int fd);

/* Return: whether one of ours is in [first, last], the lowest in ret_fd. */
bool uaio_ownfd_find(unsigned first, unsigned last, unsigned *ret_fd);

/* From before fork() until after it none is opened or closed. */
void uaio_ownfds_hold(void);
void uaio_ownfds_release(void);

/* Held, by a thread that has just got a copy of the table: close ours in it. */
void uaio_ownfds_close_copies(void);

/*
 * In a child of fork(): close what belongs to the parent's engine; or, not
 * is_ours, only forget it: the table was one in which those numbers are others.
 */
void uaio_ownfd_drop(bool is_ours);

#endif /* UAIO_PROC_OWNFD_H */
