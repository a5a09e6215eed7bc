/* SPDX-License-Identifier: MIT */
/*
 * The libraries that a program would be loaded with
 *
 * The loader that this tool was itself loaded by lists them, or for a program for musl
 * its loader in /lib, which runs nothing of the program's. A static
 * tool has the loader of its dynamic build.
 *
 * Tested by test/run/doctor_programs.py.
 */
#ifndef UAIO_TOOL_COMMON_NEEDED_H
#define UAIO_TOOL_COMMON_NEEDED_H

/*
 * Call see() for each library: its name, and the path where it is, or NULL if it is
 * not found.
 * Return: 0, or -errno if there is no list.
 */
int uaio_needed_list(const char *program,
		     void (*see)(void *arg, const char *name, const char *path),
		     void *arg);

#endif /* UAIO_TOOL_COMMON_NEEDED_H */
