/* SPDX-License-Identifier: MIT */
/*
 * Running a program that the library cannot be loaded into: this command is executed
 * once more, with the library and with the program's arguments, and the library makes
 * the process that program (src/trap).
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TOOL_COMMON_TRAPPED_H
#define UAIO_TOOL_COMMON_TRAPPED_H

#include <stdbool.h>

/*
 * The variable: the program's path, of the process that becomes it, which does not
 * hand it on.
 */
#define UAIO_TRAP_PROGRAM "UAIO_TRAP_PROGRAM"

/*
 * "mask:path", set by the library when a program under the trap executes this one
 * (trap/exec.h), with all signals blocked: the mask is the program's. If the process
 * cannot become it, it executes it as it is.
 */
#define UAIO_TRAP_CHILD "UAIO_TRAP_CHILD"

/* Return: 0, or an errno if the processor or the kernel has no trap, or a filter refuses. */
int uaio_trapped_try(void);

/* Execute this command so that it becomes the program. Return: -errno. */
int uaio_trapped_exec(const char *path, char **argv);

/* Return: whether this is such a process. */
bool uaio_trapped_is_asked(void);

/* Become the program. Return: the exit status, if it cannot be. */
int uaio_trapped_main(char **argv, char **envp);

#endif /* UAIO_TOOL_COMMON_TRAPPED_H */
