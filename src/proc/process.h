/* SPDX-License-Identifier: MIT */
/*
 * The process that the library is in, and whether the library is started there
 *
 * Whether the library is started is recorded in a page that the kernel wipes in a child
 * of fork(), no matter how the program forks. So a child finds the library not started,
 * and starts it when needed. Memory that the parent's library mapped stays mapped in
 * the child. The child does not use this memory, because the threads that held its
 * locks do not exist in the child.
 *
 *   I1  The library starts at most once in a process, under a lock. A thread that finds
 *       the library started also finds all modules started.
 *   I2  A child of vfork() runs in its parent's memory but is another process. It
 *       neither starts the library nor creates threads. Where a call could do either,
 *       the library compares the process id to detect such a child.
 *   I3  While fork() copies the descriptor table, no descriptor of the library is opened
 *       or closed. So the child can close them all.
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
 * Called when the library is loaded. From then on, this module counts each fork() of a
 * process in which the library is started. After counting, and before the fork, the
 * module calls forks() without holding a lock. But forks() is not called if the fork is
 * made by a handler that interrupted the library.
 */
void uaio_process_load(void (*forks)(void));

/*
 * Start the library if necessary: first this module, then the other modules, by
 * start_parts(), which is called under the lock.
 * Return: 0; an error of start_parts(); -ENOMEM; -EAGAIN in a child of vfork(), and if
 * the agent (table.h) is needed and cannot be created.
 */
int uaio_process_start(int (*start_parts)(void));

/*
 * Keep the library from being started until uaio_engine_unlock_state(). *ret_is_up:
 * whether the library is already started.
 * Return: 0; -EAGAIN in a child of vfork(): then the state is not locked.
 */
int uaio_engine_lock_state(bool *ret_is_up);
void uaio_engine_unlock_state(void);

/*
 * Return: whether the caller is in the process in which the library is started, or may
 * be started. False in a child of vfork() or of a bare clone(), which runs in this
 * memory but is another process.
 */
bool uaio_engine_is_of_process(void);

/* Return: whether uaio_engine_is_of_process() is true and the library is started. */
bool uaio_engine_is_ours(void);

/*
 * Return: how often the library was started, in this process and its ancestors by fork().
 */
uint32_t uaio_engine_start_nr(void);

/*
 * Return: like uaio_engine_is_of_process(), but also true before the library has
 * recorded the id of its process.
 */
bool uaio_engine_is_owner(void);

/*
 * atomic: a number that grows at each fork() of this process and its ancestors: before
 * the child exists, and once more after fork().
 */
extern uint32_t uaio_process_nr_forks __attribute__((visibility("hidden")));

/* Return: whether the library is started; takes one load. */
bool uaio_engine_is_up(void);

/*
 * SPLIT: the library is started, and threads may have descriptor tables of their own. So
 * each thread must check its table (table.h) first.
 */
enum uaio_engine_state {
	UAIO_ENGINE_DOWN,
	UAIO_ENGINE_UP,
	UAIO_ENGINE_SPLIT,
};

enum uaio_engine_state uaio_engine_state(void);

/*
 * Return: whether the library is started, and this thread has the library's descriptor
 * table. May also be true in a child of vfork().
 */
bool uaio_engine_is_here(void);

/* Return: whether threads may have descriptor tables of their own; takes one load. */
bool uaio_engine_has_many_tables(void);
/*
 * Record that from now on threads may have descriptor tables of their own.
 * Return: 0; -EAGAIN: the agent (table.h) cannot be created.
 */
int uaio_engine_part_tables(void);

/*
 * Return: whether a descriptor in [first, last] is the library's and this thread must
 * not close or replace it; *ret_fd: the lowest such descriptor.
 */
bool uaio_own_fd(unsigned first, unsigned last, unsigned *ret_fd);

/*
 * Keep the library from opening or closing descriptors until uaio_own_fds_resume().
 * Return: false if the library is not started in this process, or if this thread has
 * another descriptor table or is inside the library (entry.h). Then the caller must not
 * call uaio_own_fds_resume().
 */
bool uaio_own_fds_quiesce(void);
void uaio_own_fds_resume(void);

#endif /* UAIO_PROC_PROCESS_H */
