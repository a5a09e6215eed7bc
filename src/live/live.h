/* SPDX-License-Identifier: MIT */
/*
 * The process's own page (layout.h)
 *
 * The page is a file in a tmpfs directory, /dev/shm/uaio.UID, that only the user can
 * access. The process creates the file when the library starts, and closes it, so the
 * program has no additional descriptor. If the process is killed, the file stays, with
 * the last counts.
 *
 *   I1  A file's name is the process id modulo UAIO_LIVE_SLOTS, or one of the next few
 *       numbers. A process that finds such a name in use replaces the file if the file's
 *       process is gone. If it cannot see that process, for example one in a container,
 *       it replaces the file if that process was about to end; or if the file is the
 *       oldest such one and all numbers that it tries are in use. So a user has at most
 *       UAIO_LIVE_SLOTS files, and no file blocks a name for ever.
 *   I2  All memory of the page was allocated before use (fallocate), so a full file
 *       system causes no fault. A file is not created or extended if less than half of
 *       the file system would stay free, or beyond RLIMIT_FSIZE.
 *   I3  After any failure there is no page, and the program does not notice. A process
 *       whose file was replaced goes on with an invisible page.
 *   I4  A child of fork() gets its own page when its library starts. It keeps the mapping
 *       of its parent's page, unused.
 *
 * A process that shortens the file kills this process by SIGBUS. Only the user and root
 * can do so, and they could kill it anyway.
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
 * Create the page. Called each time the library starts, also in a child of fork(); an
 * earlier page is forgotten.
 * Return: the page, whose first block may be used; NULL if there is none.
 */
struct uaio_live_page *uaio_live_open(void);

/* Return: the page; or NULL. Constant while the library is up. */
struct uaio_live_page *uaio_live_page(void);

/* Mark the identity as valid: from now on other processes may read the page. */
void uaio_live_publish(struct uaio_live_page *page);

/*
 * Return: the block with this index, allocated, and zero if it was unused; NULL if it
 * cannot be allocated.
 */
struct uaio_live_block *uaio_live_block(unsigned place);

/* Set whether the process is about to end or to execute another program. */
void uaio_live_set_state(enum uaio_live_state state);

/* Remove the file, since the process ends normally. */
void uaio_live_remove(void);

#endif /* UAIO_LIVE_LIVE_H */
