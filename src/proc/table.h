/* SPDX-License-Identifier: MIT */
/*
 * Descriptor tables
 *
 * The threads of a process share one descriptor table. A thread gets another one by
 * unshare(CLONE_FILES), by close_range() with CLOSE_RANGE_UNSHARE, by clone() without
 * CLONE_FILES, or from its creator. The library's threads have the library's table, and
 * all that the library knows of descriptors concerns this table. In another table the
 * same number is another file. So a thread with another table
 *
 *   - executes its requests itself in the submitting call, by plain system calls, however
 *     long they take, and posts their events;
 *   - does not sleep on descriptors of the library, and does not execute parked requests;
 *   - has a thread of the library, the agent, do work that may use the library's
 *     descriptors: waking a thread that sleeps in an epoll, cancelling, destroying a
 *     context, completing pending requests;
 *   - may close any descriptor, since none of its table's is the library's.
 *
 *   I1  While no thread can have another table, no thread is tested. From then on each
 *       thread is tested once, at its next call of the library.
 *   I2  The agent has the library's table. Its creator is the thread that starts the
 *       library, or a thread that is about to get a table of its own.
 *   I3  The test: the agent opens a descriptor, and closes it later; meanwhile the thread
 *       checks whether its own table has it. This needs no system call that the library
 *       does not make anyway.
 *   I4  The agent never waits: it creates another thread for a call that may wait.
 *
 * The library does not notice if a thread gets its own table by a system call that the
 * program makes inline.
 *
 * Context: any thread.
 *
 * Tested by test/host/tables.c.
 */
#ifndef UAIO_PROC_TABLE_H
#define UAIO_PROC_TABLE_H

#include <stdbool.h>

/* Called when the library starts: there is no agent. */
void uaio_table_init(void);

/*
 * Return: whether this thread has another table than the library. Called before the
 * thread enters the library: a thread that is inside and was never tested entered when
 * there was only one table.
 */
bool uaio_table_is_other(void);

/* Record that this thread has the library's table. */
void uaio_table_is_mine(void);

/*
 * Start the agent if there is none, and record that this thread has the library's table.
 * Return: 0; -EAGAIN if the agent cannot be started.
 */
int uaio_table_start_agent(void);

/*
 * Have the agent call act(arg), and wait until it returns. may_wait: the call may take
 * long, so the agent creates a thread for it.
 * Return: the result of act; -EAGAIN if there is no agent, or no such thread.
 */
typedef long uaio_table_act(const void *arg);

long uaio_table_call(uaio_table_act *act, const void *arg, bool may_wait);

/*
 * Enter the library, have act(arg) called by a thread with the library's table, and
 * leave. If this thread has another table, another thread, which may wait, makes the
 * call.
 * Return: the result of act; -EAGAIN: this thread is already inside, or there is no agent
 * or no other thread.
 */
long uaio_table_do(uaio_table_act *act, const void *arg);

/* Return: whether this is the program's only thread with the library's table. */
bool uaio_table_is_only_mine(void);

/*
 * Make system call nr, which gives this thread a table of its own, and close the copies
 * of the library's descriptors there.
 * Return: the result of the call; -ENOMEM.
 */
long uaio_table_part(long nr, const long args[3]);

/*
 * Called before this thread creates one with a table of its own. That table is a copy of
 * this thread's, and keeps the copies of the library's descriptors.
 * Return: 0 or -ENOMEM.
 */
int uaio_table_expect(void);

#endif /* UAIO_PROC_TABLE_H */
