/* SPDX-License-Identifier: MIT */
/*
 * The dynamic build of the command
 *
 * In a release the command is static, so that it starts whatever C library an image has.
 * A static program cannot have the library preloaded. So a dynamic build of the command,
 * uaio-dynamic, is installed beside the library. It does what needs the library inside
 * the command: the requests that `uaio doctor` makes, and becoming a program for --trap.
 *
 * Tested by test/anywhere/release.py.
 */
#ifndef UAIO_TOOL_COMMON_DYNAMIC_H
#define UAIO_TOOL_COMMON_DYNAMIC_H

#include <limits.h>
#include <stdbool.h>

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

#endif /* UAIO_TOOL_COMMON_DYNAMIC_H */
