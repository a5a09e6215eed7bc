/* SPDX-License-Identifier: MIT */
/*
 * Finding what is installed: the library, and programs beside it. The first of these
 * directories that contains the library is taken:
 *
 *   1. the directory of the running `uaio`, which has it in a build tree;
 *   2. the directory of installed libraries, found by its path relative to the
 *      running `uaio`, so that an installed tree can be moved or staged as a
 *      whole;
 *   3. the directory of installed libraries, by its configured absolute path:
 *      for a `uaio` that was copied on its own, and where there is no /proc.
 *
 * Tested by test/run/environment.py.
 */
#ifndef UAIO_TOOL_COMMON_LIBRARY_H
#define UAIO_TOOL_COMMON_LIBRARY_H

#include <limits.h>
#include <stdbool.h>

#define UAIO_LIBRARY "libuaio.so.0"

/* Beside it, and in front of it: has the library see what memory the program frees. */
#define UAIO_CHECK_LIBRARY "libuaio-check.so"

/*
 * Finds the library's directory and writes its canonical path to @ret_dir. A
 * path that LD_PRELOAD or LD_LIBRARY_PATH could not hold is refused.
 *
 * Return: 0, or the exit status after a message.
 */
int uaio_library_find(char ret_dir[PATH_MAX]);

/*
 * Return: whether the library was built for musl, and only programs for musl can load
 * it. A command that was built for glibc has one for glibc.
 */
bool uaio_library_is_for_musl(void);

/*
 * Find the program of that name that is installed with the library, or stands beside
 * the command in its build tree.
 * Return: whether it is there.
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
 * Puts the library in @dir first in LD_PRELOAD, and @dir first in
 * LD_LIBRARY_PATH: it has the links that bear libaio's names. Lets programs with
 * AddressSanitizer start in spite of that. In the environment of `uaio check`
 * (UAIO_CHECK_VARIABLE) libuaio-check.so comes before the library, if it is there.
 *
 * Return: 0, or -ENOMEM.
 */
int uaio_preload_set(const char *dir);

/*
 * dynamic.c: the dynamic build of the command
 *
 * In a release the command is static, so that it starts whatever C library an image has.
 * A static program cannot have the library preloaded. So a dynamic build of the command,
 * uaio-dynamic, is installed beside the library. It does what needs the library inside
 * the command: the requests that `uaio doctor` makes, and becoming a program for --trap.
 */

bool uaio_is_static(void);

/*
 * Find a dynamic build whose loader this system has.
 * Return: whether there is one, with its path, and that of its loader.
 */
bool uaio_dynamic_find(char ret_path[PATH_MAX], char ret_loader[PATH_MAX]);

/*
 * Find the file to execute so that this command has a library preloaded.
 * Return: false if the command is static, and there is no dynamic build.
 */
bool uaio_dynamic_own(char ret_path[PATH_MAX]);

#endif /* UAIO_TOOL_COMMON_LIBRARY_H */
