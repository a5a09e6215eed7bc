/* SPDX-License-Identifier: MIT */
/*
 * The library as a whole: functions that front-ends (kernel AIO, io_uring, POSIX AIO)
 * call
 *
 *   life.h             start the library; report closed descriptors, and the end of the process
 *   submit.h, chain.h  submit requests, alone or linked
 *   cancel.h           cancel requests
 *   queue.h, post.h    open, close and lock a queue
 *   waiter.h, page.h   wait for completions, or look for them without sleeping
 *   file.h             register files; signal eventfds
 *   entry.h            enter and leave the library, around each call
 *
 * door.h and sink.h declare the functions of a front-end that the core calls. A
 * front-end does not decide where a request is executed, and creates no thread. It
 * acquires its own locks before those of the core. All functions of the core leave
 * errno unchanged. They return 0, or the negative error number that the kernel's system
 * call would return.
 *
 * Context: any thread that is inside the library (uaio_enter(), proc/entry.h).
 */
#ifndef UAIO_LIFE_LIFE_H
#define UAIO_LIFE_LIFE_H

#include <stdbool.h>

#include "proc/process.h"
#include "uaio.h"

struct uaio_counters;

/*
 * Called when the library is loaded: read the options and the number of processors.
 * Creates no thread and allocates no memory.
 */
void uaio_engine_load(void);

/*
 * Start the library in this process, unless it is started. A child of fork() must start
 * it again.
 * Return: 0, -ENOMEM, or -EAGAIN in a child of vfork().
 */
int uaio_engine_start(void);

/* descriptors of the program, and of the library */

/*
 * Call uaio_fds_closing() before descriptors [first, last] are closed or replaced, and
 * uaio_fds_closed() afterwards. By then another thread may already have opened the
 * descriptors again.
 */
void uaio_fds_closing(unsigned first, unsigned last);
void uaio_fds_closed(unsigned first, unsigned last);
/* Call uaio_file_flags_change() (file/file.h), if the library may know fd. */
void uaio_fd_flags_change(int fd, int open_flags);

/*
 * Close a descriptor of the program for a request of the program, in the same way as
 * the interposed close(). If may_wait is false, and the file has requests or closing
 * may take long, do nothing. The caller must first put into the work queue all requests
 * that it has submitted for workers, because the close may wait for them.
 * Return: as close(2); -EBADF: the descriptor is the library's; -EOPNOTSUPP: nothing
 * was done.
 */
int uaio_fd_close(int fd, bool may_wait);

/*
 * The program is about to open its own file at fd, which is one of the library's
 * descriptors. Move the library's file to another descriptor. fd stays open, and the
 * library no longer uses it.
 * Return: 0; -EBUSY if a system call on fd is in progress, or there is no other
 * descriptor; -EAGAIN if fd is no longer the library's.
 */
int uaio_own_fd_yield(int fd);

/* before the process ends or executes another program (flow/gate.h) */

/*
 * The process is about to end: finish accepted writes and syncs, and write the report.
 */
void uaio_engine_exiting(void);

/*
 * The process is about to execute another program. Finish accepted writes and syncs,
 * and write the report. From then on, other threads that submit wait until the program
 * is replaced, or until the exec has failed and the caller calls uaio_engine_stay().
 * Return: whether the caller has to call uaio_engine_stay() after a failed exec.
 */
bool uaio_engine_leave(void);
void uaio_engine_stay(void);

/* statistics */

/*
 * Read the counters of all front-ends and of the work queue. Call it only while the
 * library is started.
 */
void uaio_counters_read(struct uaio_counters *ret_counters);

/* limits.c: the limits of workers, which options and the functions of uaio.h set */

/*
 * Apply the limits to the work queue, which has just started. The caller holds the lock
 * for starting the library.
 */
void uaio_limits_apply(void);

/*
 * Do the work of uaio_wq_set_workers() and uaio_wq_set_fixed() (uaio.h). The two
 * functions here check the values in the arrays, but not the arrays' addresses.
 * Return: 0, with the previous values in the array; -EINVAL, with nothing changed;
 * -EAGAIN in a child of vfork().
 */
int uaio_limits_set_workers(int max_workers[]);
int uaio_limits_set_fixed(struct uaio_wq_fixed fixed[]);

#endif /* UAIO_LIFE_LIFE_H */
