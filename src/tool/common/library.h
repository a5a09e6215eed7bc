/* SPDX-License-Identifier: MIT */
/*
 * Finds the library, and the programs installed with it. The first of these directories
 * that contains the library is used:
 *
 *   1. the directory of the running `uaio`, if this directory is in a build tree;
 *   2. the directory of installed libraries, by its path relative to the running
 *      `uaio`, so that an installed tree can be moved or staged as a whole;
 *   3. the directory of installed libraries, by its configured absolute path: for a
 *      `uaio` that was copied alone, and if there is no /proc.
 *
 * Tested by test/run/environment.py.
 */
#ifndef UAIO_TOOL_COMMON_LIBRARY_H
#define UAIO_TOOL_COMMON_LIBRARY_H

#include <limits.h>
#include <stdbool.h>

#define UAIO_LIBRARY "libuaio.so.0"

/*
 * A library that LD_PRELOAD names before libuaio.so.0. It tells libuaio.so.0 which
 * memory the program frees.
 */
#define UAIO_CHECK_LIBRARY "libuaio-check.so"

/*
 * Find the library's directory and write its canonical path to @ret_dir. Fails if
 * LD_PRELOAD or LD_LIBRARY_PATH cannot hold this path.
 *
 * Return: 0, or the exit status after a message.
 */
int uaio_library_find(char ret_dir[PATH_MAX]);

/*
 * Examine the library in @dir. The loader ignores a library that it cannot load, and
 * runs the program without it.
 *
 * Return: 0, or the exit status after a message.
 */
int uaio_library_check(const char *dir);

/*
 * Return: 0 if the loader can load the library @path, as far as its file shows; else
 * -errno, which is -ENOEXEC if the file is damaged.
 */
int uaio_library_try(const char *path);

/*
 * Return: whether the library was built for musl, so that only musl programs can load
 * it. The answer is no if this command was built for glibc, because both are built
 * together.
 */
bool uaio_library_is_for_musl(void);

/*
 * Find a program that is installed with the library, or built in the same tree as this
 * command.
 * Return: whether it exists.
 */
bool uaio_library_find_program(const char *name, char ret_path[PATH_MAX]);

/* locate.c */

/*
 * Write the directory of the running command to @ret_dir.
 *
 * Return: false if neither /proc nor the path by which the command was executed shows
 * this directory.
 */
bool uaio_own_directory(char ret_dir[PATH_MAX]);

/*
 * Join @dir and @relative. Resolve each leading "../" of @relative, so that messages
 * show "/usr/lib/uaio" and not "/usr/bin/../lib/uaio".
 *
 * Return: false if the result is too long for a path.
 */
bool uaio_locate(const char *dir, const char *relative,
		 char ret_path[PATH_MAX]);

/* preload.c */

/*
 * Put the library in @dir first in LD_PRELOAD. Put @dir first in LD_LIBRARY_PATH,
 * because @dir has links with the names of libaio. If UAIO_CHECK_VARIABLE is set and
 * libuaio-check.so exists, put libuaio-check.so before the library in LD_PRELOAD. Also
 * set sanitizer options without which programs with sanitizers do not start or do not
 * survive a fork.
 *
 * Return: 0, or -ENOMEM.
 */
int uaio_preload_set(const char *dir);

/*
 * dynamic.c: finds the dynamic build of this command
 *
 * In a release the command is static, so that it runs with any C library. But no
 * library can be preloaded into a static program. So a dynamic build of the command,
 * uaio-dynamic, is installed beside the library. The command executes the dynamic build
 * to have the library in its own process. `uaio doctor` needs this for its test
 * requests. `uaio run --trap` needs the library there because the process then becomes
 * the program.
 */

bool uaio_is_static(void);

/*
 * Find a dynamic build of the command whose loader exists on this system.
 * Return: whether there is one. *ret_path: its path; *ret_loader: its loader's path.
 */
bool uaio_dynamic_find(char ret_path[PATH_MAX], char ret_loader[PATH_MAX]);

/*
 * Find a build of this command into which a library can be preloaded: the running file
 * or, if this is static, the dynamic build.
 * Return: false if the command is static and there is no dynamic build.
 */
bool uaio_dynamic_own(char ret_path[PATH_MAX]);

#endif /* UAIO_TOOL_COMMON_LIBRARY_H */
