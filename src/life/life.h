/* SPDX-License-Identifier: MIT */
/*
 * The library as a whole, and what a front-end (kernel AIO, io_uring or POSIX AIO) may call
 *
 *   life.h             bring the library up; report closed descriptors, and leaving
 *   submit.h, chain.h  submit requests, alone or linked
 *   cancel.h           cancel requests
 *   queue.h, post.h    open, close and lock a queue
 *   waiter.h, page.h   wait for completions, or look for them without sleeping
 *   file.h             register files; signal eventfds
 *   entry.h            enter and leave the library, around each call
 *
 * door.h and sink.h declare the functions of a front-end that the core calls. A front-end does
 * not decide where a request is executed, and creates no thread. It takes its own locks before
 * the core's. All functions return 0 or what the kernel's calls would, as a negative errno,
 * and leave errno unchanged.
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
 * Bring the engine up in this process, if it is not up yet (in a child of fork() it is not).
 * Return: 0, -ENOMEM, or -EAGAIN in a child of vfork().
 */
int uaio_engine_start(void);

/* descriptors */

/*
 * Called before and after descriptors [first, last] are closed or replaced. At the time of the
 * second call, another thread may already have opened the descriptors again.
 */
void uaio_fds_closing(unsigned first, unsigned last);
void uaio_fds_closed(unsigned first, unsigned last);

/*
 * Close a client's descriptor for a request, as the interposed close() does. Unless may_wait
 * is set, does nothing if the file has requests, or if closing it may take long. The caller
 * has already handed all requests that it submitted to the work queue.
 * Return: as close(2); -EBADF: the descriptor is the library's; -EOPNOTSUPP: nothing was
 * done.
 */
int uaio_fd_close(int fd, bool may_wait);

/*
 * The client is about to open its own file at fd, which is one of the library's descriptors:
 * move the library's file to another descriptor. fd stays open, and the library no longer
 * uses it.
 * Return: 0; -EBUSY if a call on fd is under way, or there is no other descriptor; -EAGAIN if
 * fd is no longer the library's.
 */
int uaio_own_fd_yield(int fd);

/* leaving (gate.h) */

/* The process is about to end: finish accepted writes and syncs, and report. */
void uaio_engine_exiting(void);

/*
 * The process is about to execute another program: finish accepted writes and syncs, report,
 * and make other submitting threads wait until the program is gone, or the exec has failed
 * and the caller calls uaio_engine_stay().
 * Return: whether the caller has to call uaio_engine_stay() after a failed exec.
 */
bool uaio_engine_leave(void);
void uaio_engine_stay(void);

/* statistics */

/* Read the counters of all front-ends and of the work queue. The engine is up. */
void uaio_counters_read(struct uaio_counters *ret_counters);

/* limits.c: the limits of the work queue, which options and the functions of uaio.h set */

/*
 * Apply the limits to the work queue, which has just started. The caller holds the lock that
 * brings the engine up.
 */
void uaio_limits_apply(void);

/*
 * Described in uaio.h. These functions check the values in the arrays, but not the arrays'
 * addresses.
 * Return: 0, with the previous values in the array; -EINVAL with nothing changed; -EAGAIN in
 * a child of vfork().
 */
int uaio_limits_set_workers(int max_workers[]);
int uaio_limits_set_fixed(struct uaio_wq_fixed fixed[]);

#endif /* UAIO_LIFE_LIFE_H */
