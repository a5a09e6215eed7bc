/* SPDX-License-Identifier: MIT */
/*
 * The library's threads in the host's process
 *
 * They block all signals, have a small stack and a name, and are detached.
 * Their scheduling class is the ordinary one, whatever their creator's is. They
 * run on the processors that the process had when the library was loaded, or on
 * those of them that the options name, with the nice value that the options
 * name. Those that follow, the workers, the program may bind to some of these
 * processors.
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
 * Called when the library is loaded, once the options are read: note the
 * processors, before the host pins its main thread.
 */
void uaio_threads_init(void);

/*
 * Start a thread that runs main(arg).
 * Return: 0; -EAGAIN if it cannot be created. Also in a child of vfork(), since
 * the thread would outlive it in the parent's memory; and if this thread, and
 * so the new one, has another descriptor table than the library.
 * Context: any thread. It holds no lock, except one under which it notes that
 * there is such a thread now.
 */
int uaio_thread_start(void *(*main)(void *), void *arg);

/*
 * Start a thread that is the client's: it has the attributes attr, or the usual ones,
 * is detached unless attr says otherwise, blocks all signals, and is not counted. It has
 * the descriptor table of its creator.
 * Return: 0; -EAGAIN, as above.
 */
int uaio_thread_start_for_client(void *(*main)(void *), void *arg,
				 const pthread_attr_t *attr);

/*
 * What such a thread calls first if a thread of the library's has created it: it has
 * the processors that the program had when it was loaded, unless it keeps those of its
 * attributes, and the program's name. It keeps its creator's nice value, which could
 * not always be made lower.
 */
void uaio_thread_become_clients(bool keeps_cpus);

/*
 * Called when the library comes up in a process: the threads of a parent do not
 * exist here.
 */
void uaio_threads_forget(void);

struct uaio_thread_counts {
	uint32_t nr;      /* alive */
	uint32_t nr_ever; /* started since the library came up */
	uint32_t peak;    /* most that were alive at the same time */
};

/* Count the library's threads. One that has just started may be missing. */
void uaio_threads_count(struct uaio_thread_counts *ret_counts);

/*
 * Count them there as well, for others to read; NULL: nowhere. Called when the library
 * comes up, before it has threads.
 */
void uaio_threads_tell(struct uaio_thread_counts *where);

/*
 * Return: whether the main thread has ended and only threads of the library are
 * left; then they have to end, so that the process does. Context: one of them.
 */
bool uaio_threads_are_last(void);

/* Return: whether the library's threads may use more than one processor. */
bool uaio_cpus_are_many(void);

/* Return: how many bytes a set of processors has in the kernel. */
size_t uaio_cpus_bytes(void);

/*
 * Bind the threads that follow to processors; none: to all that the library's
 * threads may use. Each goes there when it looks next.
 * Return: 0; -EINVAL if the library's threads may not use one of them.
 */
int uaio_threads_bind(const struct uaio_cpus *cpus);

/* How often threads were bound; atomic. */
extern uint32_t uaio_threads_nr_binds __attribute__((visibility("hidden")));

void uaio_thread_follow_slowly(uint32_t *seen);

/* Follow. *seen is the thread's, and 0 at first. */
static inline void uaio_thread_follow(uint32_t *seen)
{
	/* relaxed: what the client submits afterwards comes by a lock */
	if (unlikely(load_relaxed(&uaio_threads_nr_binds) != *seen))
		uaio_thread_follow_slowly(seen);
}

/*
 * Give this thread an I/O priority, while it executes a request.
 * Return: what to hand to uaio_thread_give_ioprio() afterwards.
 */
int uaio_thread_take_ioprio(int ioprio);
void uaio_thread_give_ioprio(int old);

/* Return: how often the calling thread has slept; 0 if that is not known. */
uint64_t uaio_thread_nr_sleeps(void);

/* What a thread's main calls first. Of the name 15 characters are kept. */
void uaio_thread_begin(const char *name);

/* What a thread's main calls last. */
void uaio_thread_end(void);

#endif /* UAIO_PROC_THREAD_H */
