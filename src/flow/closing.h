/* SPDX-License-Identifier: MIT */
/*
 * Closing a descriptor of a regular file that has requests
 *
 * Closing a duplicate of a descriptor would drop the process's record locks on the file. So
 * the library makes no duplicate: requests are executed on the client's descriptor. The
 * thread that closes that descriptor (the closer) waits, though no longer than necessary.
 * Once a system call has looked up its descriptor, the kernel holds a reference to the open
 * file, so the descriptor may be closed from then on. (A call on a hung device never
 * returns, and the closer must not wait for such a call.)
 *
 *   I1  The closer stops waiting when each reference to the file, except its own, belongs
 *       to a request that makes only one system call. That call must be in progress, and
 *       have looked up the descriptor.
 *   I2  The kernel shows in /proc/self/task/TID/syscall which call a thread sleeps in. A
 *       thread also sleeps if a tracer, or a seccomp filter that asks a supervisor, stops it
 *       before the look-up; /proc/self/task/TID/wchan shows that. If these files cannot be
 *       read, the closer waits until the calls have returned.
 *   I3  A worker that executes a request by one call marks the request is_one_call. Once
 *       the closer has set closer_goes, that worker makes no other call on the
 *       descriptor. The closer waits for the end of all other requests: those that other
 *       threads execute, and those that need several calls. Large O_DIRECT requests need
 *       several calls; so do misaligned requests, which may be executed through a copy.
 *       If a worker submits a request to kernel AIO (native.h) and sleeps in io_submit,
 *       the closer may wait some seconds, until the kernel has executed the library's
 *       requests.
 *   I4  Requests that have not begun are left to the workers; more workers are created while
 *       all are blocked. If the requests still have to wait for long, the closer executes
 *       them.
 *   I5  Polls of files that support polling (message queues, some files of /proc) may wait for
 *       ever. When only such polls are left, the library makes a duplicate of the descriptor
 *       for them, as for polls of streams, and the closer continues.
 *
 * If a request waits for an older write on its inode (order.h), and the write never
 * returns, the request cannot begin. The closer waits for that request, too.
 *
 * Tested by src/file/test-file.c and test/host/numbers.c.
 */
#ifndef UAIO_FLOW_CLOSING_H
#define UAIO_FLOW_CLOSING_H

struct uaio_file;

/*
 * Wait until the descriptor of `file` may be closed (I1); the caller then closes it. May
 * sleep. The module file/ knows no requests, so it calls this function as see_through of
 * struct uaio_file_ops. The function visits requests in every state in which they wait
 * (waits.h).
 */
void uaio_closing_see_through(struct uaio_file *file);

#endif /* UAIO_FLOW_CLOSING_H */
