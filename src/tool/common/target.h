/* SPDX-License-Identifier: MIT */
/*
 * The program to run: finding its file, and checking that it can run with the library
 *
 * The loader ignores LD_PRELOAD for a privileged program, and a static program has no
 * loader. Such programs are refused with a message, so that nobody takes the kernel's
 * AIO for the library's.
 *
 * Tested by test/run/targets.py.
 */
#ifndef UAIO_TOOL_COMMON_TARGET_H
#define UAIO_TOOL_COMMON_TARGET_H

#include <limits.h>
#include <stdbool.h>

#include "options/options.h"

/* search.c: finding a command like execvp(), but before the exec */

/*
 * Find @name along PATH. The path in @ret_path always contains a slash.
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
 * Return: 0 if the type and the permissions of @path allow its execution, else -errno;
 * -EISDIR for a directory, where execve() returns EACCES.
 */
int uaio_search_probe(const char *path);

/*
 * Report why @who cannot be executed.
 *
 * Return: the exit status for @error, a -errno.
 */
int uaio_search_diag(const char *who, int error);

/* target.c */

/* How to run a program. */
struct uaio_target {
	/*
	 * The program needs the trap, usually because the library cannot be loaded into
	 * it.
	 */
	bool needs_trap;
	/* the file to execute; for a script, its interpreter */
	char file[PATH_MAX];
	char word[PATH_MAX]; /* the argument on a script's #! line, or empty */
	/* nesting depth of scripts; 0: the program is not a script */
	int nr_scripts;
};

/*
 * Examine @path or, if it is a script, its interpreter. Accepts unreadable files unless
 * they would run with privilege. Accepts programs that need the trap unless @when is
 * off; with "always", all programs of this machine need it.
 *
 * Return: 0, or the exit status after a message.
 */
int uaio_target_check(const char *path, enum uaio_trap_when when,
		      struct uaio_target *ret_target);

/*
 * Find the file to execute for @path: @path itself or, if it is a script, its
 * interpreter.
 */
void uaio_target_program(const char *path, char ret_file[PATH_MAX]);

/* secure.c */

struct uaio_secure {
	const char *reason; /* continues a sentence after the file's name */
	const char *advice; /* what to do instead */
};

/* Return: the reason why executing @path would be secure (AT_SECURE), or NULL. */
const struct uaio_secure *uaio_secure_if_executed(const char *path);

#endif /* UAIO_TOOL_COMMON_TARGET_H */
