/* SPDX-License-Identifier: MIT */
/*
 * Makes attempts that may kill their process in child processes
 *
 * A seccomp filter may kill the caller of a system call, and a library may crash when
 * it is first loaded. So a child process makes the attempts in order. If one kills the
 * child, another child continues with the next attempt.
 *
 * Tested by test/sandbox/filters.py and test/run/doctor.py.
 */
#ifndef UAIO_TOOL_COMMON_CHILDREN_H
#define UAIO_TOOL_COMMON_CHILDREN_H

#include <stddef.h>

#include "base/calls.h"

struct uaio_tries {
	unsigned nr;
	/* Make attempt i, in a child, and store its result in memory. */
	void (*make)(void *memory, unsigned i);
	/* Called in the parent: attempt i killed its child by this signal. May be NULL. */
	void (*died)(void *memory, unsigned i, int signal);
	unsigned seconds; /* SIGALRM kills a child after this time; 0: never */
};

/* Return: zeroed memory that is shared with child processes, or NULL. */
void *uaio_shared_new(size_t bytes);
void uaio_shared_free(void *memory, size_t bytes);

/*
 * Make all attempts. memory: from uaio_shared_new().
 *
 * Return: 0; -errno if no child can be forked; -EIO if a child ended before its first
 * attempt.
 */
int uaio_tries_make(const struct uaio_tries *tries, void *memory);

/*
 * sandbox.c: trying system calls behind the filters of a sandbox
 *
 * The library makes the system calls of base/calls.h only where they are known not to
 * kill the process. So a child process tries each of these calls. If the child dies,
 * the filter kills for this call.
 */

/*
 * Try all of these calls. Return: 0, with the calls that the kernel answered; or
 * -errno.
 */
int uaio_sandbox_try(struct uaio_call_set *ret_calls);

/*
 * If there is a filter, find out which calls may be made, and set the environment
 * variable from which the library learns this. If no child can be forked, the variable
 * is left unchanged.
 * Return: 0 or -errno.
 */
int uaio_sandbox_set_variable(void);

#endif /* UAIO_TOOL_COMMON_CHILDREN_H */
