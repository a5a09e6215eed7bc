/* SPDX-License-Identifier: MIT */
/*
 * Descriptor tables
 *
 * The threads of a process share one descriptor table, except those that have
 * parted from it: by unshare(CLONE_FILES), by close_range() with
 * CLOSE_RANGE_UNSHARE, by clone() without CLONE_FILES, or because their creator
 * had. What the library knows of descriptors, and its own descriptors, belong
 * to one table: that of its threads. In another table the same descriptor is
 * another file. So a thread with another table
 *
 *   - executes its requests itself, when it submits them, by plain system
 *     calls, however long they take, and posts their events;
 *   - does not sleep on descriptors of the library's, and does not execute
 *     parked requests;
 *   - asks a thread of the library, the agent, to do what may use a descriptor
 *     of the library's: to wake a thread that sleeps in an epoll, to cancel, to
 *     destroy a context, to finish what is pending;
 *   - closes what it likes, as the library knows nothing of its descriptors.
 *
 *   I1  As long as no thread may have parted, no thread is asked which table it
 *       has. From then on each is asked once, when it next calls the library.
 *   I2  The agent has the library's table: it is created by a thread that is
 *       about to part, and has not done so yet, or by the thread that brings
 *       the library up.
 *   I3  A thread is asked by a trial: the agent opens a descriptor and closes
 *       it later, and meanwhile the thread looks whether it has that
 *       descriptor. This takes no system call that the library does not make
 *       otherwise.
 *   I4  The agent waits for nobody: it has another thread make a call that may
 *       wait.
 *
 * The library does not notice a thread that parts by a system call which the
 * host makes inline.
 *
 * Context: any thread.
 *
 * Tested by test/host/tables.c.
 */
#ifndef UAIO_PROC_TABLE_H
#define UAIO_PROC_TABLE_H

#include <stdbool.h>

/* Called when the library comes up: there is no agent. */
void uaio_table_init(void);

/*
 * Return: whether this thread has another table than the library. This is
 * called before the thread enters the library; if it is inside and was never
 * asked, it entered when there was only one table.
 */
bool uaio_table_is_other(void);

/* Note that this thread has the library's table. */
void uaio_table_is_mine(void);

/*
 * Start the agent if there is none, and note that this thread has the library's
 * table. Return: 0, or -EAGAIN if it cannot be started.
 */
int uaio_table_start_agent(void);

/*
 * Have the agent call act(arg), and wait until it returns. may_wait: the call
 * may take long, so the agent has another thread make it.
 * Return: what act returns; -EAGAIN if there is no agent, or no such thread.
 */
typedef long uaio_table_act(const void *arg);

long uaio_table_call(uaio_table_act *act, const void *arg, bool may_wait);

/*
 * Enter the library, have act(arg) called by a thread that has the library's table, and
 * leave: called by this thread if it has, else by another thread, which may wait.
 * Return: what act returns; -EAGAIN: the thread is inside already, or there is no agent or
 * other thread to be had.
 */
long uaio_table_do(uaio_table_act *act, const void *arg);

/*
 * Return: whether this is the only thread of the host with the library's table.
 */
bool uaio_table_is_only_mine(void);

/*
 * Make the system call nr with these arguments, which gives this thread a table
 * of its own. The copies of the library's descriptors in that table are closed.
 * Return: as the call; -ENOMEM.
 */
long uaio_table_part(long nr, const long args[3]);

/*
 * The caller is about to create a thread that has a table of its own. That is a
 * copy of this one, and keeps the copies of the library's descriptors.
 * Return: 0 or -ENOMEM.
 */
int uaio_table_expect(void);

#endif /* UAIO_PROC_TABLE_H */
