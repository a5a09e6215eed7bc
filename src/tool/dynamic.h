/* SPDX-License-Identifier: MIT */
/*
 * The dynamic build of the command
 *
 * In a release the command is static, so that it starts whatever C library an image has.
 * A static program can neither load the library nor have it preloaded. So a dynamic build
 * of the command, uaio-dynamic, is installed beside the library. It does what needs the
 * library inside the command: `uaio doctor`, and becoming a program for --trap.
 *
 * Tested by test/anywhere/release.py.
 */
#ifndef UAIO_TOOL_DYNAMIC_H
#define UAIO_TOOL_DYNAMIC_H

#include <limits.h>
#include <stdbool.h>

bool uaio_is_static(void);

/*
 * Find a dynamic build whose loader this system has.
 * Return: whether there is one, with its path, and that of its loader.
 */
bool uaio_dynamic_find(char ret_path[PATH_MAX], char ret_loader[PATH_MAX]);

/* Execute the dynamic build in place of a static one. Return: there is none. */
void uaio_dynamic_exec(char **argv);

#endif /* UAIO_TOOL_DYNAMIC_H */
