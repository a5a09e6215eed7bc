/* SPDX-License-Identifier: MIT */
/*
 * Running a program into which the library cannot be loaded: this command executes
 * itself again, with the library preloaded, and the library turns the process into the
 * program (src/trap).
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TOOL_COMMON_TRAPPED_H
#define UAIO_TOOL_COMMON_TRAPPED_H

#include <stdbool.h>

/*
 * An environment variable for the second execution of this command: the path of the
 * program to become. The program does not inherit the variable.
 */
#define UAIO_TRAP_PROGRAM "UAIO_TRAP_PROGRAM"

/*
 * A variable like UAIO_TRAP_PROGRAM, for a program that is executed under the trap
 * (trap/exec.h). The library sets it to "mask:path", and executes this command with all
 * signals blocked. The program starts with this signal mask. If the process cannot
 * become the program, it executes the program without the library.
 */
#define UAIO_TRAP_CHILD "UAIO_TRAP_CHILD"

/* Return: 0; an errno if the machine has no trap, or a filter refuses it. */
int uaio_trapped_try(void);

/* Execute this command again, to become the program. Return: -errno. */
int uaio_trapped_exec(const char *path, char **argv);

/* Return: whether this process is to become a program. */
bool uaio_trapped_is_asked(void);

/* Become the program. Return: the exit status, only if that fails. */
int uaio_trapped_main(char **argv, char **envp);

#endif /* UAIO_TOOL_COMMON_TRAPPED_H */
