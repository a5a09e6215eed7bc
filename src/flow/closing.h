/* SPDX-License-Identifier: MIT */
/*
 * Closing a descriptor of a regular file that has requests
 *
 * No duplicate of the descriptor is made for a request, since closing it would drop
 * the process's record locks on the file. So requests are executed on the client's descriptor,
 * and the thread that closes it, the closer, waits; but no longer than it has to.
 * A system call that has looked up its descriptor has a reference to the open
 * file, so the descriptor may be closed from then on. (A call on a hung device
 * never returns, and the closer must not wait for it.)
 *
 *   I1  The closer goes on when the only references to the file are its own and
 *       those of requests each of which is in its one system call, past the
 *       look-up; or when there are no others.
 *   I2  The kernel tells whether a thread is there, in
 *       /proc/self/task/TID/syscall: it shows the call of a thread only if the
 *       thread sleeps in it. A thread also sleeps if a tracer, or a filter that
 *       asks a supervisor, stops it before the look-up; its wchan tells that.
 *       Without these files the closer waits until the calls are over.
 *   I3  If a worker executes a request by one call, and marks it so, it makes no
 *       other call on the descriptor once the closer has looked (closer_goes).
 *       Requests that take several calls (large O_DIRECT ones, and those that may
 *       be bounced) are not marked, nor are those that other threads execute: the
 *       closer waits for these.
 *       A worker that submits a request to the kernel (native.h) may hold
 *       it up for as long as those that the kernel has: for some seconds, if it
 *       then sleeps in io_submit. (The kernel looks the descriptor up first, but
 *       for an allocation of memory.)
 *   I4  Requests that have not begun are left to the workers, of which more are
 *       created while all are blocked. If that takes long, the closer executes
 *       them.
 *   I5  Polls of files that support it (message queues, some files of /proc) may
 *       wait for ever. When no other requests are left, they go on with a private
 *       duplicate, as those of streams do.
 *
 * A request that waits in the order of its inode, behind a write that does not
 * return, cannot begin: the closer waits for it.
 *
 * Tested by src/file/test-file.c and test/host/numbers.c.
 */
#ifndef UAIO_FLOW_CLOSING_H
#define UAIO_FLOW_CLOSING_H

struct uaio_file;

/*
 * The function see_through of struct uaio_file_ops: wait until the descriptor of
 * file may be closed (I1). It is here because the room of files does not know
 * requests; this goes through all states in which they wait (waits.h). The caller
 * closes the descriptor when this returns. May sleep.
 */
void uaio_closing_see_through(struct uaio_file *file);

#endif /* UAIO_FLOW_CLOSING_H */
