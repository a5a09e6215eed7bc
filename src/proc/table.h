/* SPDX-License-Identifier: MIT */
/*
 * Descriptor tables
 *
 * The threads of a process share one table of descriptors, but for those that
 * have parted from it: by unshare(CLONE_FILES), by close_range() that is told
 * to, by clone() without CLONE_FILES, or because who created them had. What the
 * engine remembers by number, and its own descriptors, are of one table: that of
 * its threads. To a thread with another a number is another file. So it
 *
 *   - makes its requests itself, when it submits them, by plain calls, however
 *     long they take, and posts their events;
 *   - sleeps for events by nothing that has a number, and makes nobody's parked
 *     requests;
 *   - has a thread of ours, the agent, do what may use a number of the library's:
 *     wake who sleeps in an epoll, cancel, destroy, finish what is pending;
 *   - closes what it likes: nothing is known of its numbers.
 *
 *   I1  Nobody asks which table a thread has until one may have parted; from
 *       then on each is asked once, when it calls in.
 *   I2  The agent has the library's table: it is created by who is about to part
 *       and has that table still, or by who brings the engine up.
 *   I3  Asking is trying: the agent opens a descriptor, and closes it, and the
 *       thread looks at the number. No call is made for it that is not made
 *       anyway.
 *   I4  The agent waits for nobody: what may wait, a thread of its own does.
 *
 * Not seen are tables parted by a system call that is made inline.
 *
 * Context: any thread.
 */
#ifndef UAIO_PROC_TABLE_H
#define UAIO_PROC_TABLE_H

#include <stdbool.h>

/* From nothing. */
void uaio_table_init(void);

/*
 * Return: whether this thread has another table than the engine. Asked before
 * the engine is entered: who is inside and was never asked entered when there was
 * one table only.
 */
bool uaio_table_is_other(void);

/* This thread's table is the library's. */
void uaio_table_is_mine(void);

/* Return: 0, or -EAGAIN: there can be no agent. This thread's is the library's. */
int uaio_table_start_agent(void);

/*
 * Have the agent call act, and wait for what it returns; may_wait: it may take
 * long, and is another thread's.
 * Return: that; -EAGAIN if there is no thread for it.
 */
typedef long uaio_table_act(const void *arg);

long uaio_table_call(uaio_table_act *act, const void *arg, bool may_wait);

/* Return: whether no thread of the host's but this one has its table. */
bool uaio_table_is_only_mine(void);

/*
 * Make a system call, nr with these arguments, after which this thread has a
 * table of its own. Copies of the library's descriptors are not left in it.
 * Return: as the call; -ENOMEM.
 */
long uaio_table_part(long nr, const long args[3]);

/*
 * A thread is about to be created that has a table of its own, a copy: with what
 * is in it of the library's. Return: 0 or -ENOMEM.
 */
int uaio_table_expect(void);

#endif /* UAIO_PROC_TABLE_H */
