/* SPDX-License-Identifier: MIT */
/*
 * The process's own page of counts (layout.h)
 *
 * The page is a file in /dev/shm/uaio.UID, a tmpfs directory that only the user can
 * access. When the library starts, the process creates the file, maps it, and closes
 * its descriptor. If the process is killed, the file remains, with the last counts.
 *
 *   I1  A file's name is the process id modulo UAIO_LIVE_SLOTS, or one of the next few
 *       numbers. If the name is in use, and the file's creator is gone, a new process
 *       replaces the file. Sometimes the new process cannot see whether the creator
 *       exists, for example because the creator is in a container. Then it replaces the
 *       file if the file says that the creator was about to end. If all numbers that it
 *       tries are in use, it replaces the oldest file of a creator that it cannot see.
 *       So a user has at most UAIO_LIVE_SLOTS files, and no file blocks a name for ever.
 *   I2  All memory of the page is allocated before it is used (fallocate), so a full
 *       file system causes no fault. A file is not created or extended if less than
 *       half of the file system would stay free, or if its size would exceed
 *       RLIMIT_FSIZE.
 *   I3  If anything fails, the process has no page, and the program does not notice. A
 *       process whose file was replaced still writes its page, which no other process
 *       can see.
 *   I4  A child of fork() gets its own page when its library starts. Its parent's page
 *       stays mapped, and the child does not use it.
 *
 * If some process shortens the file, SIGBUS kills the process that has mapped it. Only
 * the same user and root can shorten the file, and they could kill the process anyway.
 *
 * Context: uaio_live_open() is called under the lock for starting the library, and
 * uaio_live_remove() at the end of the process. Other functions: any thread.
 *
 * Tested by test-live.c and test/run/live.py.
 */
#ifndef UAIO_LIVE_LIVE_H
#define UAIO_LIVE_LIVE_H

#include "live/layout.h"

enum { UAIO_LIVE_SLOTS = 1024 };

#define UAIO_LIVE_DIRECTORY "/dev/shm/uaio."

/*
 * Create this process's page of counts. Called each time the library starts, also in a
 * child of fork(). From then on the process does not use an earlier page of its own or
 * of its parent.
 * Return: the page, whose first block may be used; NULL if anything fails.
 */
struct uaio_live_page *uaio_live_open(void);

/*
 * Return: this process's page; NULL if it has none (I3). The answer does not change
 * once the library has started in the process.
 */
struct uaio_live_page *uaio_live_page(void);

/*
 * Mark the identity at the beginning of the page as valid: from now on other processes
 * may read the page.
 */
void uaio_live_publish(struct uaio_live_page *page);

/*
 * Allocate the block (counts of one thread) with this index.
 * Return: the block, which is zero unless a thread has used it before; NULL if its
 * memory cannot be allocated.
 */
struct uaio_live_block *uaio_live_block(unsigned place);

/*
 * Tell readers whether the process is about to end or to execute another program.
 */
void uaio_live_set_state(enum uaio_live_state state);

/* Remove the file, at a normal end of the process. */
void uaio_live_remove(void);

#endif /* UAIO_LIVE_LIVE_H */
