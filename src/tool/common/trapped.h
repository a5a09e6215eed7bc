/* SPDX-License-Identifier: MIT */
/*
 * Runs a program into which the library cannot be loaded. This command executes itself
 * again, with the library preloaded. The library then loads the program into this
 * process and starts it (src/trap).
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TOOL_COMMON_TRAPPED_H
#define UAIO_TOOL_COMMON_TRAPPED_H

#include <stdbool.h>

/*
 * For its second execution, this command puts the program's path into this environment
 * variable. The program does not inherit it.
 */
#define UAIO_TRAP_PROGRAM "UAIO_TRAP_PROGRAM"

/*
 * If a program under the trap executes another program, the library executes this
 * command instead (trap/exec.h), and sets this environment variable. Its value is
 * "mask:path": the signal mask and the path of the new program. The library blocks all
 * signals before it executes this command; the new program starts with the mask. If the
 * trap fails, this command executes the new program without the library.
 */
#define UAIO_TRAP_CHILD "UAIO_TRAP_CHILD"

/*
 * Return: 0 if the trap can be used; else an errno: the machine does not support it, or
 * a seccomp filter denies it.
 */
int uaio_trapped_try(void);

/*
 * Execute this command again; the new execution starts the program.
 * Return: -errno, only on failure.
 */
int uaio_trapped_exec(const char *path, char **argv);

/* Return: whether this process was executed to start a program under the trap. */
bool uaio_trapped_is_asked(void);

/*
 * Start the program in this process.
 * Return: the exit status, only on failure.
 */
int uaio_trapped_main(char **argv, char **envp);

#endif /* UAIO_TOOL_COMMON_TRAPPED_H */
