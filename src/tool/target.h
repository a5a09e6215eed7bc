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
#include <stdbool.h>

/* How a program is to be run. */
struct uaio_target {
	/* The library cannot be loaded into it: it needs the trap. */
	bool needs_trap;
	char file[PATH_MAX]; /* what is executed: a script's interpreter */
	char word
		[PATH_MAX]; /* the argument on the script's #! line, or empty */
	int nr_scripts;     /* 0: the program is no script */
};

/*
 * Examines @path or, if it is a script, its interpreter. A file that cannot be
 * read passes, unless it is set to run with privilege. What needs the trap passes
 * if @may_trap.
 *
 * Return: 0, or the exit status after a message.
 */
int uaio_target_check(const char *path, bool may_trap,
		      struct uaio_target *ret_target);

/* The file that is executed for @path: itself or, if it is a script, what
 * interprets it. */
void uaio_target_program(const char *path, char ret_file[PATH_MAX]);

#endif
