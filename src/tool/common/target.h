/* SPDX-License-Identifier: MIT */
/*
 * Finds the file of the program to run, and checks whether it can run with the library
 *
 * The loader ignores LD_PRELOAD for a privileged program, and a static program has no
 * loader. A program that would run without the library is refused with a message,
 * unless the trap can serve it. If the program were not refused, users might take the
 * kernel's AIO for the library's.
 *
 * Tested by test/run/targets.py.
 */
#ifndef UAIO_TOOL_COMMON_TARGET_H
#define UAIO_TOOL_COMMON_TARGET_H

#include <limits.h>
#include <stdbool.h>

#include "options/options.h"

/* search.c: finds a command in the same way as execvp(), but does not execute it */

/*
 * Find the command @name in the directories of PATH. The path in @ret_path always
 * contains a slash.
 *
 * Return: 0, or the exit status after a message.
 */
int uaio_search_command(const char *name, char ret_path[PATH_MAX]);

/* Like uaio_search_command(), but with @hint at the end of the message. */
int uaio_search_hinted(const char *name, const char *hint,
		       char ret_path[PATH_MAX]);

/*
 * Like uaio_search_command(), but without a message.
 *
 * Return: 0 or -errno.
 */
int uaio_search(const char *name, char ret_path[PATH_MAX]);

/*
 * Return: 0 if @path is a regular file that this process may execute, else -errno;
 * -EISDIR for a directory, for which execve() would return EACCES.
 */
int uaio_search_probe(const char *path);

/*
 * Report why @who cannot be executed.
 *
 * error: a -errno.
 * Return: the exit status for this error.
 */
int uaio_search_diag(const char *who, int error);

/* target.c */

/* How to run a program, as found by uaio_target_check(). */
struct uaio_target {
	/*
	 * The trap must serve the program, usually because the library cannot be loaded
	 * into it.
	 */
	bool needs_trap;
	/* the file to execute; for a script, its interpreter */
	char file[PATH_MAX];
	/* the argument on the script's #! line; may be empty */
	char word[PATH_MAX];
	/* nesting depth of scripts; 0: the program is not a script */
	int nr_scripts;
};

/*
 * Check whether the library can serve @path or, if that is a script, its interpreter.
 * @when says when to use the trap. With "off", this function refuses programs that need
 * the trap; with "always", all programs need the trap. The function refuses a program
 * for which the kernel would set AT_SECURE (secure.c). A file that it cannot read is
 * accepted without further checks.
 *
 * Return: 0, or the exit status after a message.
 */
int uaio_target_check(const char *path, enum uaio_trap_when when,
		      struct uaio_target *ret_target);

/*
 * Find the file that is executed for @path: @path itself or, for a script, its
 * interpreter.
 */
void uaio_target_program(const char *path, char ret_file[PATH_MAX]);

/* secure.c */

struct uaio_secure {
	const char *reason; /* words that follow the file's name in a message */
	const char *advice; /* what to do instead */
};

/*
 * Return: why an execution of @path would be secure (AT_SECURE), so that the loader
 * would ignore LD_PRELOAD; NULL if the execution would not be secure.
 */
const struct uaio_secure *uaio_secure_if_executed(const char *path);

#endif /* UAIO_TOOL_COMMON_TARGET_H */
