/* SPDX-License-Identifier: MIT */
/*
 * The process that the library is in, and whether the library is up there
 *
 * That is noted in a page which the kernel wipes in a child of fork(), in
 * whatever way the host forks. So the child finds the library down, without any
 * state of its parent's, and brings it up again when it needs it. Memory that
 * the parent's library had mapped stays mapped in the child and is not used:
 * the threads that held its locks do not exist there.
 *
 *   I1  The library comes up at most once in a process, under a lock. A thread
 *       that finds it up finds all of its parts up.
 *   I2  A child of vfork() runs in its parent's memory but is another process.
 *       It brings nothing up and starts no thread. Where it could do harm, the
 *       process id is compared to find out whether the caller is such a child.
 *   I3  While fork() copies the descriptor table, none of the library's own
 *       descriptors is opened or closed. So the child can close them all.
 *
 * Context: any thread.
 *
 * Tested by test/host/children.c.
 */
#ifndef UAIO_PROC_PROCESS_H
#define UAIO_PROC_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Called when the library is loaded. forks: called before each fork() of a process in
 * which the library is up, once the fork is counted; without a lock. Not if the thread
 * is inside the library, as a handler is that has interrupted it.
 */
void uaio_process_load(void (*forks)(void));

/*
 * Bring the library up if it is down: first this room, then the others, by
 * start_parts(), which is called under the lock.
 * Return: 0; an error of start_parts(); -ENOMEM; -EAGAIN in a child of vfork(),
 * and where the agent is needed (table.h) and cannot be had.
 */
int uaio_process_start(int (*start_parts)(void));

/*
 * Between these two calls the library does not come up. *ret_is_up: whether it
 * is up already.
 * Return: 0; -EAGAIN in a child of vfork(): then the state is not locked.
 */
int uaio_engine_lock_state(bool *ret_is_up);
void uaio_engine_unlock_state(void);

/*
 * Return: whether the caller is in the process in which the library is up, or
 * can come up: a child of vfork() or of a bare clone() runs in our memory, but
 * is another process.
 */
bool uaio_engine_is_of_process(void);

/* Return: the same, and the library is up. */
bool uaio_engine_is_ours(void);

/*
 * Return: how often the library has come up, in this process and in those that
 * it was forked from.
 */
uint32_t uaio_engine_start_nr(void);

/* Return: as uaio_engine_is_of_process(); true before any process is noted. */
bool uaio_engine_is_owner(void);

/*
 * How often this process has forked, and those that it was forked from; atomic. It
 * is counted before the child is there.
 */
extern uint32_t uaio_process_nr_forks __attribute__((visibility("hidden")));

/* Return: whether the library is up. It costs one load. */
bool uaio_engine_is_up(void);

/*
 * The same in more detail. SPLIT: it is up, and threads may have descriptor
 * tables of their own; so each must be asked (table.h) before it goes on.
 */
enum uaio_engine_state {
	UAIO_ENGINE_DOWN,
	UAIO_ENGINE_UP,
	UAIO_ENGINE_SPLIT,
};

enum uaio_engine_state uaio_engine_state(void);

/*
 * Return: whether the library is up, and this thread has the descriptor table
 * that the library's knowledge is about. A child of vfork() may not be noticed.
 */
bool uaio_engine_is_here(void);

/* Return: whether threads may have tables of their own. It costs one load. */
bool uaio_engine_has_many_tables(void);
/*
 * From now on they may. Return: 0, or -EAGAIN if the agent cannot be started.
 */
int uaio_engine_part_tables(void);

/*
 * Return: whether a descriptor in [first, last] is the library's own, and this
 * thread must not touch it; *ret_fd: the lowest of these.
 */
bool uaio_own_fd(unsigned first, unsigned last, unsigned *ret_fd);

/*
 * Between these two calls none of the library's own descriptors is opened or
 * closed.
 * Return: false if the library is down in this process, or this thread has
 * another descriptor table, or is inside the library already (entry.h). Then
 * uaio_own_fds_resume() must not be called.
 */
bool uaio_own_fds_quiesce(void);
void uaio_own_fds_resume(void);

#endif /* UAIO_PROC_PROCESS_H */
