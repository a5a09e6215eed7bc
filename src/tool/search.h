/* SPDX-License-Identifier: MIT */
/*
 * Finding the command to run, as execvp() finds it: but before the exec, so
 * that it can be examined.
 */
#ifndef UAIO_TOOL_SEARCH_H
#define UAIO_TOOL_SEARCH_H

#include <limits.h>

/*
 * Finds @name along PATH. What is put into @ret_path has a slash in it.
 *
 * Return: 0, or the exit status after a message.
 */
int uaio_search_command(const char *name, char ret_path[PATH_MAX]);

/*
 * Return: 0 if @path can be executed as far as its inode tells, else -errno;
 * a directory gives -EISDIR, where execve() would give EACCES.
 */
int uaio_search_probe(const char *path);

/*
 * Reports that @who cannot be executed.
 *
 * Return: the exit status that goes with @error, a -errno.
 */
int uaio_search_diag(const char *who, int error);

#endif
