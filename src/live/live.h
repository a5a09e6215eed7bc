/* SPDX-License-Identifier: MIT */
/*
 * The process's own page (layout.h)
 *
 * The page is a file in a tmpfs directory, /dev/shm/uaio.UID, that only the user can
 * access. The process creates the file when the library starts, maps it, and closes its
 * descriptor. If the process is killed, the file remains, with the last counts.
 *
 *   I1  A file's name is the process id modulo UAIO_LIVE_SLOTS, or one of the next few
 *       numbers. If a new process finds such a name in use, it replaces the file if the
 *       file's creator is gone. The creator may be invisible, for example in a
 *       container. Then the new process replaces the file if its creator was about to
 *       end. It also replaces the oldest file of an invisible creator if all numbers
 *       that it tries are in use. So a user has at most UAIO_LIVE_SLOTS files, and no
 *       file blocks a name for ever.
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
 * If a process shortens the file, SIGBUS kills this process. Only the user and root can
 * shorten the file, and they could kill this process anyway.
 *
 * Context: uaio_live_open() is called under the lock that starts the library,
 * uaio_live_remove() when the process ends. Other functions: any thread.
 *
 * Tested by test-live.c and test/run/live.py.
 */
#ifndef UAIO_LIVE_LIVE_H
#define UAIO_LIVE_LIVE_H

#include "live/layout.h"

enum { UAIO_LIVE_SLOTS = 1024 };

#define UAIO_LIVE_DIRECTORY "/dev/shm/uaio."

/*
 * Create the page. Called each time the library starts, also in a child of fork(). An
 * earlier page of the process, or its parent's page, is no longer used.
 * Return: the page, whose first block may be used; NULL if anything fails.
 */
struct uaio_live_page *uaio_live_open(void);

/* Return: the page; or NULL. Constant while the library is up. */
struct uaio_live_page *uaio_live_page(void);

/* Mark the identity as valid: from now on other processes may read the page. */
void uaio_live_publish(struct uaio_live_page *page);

/*
 * Return: the block with this index, whose memory is allocated now, and zero if the
 * block was unused; NULL if its memory cannot be allocated.
 */
struct uaio_live_block *uaio_live_block(unsigned place);

/* Set whether the process is about to end or to execute another program. */
void uaio_live_set_state(enum uaio_live_state state);

/* Remove the file, since the process ends normally. */
void uaio_live_remove(void);

#endif /* UAIO_LIVE_LIVE_H */
