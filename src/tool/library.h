/* SPDX-License-Identifier: MIT */
/*
 * Where the library is. The first of these that holds it wins:
 *
 *   1. the directory of the running `uaio` itself: the build tree;
 *   2. the directory of installed libraries, at the place it was given relative
 *      to the directory of installed commands: so an installed tree may be
 *      moved, or staged elsewhere, as a whole;
 *   3. the directory of installed libraries as it was configured: for a copy
 *      of `uaio` alone, and where there is no /proc.
 */
#ifndef UAIO_TOOL_LIBRARY_H
#define UAIO_TOOL_LIBRARY_H

#include <limits.h>

#define UAIO_LIBRARY "libuaio.so.0"

/*
 * Puts the canonical path of the library's directory into @ret_dir, which can
 * stand in LD_PRELOAD and LD_LIBRARY_PATH then.
 *
 * Return: 0, or the exit status after a message.
 */
int uaio_library_find(char ret_dir[PATH_MAX]);

#endif
