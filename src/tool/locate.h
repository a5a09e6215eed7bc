/* SPDX-License-Identifier: MIT */
/*
 * What lies beside the running command: in the build tree, or wherever an
 * installed tree was moved to.
 */
#ifndef UAIO_TOOL_LOCATE_H
#define UAIO_TOOL_LOCATE_H

#include <limits.h>
#include <stdbool.h>

/* Return: false where there is no /proc to tell the command's directory. */
bool uaio_own_directory(char ret_dir[PATH_MAX]);

/*
 * Applies "../lib/uaio" to "/usr/bin", so that a user can read the outcome.
 *
 * Return: false if that is too long for a path.
 */
bool uaio_locate(const char *dir, const char *relative,
		 char ret_path[PATH_MAX]);

#endif
