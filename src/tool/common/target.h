/* SPDX-License-Identifier: MIT */
/*
 * The program that is to be run: finding its file, and checking that it can be run with
 * the library. The loader silently ignores LD_PRELOAD for a privileged program, and a
 * static program has no loader. We refuse these with a message, so that nobody takes the
 * kernel's AIO for ours.
 *
 * Tested by test/run/targets.py.
 */
#ifndef UAIO_TOOL_COMMON_TARGET_H
#define UAIO_TOOL_COMMON_TARGET_H

#include <limits.h>
#include <stdbool.h>

#include "options/options.h"

/*
 * search.c: finding a command as execvp() does, but before the exec, so that its file can
 * be examined first
 */

/*
 * Finds @name along PATH. The path in @ret_path always contains a slash.
 *
 * Return: 0, or the exit status after a message.
 */
int uaio_search_command(const char *name, char ret_path[PATH_MAX]);

/* As uaio_search_command(), with @hint at the end of the message. */
int uaio_search_hinted(const char *name, const char *hint,
		       char ret_path[PATH_MAX]);

/*
 * As uaio_search_command(), without a message.
 *
 * Return: 0 or -errno.
 */
int uaio_search(const char *name, char ret_path[PATH_MAX]);

/*
 * Return: 0 if the type and the permissions of @path allow it to be executed,
 * else -errno; a directory gives -EISDIR, where execve() would give EACCES.
 */
int uaio_search_probe(const char *path);

/*
 * Reports that @who cannot be executed.
 *
 * Return: the exit status for @error, a -errno.
 */
int uaio_search_diag(const char *who, int error);

/* target.c */

/* How a program is to be run. */
struct uaio_target {
	/* It is to have the trap: the library cannot be loaded into it, as a rule. */
	bool needs_trap;
	char file[PATH_MAX]; /* what is executed: a script's interpreter */
	char word
		[PATH_MAX]; /* the argument on the script's #! line, or empty */
	int nr_scripts;     /* 0: the program is no script */
};

/*
 * Examines @path or, if it is a script, its interpreter. A file that cannot be
 * read passes, unless it is set to run with privilege. What needs the trap passes
 * unless @when is off; with "always", all of this processor's programs need it.
 *
 * Return: 0, or the exit status after a message.
 */
int uaio_target_check(const char *path, enum uaio_trap_when when,
		      struct uaio_target *ret_target);

/* The file that is executed for @path: itself or, if it is a script, what
 * interprets it. */
void uaio_target_program(const char *path, char ret_file[PATH_MAX]);

/* secure.c */

struct uaio_secure {
	const char *reason; /* continues a sentence after the file's name */
	const char *advice; /* what to do instead */
};

/* Return: why executing @path would be secure, or NULL if it would not be. */
const struct uaio_secure *uaio_secure_if_executed(const char *path);

#endif /* UAIO_TOOL_COMMON_TARGET_H */
