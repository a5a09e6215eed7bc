/* SPDX-License-Identifier: MIT */
/*
 * Programs that the program executes
 *
 * One that no library can be loaded into is executed as `uaio run --trap` does it: in its
 * place this process' own file, which becomes it. What cannot have the library is executed
 * as it is, and so is what is in doubt. It, and the caller, see what they would without
 * us:
 *
 *   I1  Our own file is executed only if the program itself could be, as far as can be
 *       known; if it fails all the same, the program is executed as it is.
 *   I2  It is executed only if its loader will find what it found for this process: the
 *       same variables, the same files, memory, and no filter of the program's own.
 *   I3  A signal that comes meanwhile comes to the program that is executed, or its handler
 *       is called before; in no case is it blocked there.
 *   I4  If the process can then not become the program, it executes it as it is
 *       (UAIO_TRAP_CHILD).
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_EXEC_H
#define UAIO_TRAP_EXEC_H

#include "trap/thread.h"
#include "trap/trap.h"

/* envp: the environment as the process was given it. */
void uaio_trap_exec_begin(const struct uaio_trap_ops *ops, char **envp);

/* The program is about to install a filter of system calls. */
void uaio_trap_exec_filtered(void);

/*
 * The system calls execve and execveat.
 * Return: the error; or the number of the call, which is then made once more, when
 * handlers of signals have been called.
 */
long uaio_trap_exec(struct uaio_trap_thread *self, long nr, const long a[6]);

#endif /* UAIO_TRAP_EXEC_H */
