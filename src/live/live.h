/* SPDX-License-Identifier: MIT */
/*
 * The process's own page (layout.h)
 *
 * It is a file in a folder of memory, /dev/shm/uaio.UID, that belongs to the user
 * alone. The process makes it when the library comes up, and closes it again, so the
 * program has no descriptor more. If the process is killed, the file stays, with the
 * last counts.
 *
 *   I1  The name of a file is the process's id modulo UAIO_LIVE_SLOTS, or one of the
 *       next few numbers. Who finds the file of a process there that is gone replaces
 *       it, and one of a process that cannot be seen, in a container for example, if
 *       that was about to end, or if it is the oldest of these and all numbers are
 *       taken. So a user never has more files than that, whatever dies, and none stands
 *       in the way for ever.
 *   I2  All memory that the process touches was allocated before (fallocate), so it
 *       does not fault when the file system is full. No file is made, or made larger,
 *       that would leave less than half of the file system free, or is beyond the
 *       limit of files' sizes.
 *   I3  Whatever fails, there is no page, and the program does not notice. A process
 *       whose file was replaced goes on with a page that nobody sees.
 *   I4  A child of fork() has a page of its own, as soon as its library comes up; it
 *       keeps the mapping of its parent's page, and does not use it.
 *
 * Somebody who may write to the file may shorten it, and so end the process: only the
 * user, who could kill it as well, and the superuser.
 *
 * Context: uaio_live_open() and uaio_live_close(): under the lock that brings the
 * library up; while it is down, or the process ends. The others: any thread.
 *
 * Tested by test-live.c and test/run/live.py.
 */
#ifndef UAIO_LIVE_LIVE_H
#define UAIO_LIVE_LIVE_H

#include "live/layout.h"

enum { UAIO_LIVE_SLOTS = 1024 };

#define UAIO_LIVE_FOLDER "/dev/shm/uaio."

/*
 * Called each time the library comes up, also in a child of fork(): make a page; what
 * was there before is forgotten.
 * Return: the page, whose first block may be used; NULL: there is none.
 */
struct uaio_live_page *uaio_live_open(void);

/* Return: the page; NULL: there is none. Constant while the library is up. */
struct uaio_live_page *uaio_live_page(void);

/* The identity is complete: others may read the page from now on. */
void uaio_live_publish(struct uaio_live_page *page);

/*
 * Return: the block at that place, allocated and zero if it was not used; NULL if it
 * cannot be had.
 */
struct uaio_live_block *uaio_live_block(unsigned place);

/* Say whether the process is about to leave the program that it runs. */
void uaio_live_set_state(enum uaio_live_state state);

/* The process ends in order: remove the file. */
void uaio_live_remove(void);

#endif /* UAIO_LIVE_LIVE_H */
