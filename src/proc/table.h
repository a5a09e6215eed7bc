/* SPDX-License-Identifier: MIT */
/*
 * Descriptor tables
 *
 * Usually all threads of a process share one descriptor table. A thread gets another
 * table by unshare(CLONE_FILES), by close_range() with CLOSE_RANGE_UNSHARE, by clone()
 * without CLONE_FILES, or from its creator. The library's threads have the library's
 * table, and the library's descriptors are only in this table. In another table other
 * files have the same numbers.
 *
 * A thread whose descriptor table is not the library's:
 *   - executes its requests itself in the submitting call, by plain system calls,
 *     however long they take, and posts their events;
 *   - does not sleep on descriptors of the library, and does not execute parked
 *     requests;
 *   - lets a thread of the library, the agent, do work that may use the library's
 *     descriptors: waking a thread that sleeps in an epoll, cancelling, destroying a
 *     context, completing pending requests;
 *   - may close any descriptor, since no descriptor of its table is the library's.
 *
 *   I1  While all threads must have the same descriptor table, the library tests no
 *       thread's table. Once a thread may have another table, the library tests the
 *       table of each thread once, at the thread's next call of the library.
 *   I2  The agent has the library's table. Its creator is the thread that starts the
 *       library, or a thread that is about to get a table of its own.
 *   I3  To test a thread, the agent opens a descriptor, and closes it later; meanwhile
 *       the thread checks whether its own table has the descriptor. A sandbox allows
 *       this, as the library makes the same system calls for other purposes.
 *   I4  The agent makes no call that may wait: it creates another thread for such a
 *       call.
 *
 * The library does not notice if a thread gets its own descriptor table by a syscall
 * instruction of the program itself.
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
 * Return: whether this thread's table is not the library's. Called before the thread
 * enters the library. A thread that is already inside, and was never tested, entered
 * when there was only one table.
 */
bool uaio_table_is_other(void);

/* Record that this thread's descriptor table is the library's. */
void uaio_table_is_mine(void);

/*
 * Start the agent if there is none, and record that this thread's descriptor table is
 * the library's.
 * Return: 0; -EAGAIN if the agent cannot be started.
 */
int uaio_table_start_agent(void);

/*
 * Let the agent call act(arg), and wait until act returns. may_wait: the call may take
 * long, so the agent creates a thread for it.
 * Return: the result of act; -EAGAIN if there is no agent, or if that thread cannot be
 * created.
 */
typedef long uaio_table_act(const void *arg);

long uaio_table_call(uaio_table_act *act, const void *arg, bool may_wait);

/*
 * Enter the library, let a thread with the library's table call act(arg), and leave. If
 * this thread's descriptor table is the library's, this thread itself calls act.
 * Otherwise a thread that the agent creates calls act, which may wait.
 * Return: the result of act; -EAGAIN: this thread is already inside, or no thread could
 * make the call.
 */
long uaio_table_do(uaio_table_act *act, const void *arg);

/*
 * Return: whether this is the program's only thread with the library's descriptor
 * table.
 */
bool uaio_table_is_only_mine(void);

/*
 * Make system call nr, which gives this thread a table of its own. Then close the
 * copies of the library's descriptors in the new table.
 * Return: the result of the system call; -ENOMEM if the agent cannot be started.
 */
long uaio_table_part(long nr, const long args[3]);

/*
 * Called before this thread creates a thread with a table of its own. The new table is
 * a copy of this thread's table, and also has copies of the library's descriptors,
 * which stay open there.
 * Return: 0; -ENOMEM if the agent cannot be started.
 */
int uaio_table_expect(void);

#endif /* UAIO_PROC_TABLE_H */
