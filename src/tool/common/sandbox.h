/* SPDX-License-Identifier: MIT */
/*
 * Trying system calls behind the filters of a sandbox
 *
 * The library makes the system calls of base/calls.h only where they are known
 * not to kill the process. So a child process tries each of them, and its death
 * shows which the filter kills for.
 *
 * Tested by test/sandbox/filters.py.
 */
#ifndef UAIO_TOOL_COMMON_SANDBOX_H
#define UAIO_TOOL_COMMON_SANDBOX_H

#include "base/calls.h"

/*
 * Try all of them.
 * Return: 0 with those that the kernel answered, or -errno.
 */
int uaio_sandbox_try(struct uaio_call_set *ret_calls);

/*
 * If there is a filter, find out which calls may be made, and set the variable
 * that tells the library so. If no child can be forked, the variable is left
 * as it is.
 * Return: 0 or -errno.
 */
int uaio_sandbox_set_variable(void);

#endif /* UAIO_TOOL_COMMON_SANDBOX_H */
