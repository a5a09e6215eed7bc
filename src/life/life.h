/* SPDX-License-Identifier: MIT */
/*
 * The library as a whole, and what a door (a front-end) may call
 *
 *   life.h             bring the library up; tell it of descriptors that are closed,
 *                      of leaving
 *   submit.h, chain.h  submit requests, alone or linked
 *   cancel.h           cancel them
 *   queue.h, post.h    open, close and lock a queue
 *   waiter.h, page.h   wait for completions, or look for them without sleeping
 *   file.h             fix files; signal eventfds
 *   entry.h            enter and leave the library, around each call
 *
 * door.h and sink.h have what the library calls of a door. A door does not decide
 * where a request is executed, and creates no thread. It takes its own locks before
 * the core's. All calls return 0 or what the kernel's would, as a negative errno, and
 * touch no errno.
 *
 * Context: any thread that has entered (entry.h).
 */
#ifndef UAIO_LIFE_LIFE_H
#define UAIO_LIFE_LIFE_H

#include <stdbool.h>

#include "proc/process.h"
#include "uaio.h"

struct uaio_counters;

/*
 * Called when the library is loaded: reads the options and the number of
 * processors. Creates no thread and allocates no memory.
 */
void uaio_engine_load(void);

/*
 * Bring the engine up in this process if it is not up. In a child of fork() it is
 * not.
 * Return: 0, -ENOMEM, or -EAGAIN in a child of vfork().
 */
int uaio_engine_start(void);

/* descriptors */

/*
 * Called before and after descriptors [first, last] are closed or replaced. After
 * that, another thread may have opened them again already.
 */
void uaio_fds_closing(unsigned first, unsigned last);
void uaio_fds_closed(unsigned first, unsigned last);

/*
 * Close a descriptor of the client's, which asks for that by a request: what
 * close() does as it is interposed. Unless may_wait, nothing is done if requests
 * are on it, or if closing its file may take long; the caller has given all that
 * it has submitted to the work queue.
 * Return: as close(2); -EBADF: it is the engine's own; -EOPNOTSUPP: nothing was
 * done.
 */
int uaio_fd_close(int fd, bool may_wait);

/*
 * The client is about to put a file of its own at fd, which is a descriptor of the
 * engine's own: move the engine's file to another descriptor. fd stays open, and
 * the engine does not use it any more.
 * Return: 0; -EBUSY if a call on it is under way, or there is no other descriptor;
 * -EAGAIN if fd is not the engine's any more.
 */
int uaio_own_fd_yield(int fd);

/* leaving (gate.h) */

/* The process is about to end: finish accepted writes and syncs, and report. */
void uaio_engine_exiting(void);

/*
 * The process is about to leave the program that it runs, by exec: finish accepted
 * writes and syncs, report, and let other threads that submit wait, until the
 * program is gone or the exec has failed and the caller calls uaio_engine_stay().
 * Return: whether the caller has to call uaio_engine_stay() then.
 */
bool uaio_engine_leave(void);
void uaio_engine_stay(void);

/* statistics */

/* While the engine is up: what all doors have counted, and the work queue. */
void uaio_counters_read(struct uaio_counters *ret_counters);

/*
 * limits.c: limits of the work queue, as they were asked for
 */

/* Give the limits to the work queue, which has just started. Under the lock. */
void uaio_limits_apply(void);

/*
 * See uaio.h. The values in the arrays are checked here, the addresses of the
 * arrays are not.
 * Return: 0, with the previous values in the array; -EINVAL with nothing
 * changed; -EAGAIN in a child of vfork().
 */
int uaio_limits_set_workers(int max_workers[]);
int uaio_limits_set_fixed(struct uaio_wq_fixed fixed[]);

#endif /* UAIO_LIFE_LIFE_H */
