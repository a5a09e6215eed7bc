/* SPDX-License-Identifier: MIT */
/*
 * Checking that a program can be run with the library. The loader silently
 * ignores LD_PRELOAD for a privileged program, and a static program has no
 * loader. We refuse these with a message, so that nobody takes the kernel's AIO
 * for ours.
 *
 * Tested by test/run/targets.py.
 */
#ifndef UAIO_TOOL_TARGET_H
#define UAIO_TOOL_TARGET_H

#include <limits.h>

/*
 * Examines @path or, if it is a script, its interpreter. A file that cannot be
 * read passes, unless it is set to run with privilege.
 *
 * Return: 0, or the exit status after a message.
 */
int uaio_target_check(const char *path);

/* The file that is executed for @path: itself or, if it is a script, what
 * interprets it. */
void uaio_target_program(const char *path, char ret_file[PATH_MAX]);

#endif
