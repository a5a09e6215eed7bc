/* SPDX-License-Identifier: MIT */
/*
 * The library's threads in the program's process
 *
 * The library's threads block all signals, have a small stack and a name, and are
 * detached. Their scheduling class is SCHED_OTHER, even if their creator has another
 * class. They run with the nice value that an option sets, on the processors that the
 * process had when the library was loaded. An option may restrict these processors, and
 * the program may bind the workers to some of them.
 *
 * Tested by test/run/threads.py, test/host/limits.c and test-queue-limits.c.
 */
#ifndef UAIO_PROC_THREAD_H
#define UAIO_PROC_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/check.h"

struct uaio_cpus;

/*
 * Called when the library is loaded and the options are read: record the process's
 * processors, before the program binds its main thread to some of them.
 */
void uaio_threads_init(void);

/*
 * Start a thread that runs main(arg).
 * Return: 0; -EAGAIN if the thread cannot be created. Also -EAGAIN in a child of
 * vfork(), since the thread would outlive the child in its parent's memory. Also
 * -EAGAIN if this thread's descriptor table is not the library's, since the new thread
 * would inherit this table.
 * Context: any thread. It may hold only a lock under which it records that the new
 * thread exists.
 */
int uaio_thread_start(void *(*main)(void *), void *arg);
/*
 * Like uaio_thread_start(), but another thread must wait for the end of the new thread by
 * pthread_join().
 */
int uaio_thread_start_joinable(void *(*main)(void *), void *arg);

/*
 * Start a thread for the client. The thread runs main(arg), and has the attributes
 * *attr; if attr is NULL, it is detached. The thread blocks all signals, and has its
 * creator's descriptor table. uaio_threads_count() does not count the thread.
 * Return: 0; -EAGAIN if the thread cannot be created, and in a child of vfork().
 */
int uaio_thread_start_for_client(void *(*main)(void *), void *arg,
				 const pthread_attr_t *attr);

/*
 * Called first in a client's thread that a thread of the library has created. Gives the
 * thread the program's name, and, unless keeps_cpus, the processors that the program
 * had when the library was loaded. The thread keeps its creator's nice value, since the
 * system may not allow lowering it.
 */
void uaio_thread_become_clients(bool keeps_cpus);

/*
 * Called when the library starts in a process: reset all counts of threads. A child of
 * fork() does not have its parent's threads.
 */
void uaio_threads_forget(void);

struct uaio_thread_counts {
	uint32_t nr; /* alive */
	/* how many threads were started since the library was started */
	uint32_t nr_ever;
	/* the greatest number of threads alive at the same time */
	uint32_t peak;
};

/* Count the library's threads. A thread that has just started may be missing. */
void uaio_threads_count(struct uaio_thread_counts *ret_counts);

/*
 * From now on keep a second copy of the counts in *where, for other processes to read;
 * NULL: no copy. Called when the library starts, before it has threads.
 */
void uaio_threads_tell(struct uaio_thread_counts *where);

/*
 * Return: whether the main thread has ended and only threads of the library are left.
 * Then these threads must end, so that the process ends. Context: a thread of the
 * library.
 */
bool uaio_threads_are_last(void);

/* Return: whether the library's threads may use more than one processor. */
bool uaio_cpus_are_many(void);

/* Return: the size of the kernel's processor sets in bytes. */
size_t uaio_cpus_bytes(void);

/*
 * Bind the workers to processors. An empty set stands for all processors that the
 * library's threads may use. Each worker moves when it next calls uaio_thread_follow().
 * Return: 0; -EINVAL if the library's threads may not use one of the processors.
 */
int uaio_threads_bind(const struct uaio_cpus *cpus);

/* atomic: how often uaio_threads_bind() has bound workers */
extern uint32_t uaio_threads_nr_binds __attribute__((visibility("hidden")));

void uaio_thread_follow_slowly(uint32_t *seen);

/*
 * Move this thread to the bound processors, if they have changed. *seen belongs to the
 * thread, and is 0 at first.
 */
static inline void uaio_thread_follow(uint32_t *seen)
{
	/*
	 * relaxed: a request that the client submits after the bind reaches the worker
	 * through a lock, so the worker sees the new value before that request
	 */
	if (unlikely(load_relaxed(&uaio_threads_nr_binds) != *seen))
		uaio_thread_follow_slowly(seen);
}

/*
 * Set the I/O priority of this thread while it executes a request.
 * Return: the argument for the later uaio_thread_give_ioprio().
 */
int uaio_thread_take_ioprio(int ioprio);
void uaio_thread_give_ioprio(int old);

/* Return: how often the calling thread has slept; 0 if unknown. */
uint64_t uaio_thread_nr_sleeps(void);

/*
 * Called first by the main function of a thread. The kernel keeps 15 characters of
 * name.
 */
void uaio_thread_begin(const char *name);

/*
 * Called last by the main function of a thread of the library: the thread is no longer
 * counted.
 */
void uaio_thread_end(void);

#endif /* UAIO_PROC_THREAD_H */
