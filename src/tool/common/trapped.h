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
 * An environment variable of the command that is executed once more: the path of the
 * program that its process becomes. The program does not inherit the variable.
 */
#define UAIO_TRAP_PROGRAM "UAIO_TRAP_PROGRAM"

/*
 * The same for a program that a program under the trap executes (trap/exec.h). The
 * library sets it to "mask:path", and executes this command with all signals blocked. The
 * mask is the signal mask that the program gets. If the process cannot become the
 * program, it executes the program without the library.
 */
#define UAIO_TRAP_CHILD "UAIO_TRAP_CHILD"

/* Return: 0; an errno if the processor or kernel has no trap, or a filter refuses it. */
int uaio_trapped_try(void);

/* Execute this command once more, to become the program. Return: -errno. */
int uaio_trapped_exec(const char *path, char **argv);

/* Return: whether this process is to become a program. */
bool uaio_trapped_is_asked(void);

/* Become the program. Return: the exit status, only if that fails. */
int uaio_trapped_main(char **argv, char **envp);

#endif /* UAIO_TOOL_COMMON_TRAPPED_H */
