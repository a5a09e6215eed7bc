/* SPDX-License-Identifier: MIT */
/*
 * Finding a command as execvp() does, but before the exec, so that its file can
 * be examined first.
 *
 * Tested by test/run/status.py.
 */
#ifndef UAIO_TOOL_COMMON_SEARCH_H
#define UAIO_TOOL_COMMON_SEARCH_H

#include <limits.h>

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

#endif
