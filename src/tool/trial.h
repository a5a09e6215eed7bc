/* SPDX-License-Identifier: MIT */
/*
 * Trying system calls behind the filters of a sandbox
 *
 * The library makes calls that it can do without only where they are known to
 * end nobody (base/calls.h). So each is tried by a child, whose end tells.
 */
#ifndef UAIO_TOOL_TRIAL_H
#define UAIO_TOOL_TRIAL_H

/*
 * Set the variable that tells the library, if there is a filter.
 * Return: 0 or -errno. Without children to be had nothing is told.
 */
int uaio_trial_set(void);

#endif /* UAIO_TOOL_TRIAL_H */
