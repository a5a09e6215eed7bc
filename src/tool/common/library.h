/* SPDX-License-Identifier: MIT */
/*
 * Finds the installed library, and the programs installed beside it. The library is
 * used from the first of these directories that contains it:
 *
 *   1. the directory of the running `uaio`, which is a build tree's;
 *   2. the directory of installed libraries, by its path relative to the running
 *      `uaio`, so that an installed tree can be moved or staged as a whole;
 *   3. the directory of installed libraries, by its configured absolute path: for a
 *      `uaio` that was copied alone, and where there is no /proc.
 *
 * Tested by test/run/environment.py.
 */
#ifndef UAIO_TOOL_COMMON_LIBRARY_H
#define UAIO_TOOL_COMMON_LIBRARY_H

#include <limits.h>
#include <stdbool.h>

#define UAIO_LIBRARY "libuaio.so.0"

/*
 * A library that is preloaded before the library. It reports to the library which
 * memory the program frees.
 */
#define UAIO_CHECK_LIBRARY "libuaio-check.so"

/*
 * Find the library's directory and write its canonical path to @ret_dir. Refuses a path
 * that LD_PRELOAD or LD_LIBRARY_PATH cannot hold.
 *
 * Return: 0, or the exit status after a message.
 */
int uaio_library_find(char ret_dir[PATH_MAX]);

/*
 * Return: whether the library was built for musl, so that only musl programs can load
 * it. A command built for glibc has a library for glibc.
 */
bool uaio_library_is_for_musl(void);

/*
 * Find a program that is installed with the library, or that lies beside the command in
 * its build tree. Return: whether it exists.
 */
bool uaio_library_find_program(const char *name, char ret_path[PATH_MAX]);

/* locate.c */

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

/* preload.c */

/*
 * Put the library in @dir first in LD_PRELOAD, and @dir first in LD_LIBRARY_PATH: @dir
 * has links with the names of libaio. Also set options with which programs with
 * AddressSanitizer can start. If UAIO_CHECK_VARIABLE is set, libuaio-check.so comes
 * before the library, if it exists.
 *
 * Return: 0, or -ENOMEM.
 */
int uaio_preload_set(const char *dir);

/*
 * dynamic.c: the dynamic build of the command
 *
 * A release has a static command, which starts with any C library. But no library can
 * be preloaded into a static program. So a dynamic build of the command, uaio-dynamic,
 * is installed beside the library. The dynamic build does what needs the library inside
 * the command: requests of `uaio doctor`, and becoming a program for --trap.
 */

bool uaio_is_static(void);

/*
 * Find a dynamic build of the command whose loader exists on this system. Return:
 * whether there is one; its path and its loader's path.
 */
bool uaio_dynamic_find(char ret_path[PATH_MAX], char ret_loader[PATH_MAX]);

/*
 * Find the file to execute to get this command with a library preloaded. Return: false
 * if the command is static and there is no dynamic build.
 */
bool uaio_dynamic_own(char ret_path[PATH_MAX]);

#endif /* UAIO_TOOL_COMMON_LIBRARY_H */
