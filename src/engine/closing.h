/* SPDX-License-Identifier: MIT */
/*
 * Closing the number of a regular file that has requests
 *
 * A duplicate per request would do, but closing one drops the process's record
 * locks on the file. So requests are made on the client's number, and who closes
 * it waits, but no longer than he has to: a system call that has looked its
 * number up holds the open file itself, and the number may go. A hung device
 * keeps a call for ever, and would keep the closer.
 *
 *   I1  The closer goes when the only references to the file are his own and
 *       those of requests each of which is in its one system call, past the
 *       look-up; or when there are no others.
 *   I2  That a thread is there is what the kernel says of it, in
 *       /proc/self/task/TID/syscall: a call is shown only of a thread that
 *       sleeps in it. One that is held on its way in, by a tracer or a filter
 *       that asks somebody, sleeps, too; where it sleeps (wchan) tells. Without
 *       these files the closer waits until the calls are over.
 *   I3  What a worker makes by one call, and marks so, makes no other on the
 *       number once the closer looks (is_left). What takes several, large direct
 *       requests and bounced ones, is not marked, nor is what others make: the
 *       closer waits for those.
 *   I4  Requests that have not begun are left to workers, whose number grows
 *       while all are blocked, and are made by the closer if that takes long.
 *   I5  Polls of what knows them (message queues, some files of /proc) may wait
 *       for ever. As soon as they are all that is left they go on with a private
 *       duplicate, as those of streams do.
 *
 * Those that wait in the order of their inode, behind a write that does not
 * return, cannot begin: the closer waits with them.
 */
#ifndef UAIO_ENGINE_CLOSING_H
#define UAIO_ENGINE_CLOSING_H

struct uaio_file;

/*
 * As struct uaio_file_ops says: files do not know what has requests on them, and
 * this goes through all that these may wait for (waits.h). The caller closes the
 * number when this returns. May sleep.
 */
void uaio_closing_see_through(struct uaio_file *file);

#endif /* UAIO_ENGINE_CLOSING_H */
