/* SPDX-License-Identifier: MIT */
/*
 * Threads of the library inside somebody else's process
 *
 * They block all signals, have a small stack, carry a name, run with ordinary
 * scheduling on the processors the process had when the library was loaded, or
 * on those of them that the options name, with the nice value that the options
 * say, and are detached: nobody has to join them.
 */
#ifndef UAIO_PROC_THREAD_H
#define UAIO_PROC_THREAD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * At load, after the options: remember the processors, before the host pins its
 * main thread.
 */
void uaio_threads_init(void);

/*
 * Return: 0 or -EAGAIN; also in a child of vfork(), whose thread would outlive
 * it in our memory, and where the thread would have another descriptor table.
 * Context: any thread, holding no lock but that under which it is noted that
 * there is such a thread.
 */
int uaio_thread_start(void *(*main)(void *), void *arg);

/* When the library comes up in a process: a parent's threads are not here. */
void uaio_threads_forget(void);

struct uaio_thread_counts {
	uint32_t nr;      /* alive */
	uint32_t nr_ever; /* since the library came up */
	uint32_t peak;    /* alive at a time */
};

/* Threads of the library; one that is just starting may be missing. */
void uaio_threads_count(struct uaio_thread_counts *ret_counts);

/*
 * Return: whether the main thread has ended and only threads of the library
 * remain: then the process is to end with them. Context: one of them.
 */
bool uaio_threads_are_last(void);

/* Return: whether the threads may use more than one processor. */
bool uaio_cpus_are_many(void);

/*
 * The I/O priority of this thread, for one request.
 * Return: what to give back when it is made.
 */
int uaio_thread_take_ioprio(int ioprio);
void uaio_thread_give_ioprio(int old);

/* First thing in main: the name (15 characters are kept), the place. */
void uaio_thread_begin(const char *name);

/* Last thing in main. */
void uaio_thread_end(void);

#endif /* UAIO_PROC_THREAD_H */
