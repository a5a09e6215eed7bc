/* SPDX-License-Identifier: MIT */
/*
 * Finding files by their place relative to the running command, which is in a
 * build tree, or in an installed tree that may have been moved.
 *
 * Tested by test/run/environment.py and installed.py.
 */
#ifndef UAIO_TOOL_COMMON_LOCATE_H
#define UAIO_TOOL_COMMON_LOCATE_H

#include <limits.h>
#include <stdbool.h>

/*
 * Writes the directory of the running command to @ret_dir.
 *
 * Return: false where there is no /proc to read it from.
 */
bool uaio_own_directory(char ret_dir[PATH_MAX]);

/*
 * Joins @dir and @relative, and resolves each leading "../" of @relative, so
 * that messages show "/usr/lib/uaio" and not "/usr/bin/../lib/uaio".
 *
 * Return: false if the result is too long for a path.
 */
bool uaio_locate(const char *dir, const char *relative,
		 char ret_path[PATH_MAX]);

#endif
