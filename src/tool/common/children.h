/* SPDX-License-Identifier: MIT */
/*
 * Makes attempts (tries) in child processes, because an attempt may kill its process
 *
 * For example, a seccomp filter may kill the caller of a system call, and a library may
 * crash when it is loaded. A child process makes one attempt after the other. If an
 * attempt kills the child, another child makes the remaining ones.
 *
 * Tested by test/sandbox/filters.py and test/run/doctor.py.
 */
#ifndef UAIO_TOOL_COMMON_CHILDREN_H
#define UAIO_TOOL_COMMON_CHILDREN_H

#include <stddef.h>

#include "base/calls.h"

struct uaio_tries {
	unsigned nr;
	/*
	 * Called in a child: make attempt i, and store its result in the shared memory.
	 */
	void (*make)(void *memory, unsigned i);
	/*
	 * Called in the parent after the child that made attempt i died of this signal.
	 * May be NULL.
	 */
	void (*died)(void *memory, unsigned i, int signal);
	/* SIGALRM kills a child after this number of seconds; 0: never */
	unsigned seconds;
};

/* Return: zeroed memory that this process and its children share; or NULL. */
void *uaio_shared_new(size_t bytes);
void uaio_shared_free(void *memory, size_t bytes);

/*
 * Make all attempts. memory: comes from uaio_shared_new(), and is passed to each
 * attempt.
 *
 * Return: 0; -errno if no child can be forked; -EIO if a child ended before its first
 * attempt.
 */
int uaio_tries_make(const struct uaio_tries *tries, void *memory);

/*
 * sandbox.c: finds out which system calls a seccomp filter allows
 *
 * A seccomp filter may kill a process for a system call. The library makes a call of
 * base/calls.h only if the call is known not to kill. So a child process tries each of
 * these calls; if the child dies, the filter kills a process that makes the call.
 */

/*
 * Try all calls of base/calls.h.
 * Return: 0, and *ret_calls has the allowed calls; -errno if they could not be tried.
 */
int uaio_sandbox_try(struct uaio_call_set *ret_calls);

/*
 * If this process has a seccomp filter, find out which calls are allowed, and set the
 * environment variable from which the library learns this. If no child can be forked,
 * the variable is not set.
 * Return: 0, or -ENOMEM.
 */
int uaio_sandbox_set_variable(void);

#endif /* UAIO_TOOL_COMMON_CHILDREN_H */
