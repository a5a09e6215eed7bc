/* SPDX-License-Identifier: MIT */
/*
 * Can the library be put in front of a program? LD_PRELOAD is only a wish to
 * the loader, which drops it in silence for a privileged program and never sees
 * it for a static one. A user who asked for the library and got the kernel
 * without a word is worse off than one who is told.
 */
#ifndef UAIO_TOOL_TARGET_H
#define UAIO_TOOL_TARGET_H

/*
 * Examines what @path would bring to run: its own ELF file, or the interpreter
 * of the script it is. Where that cannot be read there is no message.
 *
 * Return: 0, or the exit status after a message.
 */
int uaio_target_check(const char *path);

#endif
